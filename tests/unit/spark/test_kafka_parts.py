"""Options, values and positions of Kafka sources and sinks, without a broker."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.compile.explain import explain
from foretide.errors import ConfigError
from foretide.kafka import BrokerError, DataLossError, Offsets
from foretide.kafka.values import decode, encode_json
from foretide.spark.errors import OperatorError
from foretide.spark.inputs.contract import InputSpec
from foretide.spark.inputs.kafka import KafkaInput, share
from foretide.spark.kafka_options import KafkaSinkPlan, KafkaSourcePlan
from foretide.spark.sinks.kafka import MessageEncoder
from foretide.topology import flow

GOOD = {"servers": "localhost:9092", "topic": "orders", "schema": "id long"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"servers": ""}, "source 'in': servers.*a text such as 'localhost:9092'"),
        ({"topic": None}, "source 'in': topic"),
        ({"schema": ""}, "add schema=, or choose format='string'"),
        ({"format": "avro"}, "one of json, string, binary, got avro"),
        ({"format": "string"}, "none for values of format 'string'"),
        ({"starting": "monday"}, "earliest, latest, or offsets by partition"),
        ({"starting": {0: -3}}, "earliest, latest, or offsets by partition"),
        ({"metadata": ["colour"]}, "names among key, topic, partition"),
        ({"patience_s": -1}, "seconds, 0 or more"),
        ({"on_data_loss": "cry"}, "one of fail, continue"),
        ({"bootstrap": "x"}, "an option among"),
        ({"client": "SSL"}, "settings of the client"),
        ({"max_rows": 7}, "an option among"),
    ],
)
def test_a_wrong_option_is_named(change: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        KafkaSourcePlan.of("in", {**GOOD, **change})


def test_a_sinks_wrong_option_is_named() -> None:
    with pytest.raises(ConfigError, match=r"sink 'out': schema.*an option among"):
        KafkaSinkPlan.of("out", GOOD)


class Topic(KafkaInput):
    """A topic whose offsets the test tells; None while its broker is away."""

    def __init__(self, held: dict[int, Offsets] | None, *, lenient: bool = False, **options: Any) -> None:
        super().__init__(InputSpec("in", "kafka", {**GOOD, **options}), lenient=lenient)
        self.held = held

        class _Cluster:
            who = "source 'in'"

            def offsets(_, topic: str) -> dict[int, Offsets]:  # noqa: N805
                if self.held is None:
                    raise BrokerError(self._cluster.who, "localhost:9092", 0.0, "no answer")
                return self.held

        self._cluster = _Cluster()  # type: ignore[assignment]


def test_a_batch_takes_from_partitions_what_waits_there() -> None:
    topic = Topic({0: Offsets(10, 40), 1: Offsets(0, 10)})
    start = topic.begin(0)
    assert topic.available(start, 0) == 40
    batch = topic.advance(start, 20)
    assert (batch["first"], batch["next"]) == (0, 20)
    assert (batch["from"], batch["to"]) == ({"0": 10, "1": 0}, {"0": 25, "1": 5})
    again = json.loads(json.dumps(batch))
    assert topic.available(again, 0) == 40
    slices = topic.slices(again, 3)
    assert [sum(part.rows for part in run[0].ranges) for run in slices] == [7, 7, 6]


def test_the_position_before_a_batch_knows_the_partitions_too() -> None:
    topic = Topic({0: Offsets(10, 40), 1: Offsets(0, 10)})
    first = topic.advance(_looked(topic), 20)
    second = topic.advance(first, 30)
    before = topic.before(second)
    assert (before["next"], before["to"]) == (first["next"], first["to"])
    assert topic.available(before, 0) == 40


def test_who_only_looks_takes_old_news_of_a_topic_for_no_loss() -> None:
    topic = Topic({0: Offsets(0, 40), 1: Offsets(0, 10)}, lenient=True)
    start = topic.begin(0)
    assert topic.available(start, 0) == 50
    topic.held = None  # the broker rests, and others have read on meanwhile
    later = {**start, "next": 44, "to": {"0": 44, "1": 0}}
    assert topic.available(later, 0) == 54
    topic.held = {0: Offsets(0, 40), 1: Offsets(0, 10)}  # it is back, and messages are gone
    with pytest.raises(DataLossError, match="recreated or truncated"):
        topic.available(later, 0)


@pytest.mark.parametrize(("starting", "waiting"), [("earliest", 40), ("latest", 0), ({0: 35}, 15)])
def test_where_a_run_begins(starting: Any, waiting: int) -> None:
    topic = Topic({0: Offsets(10, 40), 1: Offsets(0, 10)}, starting=starting)
    assert topic.available(topic.begin(0), 0) == waiting


def test_an_endless_source_always_expects_one_more() -> None:
    held = {0: Offsets(0, 5)}
    endless, ending = Topic(held), Topic(held, ending="latest")
    never_us = 1 << 60
    assert endless.available(endless.advance(_looked(endless), 5), never_us) == 6
    place = ending.advance(_looked(ending), 5)
    ending.held = {0: Offsets(0, 9), 1: Offsets(0, 3)}
    assert ending.available(place, never_us) == 5


def _looked(topic: Topic) -> dict[str, Any]:
    start = topic.begin(0)
    topic.available(start, 0)
    return start


def test_a_new_partition_is_read_from_its_first_message() -> None:
    topic = Topic({0: Offsets(0, 5)})
    place = topic.advance(_looked(topic), 5)
    topic.held = {0: Offsets(0, 5), 1: Offsets(0, 7)}
    assert topic.available(place, 0) == 12
    assert topic.advance(place, 12)["to"] == {"0": 5, "1": 7}


@pytest.mark.parametrize(
    ("held", "message", "left"),
    [
        (
            Offsets(8, 20),
            "expected events from offset 5 on in partition 0.*offsets 8 to 20: older ones were deleted",
            12,
        ),
        (Offsets(0, 3), "offsets 0 to 3: the topic was recreated or truncated", 3),
    ],
)
def test_lost_events_are_an_error_unless_accepted(held: Offsets, message: str, left: int) -> None:
    strict, lossy = Topic({0: Offsets(0, 5)}), Topic({0: Offsets(0, 5)}, on_data_loss="continue")
    place = strict.advance(_looked(strict), 5)
    strict.held = lossy.held = {0: held}
    with pytest.raises(DataLossError, match=message):
        strict.available(place, 0)
    assert lossy.available(place, 0) == 5 + left


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 1000), min_size=1), st.integers(0, 5000))
def test_shares_add_up_and_stay_within_what_waits(waiting: dict[int, int], rows: int) -> None:
    found = share(waiting, rows)
    assert sum(found.values()) == min(rows, sum(waiting.values()))
    assert all(0 <= found[part] <= waiting[part] for part in waiting)


texts = st.text(st.characters(exclude_categories=("Cs",)))
rows = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.none() | st.integers(-(2**63), 2**63 - 1),
            "text": st.none() | texts,
            "part": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "yes": st.none() | st.booleans(),
        }
    ),
    min_size=1,
    max_size=20,
)
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string()), ("part", pa.float64()), ("yes", pa.bool_())])


@given(rows)
def test_rows_in_json_are_read_back_as_they_were(found: list[dict[str, Any]]) -> None:
    values = encode_json(pa.RecordBatch.from_pylist(found, SCHEMA)).to_pylist()
    assert [json.loads(value) for value in values] == found
    read, places, letters = decode(values, "json", SCHEMA, "in")
    assert (read.to_pylist(), places, letters) == (found, list(range(len(found))), [])


def test_times_lists_and_what_is_no_number_have_a_form_in_json() -> None:
    batch = pa.record_batch(
        {
            "at": pa.array([dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.UTC)], pa.timestamp("us", "UTC")),
            "all": pa.array([[1, 2]]),
            "odd": pa.array([float("nan")]),
            "raw": pa.array([b"x"]),
        }
    )
    [value] = encode_json(batch).to_pylist()
    assert json.loads(value) == {"at": "2026-01-02T03:04:05.000006Z", "all": [1, 2], "odd": None, "raw": "x"}
    read, _, _ = decode([value], "json", pa.schema([("at", pa.timestamp("us", "UTC"))]), "in")
    assert read["at"].to_pylist() == batch["at"].to_pylist()


def test_values_on_several_lines_are_one_row_and_two_objects_are_none() -> None:
    values = [b'{\n "id": 1\n}', b'{"id": 2}{"id": 3}', b""]
    read, places, letters = decode(values, "json", pa.schema([("id", pa.int64())]), "in")
    assert (read.to_pydict(), places) == ({"id": [1, None]}, [0, 2])
    assert [letter.event for letter in letters] == [json.dumps('{"id": 2}{"id": 3}')]


def test_texts_that_are_no_utf8_are_set_aside() -> None:
    read, places, letters = decode([b"a", b"\xff", None], "string", None, "in")
    assert (read.to_pydict(), places, len(letters)) == ({"value": ["a", None]}, [0, 2], 1)
    assert decode([b"\xff"], "binary", None, "in")[0].to_pydict() == {"value": [b"\xff"]}


def test_messages_have_key_value_and_headers() -> None:
    options = {"servers": "x", "topic": "y", "format": "string", "column": "text", "key": "id", "headers": ["lang"]}
    encode = MessageEncoder("out", KafkaSinkPlan.of("out", options))
    batch = pa.record_batch({"id": [7], "text": ["ä"], "lang": ["de"]})
    assert encode(batch).to_pydict() == {"value": ["ä".encode()], "key": [b"7"], "header lang": [b"de"]}
    with pytest.raises(OperatorError, match=r"'out'.*expected the column 'lang'.*got columns \['id', 'text'\]"):
        encode(batch.select(["id", "text"]))


def test_the_plan_says_how_partitions_bound_tasks() -> None:
    job = flow("orders")
    job.source("in", "kafka", **GOOD).operator("work", replicas=(1, 8)).sink("out", "kafka", servers="x", topic="y")
    [stage] = explain(job.build()).stages
    read, written = (edge.why for edge in stage.edges)
    assert read.startswith("tasks read ranges of offsets, so they may outnumber the topic's partitions; ")
    assert written == "tasks send messages, each in a transaction of its own"


@pytest.mark.parametrize(
    ("mode", "options", "sender"),
    [
        ("rows", {}, "tasks send"),
        ("rows", {"written_by": "driver"}, "the driver sends"),
        ("dataframe", {}, "the driver"),
    ],
)
def test_the_plan_says_who_sends_messages(mode: Any, options: dict[str, Any], sender: str) -> None:
    job = flow("orders")
    rows = job.source("in", "kafka", **GOOD).operator("work", mode=mode)
    rows.sink("out", "kafka", servers="x", topic="y", **options)
    [stage] = explain(job.build()).stages
    assert sender in stage.edges[-1].why


def test_who_sends_messages_is_tasks_or_the_driver() -> None:
    with pytest.raises(ConfigError, match=r"sink 'out': written_by.*tasks, driver.*nobody"):
        KafkaSinkPlan.of("out", {"servers": "x", "topic": "y", "written_by": "nobody"})
