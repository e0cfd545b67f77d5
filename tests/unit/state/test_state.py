"""State by key without Spark: keys, rows, views, the deal, and a state that is kept from batch to batch."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from counted_state import SCHEMA, Counting, counted, expected, found
from hypothesis import given
from hypothesis import strategies as st
from object_stores import keep_in_memory
from typer.testing import CliRunner

from foretide.cli import app
from foretide.depot import open_depot
from foretide.errors import ConfigError
from foretide.state.changes import Snapshot
from foretide.state.deal import Costs, Dealt, deal_out
from foretide.state.errors import StateError
from foretide.state.keys import MOST_KEY_BYTES, decode_key, distinct_keys, encode_keys, partitions_of
from foretide.state.ledger import StateLedger
from foretide.state.reading import read_state
from foretide.state.rows import RowCodec
from foretide.state.task import TaskState, _made
from foretide.state.view import PartitionView

NOW = datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.array([1, -1, None, 2**62]), [1, -1, None, 2**62]),
        (pa.array([True, False]), [1, 0]),
        (pa.array([0.5, -0.0, None]), [0.5, 0.0, None]),
        (pa.array(["", "ä", None, "x" * 400]), ["", "ä", None, "x" * 400]),
        (pa.array([b"\0", b"", None]), [b"\0", b"", None]),
        (pa.array([NOW], pa.timestamp("us", "UTC")), [NOW]),
        (pa.array(["a", "a"]).dictionary_encode(), ["a", "a"]),
        (pa.array([None, None]), [None, None]),
    ],
)
def test_a_key_can_be_read_from_its_bytes(column: pa.Array, values: list[Any]) -> None:
    assert [decode_key(key) for key in encode_keys([column])] == [(value,) for value in values]
    pairs = [decode_key(key) for key in encode_keys([column, pa.array(range(len(column)))])]
    assert pairs == [(value, place) for place, value in enumerate(values)]


@given(st.lists(st.tuples(st.text(max_size=4), st.binary(max_size=4), st.none() | st.integers(-9, 9)), min_size=1))
def test_different_keys_are_different_bytes(rows: list[tuple[str, bytes, int | None]]) -> None:
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    assert len(set(encode_keys(columns))) == len(set(rows))
    first, number = distinct_keys(columns)
    assert [rows[first[at]] for at in number] == rows and len(first) == len(set(rows))


def test_keys_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match=f"at most {MOST_KEY_BYTES} bytes, got one of 602"):
        encode_keys([pa.array(["x" * 600])])
    with pytest.raises(ConfigError, match="expected columns of numbers"):
        encode_keys([pa.array([[1]])])


@pytest.mark.parametrize(
    "rows",
    [
        {"a": pa.array([1, None, 3], pa.int16()), "b": pa.array([None, 1.5, 2.5]), "c": pa.array([True, None, False])},
        {"at": pa.array([NOW, None], pa.timestamp("us", "UTC")), "day": pa.array([NOW.date(), None], pa.date32())},
        {"text": pa.array(["x", None]), "many": pa.array([[1, 2], None]), "n": pa.array([1, 2])},
    ],
)
def test_rows_are_the_same_after_they_were_bytes(rows: dict[str, pa.Array]) -> None:
    batch = pa.record_batch(rows)
    codec = RowCodec(batch.schema)
    encoded = codec.encode(batch)
    assert codec.decode(encoded).equals(batch)
    missing = codec.decode([encoded[1], None])
    assert missing.to_pylist()[0] == batch.to_pylist()[1] and set(missing.to_pylist()[1].values()) == {None}
    assert codec.decode([]).num_rows == 0


def test_partitions_of_equal_cost_are_dealt_evenly_and_few_move() -> None:
    costs = np.ones(64)
    four = deal_out(costs, 4)
    assert np.bincount(four).tolist() == [16] * 4
    assert (deal_out(costs, 4, four) == four).all()
    five = deal_out(costs, 5, four)
    assert (five != four).sum() <= 13 and np.bincount(five).max() <= 14
    assert (deal_out(costs, 1, five) == 0).all()


def test_costs_are_balanced() -> None:
    costs = np.random.default_rng(0).zipf(1.6, 64).clip(max=40).astype(float)
    loads = np.bincount(deal_out(costs, 6), weights=costs)
    by_number = np.bincount(np.arange(64) * 6 // 64, weights=costs)
    assert loads.max() <= max(costs.max(), 1.1 * loads.mean()) < by_number.max()


def test_keys_and_rows_have_prices_of_their_own() -> None:
    costs = Costs(3)
    rows, keys = np.array([5000.0, 10.0, 100.0]), np.array([1.0, 10.0, 100.0])
    for _ in range(30):
        # A task takes 1 ms for a key, and next to nothing for a row.
        costs.learn(rows, keys, [(5000, 1, 0.001 + 5e-6), (110, 110, 0.11)])
    assert costs.seconds == pytest.approx(1e-3 * keys, rel=0.02)


@pytest.mark.parametrize("tasks", [[], [(10, 10, 0.1)], [(10, 10, 0.1), (20, 20, 0.2)], [(10, 1, 0.2), (10, 9, 0.1)]])
def test_prices_that_cannot_be_told_apart_are_not_below_nothing(tasks: list[tuple[float, float, float]]) -> None:
    costs = Costs(2)
    costs.learn(np.array([10.0, 20.0]), np.array([1.0, 2.0]), tasks)
    assert np.isfinite(costs.seconds).all() and (costs.seconds >= 0).all() and bool(costs.seconds.any()) == bool(tasks)


def test_rows_reach_the_task_that_has_their_key() -> None:
    keys = pa.array([f"user-{number}" for number in range(500)])
    deal = deal_out(np.ones(8), 3)
    from foretide.grouping import hash_columns

    assert (Dealt(deal, 3).assign(hash_columns([keys])).replicas == deal[partitions_of([keys], 8)]).all()


def test_a_state_is_kept_from_batch_to_batch(tmp_path: Path) -> None:
    counting = Counting(tmp_path)
    assert counting.run([1, 2, 3]) == {1: 0, 2: 0, 3: 0}
    assert counting.run([1, 2], tasks=3) == {1: 1, 2: 1}
    assert counting.run([1, -3], tasks=1) == {1: 2, 3: 1}
    assert counting.run([1, 2, 3], tasks=5) == {1: 3, 2: 2, 3: 0}


def test_an_attempt_that_is_not_committed_changes_nothing(tmp_path: Path) -> None:
    counting = Counting(tmp_path)
    counting.run([1, 2])
    assert counting.run([1, 2], commit=False) == counting.run([1, 2], tasks=3, commit=False) == {1: 1, 2: 1}
    assert counting.run([1, 2]) == {1: 1, 2: 1}


def test_a_batch_that_was_committed_begins_again_with_the_same_state(tmp_path: Path) -> None:
    counting = Counting(tmp_path)
    counting.run([1])
    counting.run([1])
    # As after a death between the commit of the state and that of a sink.
    counting.batch -= 1
    again = Counting(tmp_path)
    again.batch = counting.batch
    assert again.run([1], tasks=3) == {1: 1}
    assert again.run([1]) == {1: 2}


@pytest.mark.parametrize("forget", [False, True], ids=["own", "read"])
def test_another_machine_catches_up_from_the_changelog(tmp_path: Path, forget: bool) -> None:
    here = Counting(tmp_path)
    for _ in range(5):
        here.run([1, 2, 3], forget=forget)
        _made.clear()
    there = Counting(tmp_path, views="elsewhere")
    there.batch = here.batch
    assert there.run([1, 2, 3, 4], tasks=3) == {1: 5, 2: 5, 3: 5, 4: 0}
    here.batch = there.batch
    assert here.run([1, 4]) == {1: 6, 4: 1}


def test_snapshots_bound_the_changelog_and_carry_the_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foretide.state.ledger._LEAST_ROWS", 50)
    counting = Counting(tmp_path)
    held = []
    for _ in range(60):
        counting.run([1, 2, 3, 4, 5])
        held.append(counting.ledger.log.end_offset() - counting.ledger.log.first_offset())
    assert counting.ledger.log.first_offset() > 0 and max(held) < 150
    assert len(list((tmp_path / "state" / "count" / "snapshots").iterdir())) <= 8
    anew = Counting(tmp_path, views="elsewhere")
    anew.batch = counting.batch
    assert anew.run([1, 5, 6], tasks=3) == {1: 60, 5: 60, 6: 0}


def test_a_key_that_nobody_touches_does_not_hold_the_changelog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foretide.state.ledger._LEAST_ROWS", 20)
    counting = Counting(tmp_path)
    counting.run(list(range(30)))
    for _ in range(100):
        counting.run([1])
    assert counting.ledger.log.first_offset() > 30
    anew = Counting(tmp_path, views="elsewhere")
    anew.batch = counting.batch
    assert anew.run([1, 29]) == {1: 101, 29: 1}


def test_a_task_that_was_overtaken_is_refused(tmp_path: Path) -> None:
    counting = Counting(tmp_path)
    counting.run([1])
    old = counting.ledger.order(counting.batch, counting.ledger.deal(1), None)
    counting.run([1])
    counting.run([1])
    with pytest.raises(StateError, match="expected its state at 1 of its changelog, got 2: another attempt"):
        TaskState(old, SCHEMA, counting.views).look_up(partitions_of([pa.array([1])], 8), encode_keys([pa.array([1])]))


def test_a_view_takes_no_change_that_leaves_a_gap(tmp_path: Path) -> None:
    view = PartitionView(tmp_path)
    with pytest.raises(StateError, match="expected offset 5, got -1"):
        view.apply([(b"\1a", b"1")], since=5, offset=6)
    view.apply([(b"\1a", b"1")], since=0, offset=6)
    view.apply([(b"\1a", b"2")], since=3, offset=6)
    assert view.get([b"\1a"]) == [b"1"]


def test_a_state_cannot_change_its_shape(tmp_path: Path) -> None:
    Counting(tmp_path)
    with pytest.raises(
        ConfigError, match=r"as its state has, 8, got 9; .*: foretide repartition \S+ count --partitions 9"
    ):
        Counting(tmp_path, partitions=9)
    with pytest.raises(ConfigError, match="columns as its run began with, and new ones after them: n long, got n int"):
        StateLedger(tmp_path / "state" / "count", "count", "r1", 7, partitions=8, key=["key"], columns="n int")


def test_a_state_can_be_read_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foretide.state.ledger._LEAST_ROWS", 10)
    counting = Counting(tmp_path)
    for _ in range(20):
        counting.run([1, 2, 3])
    counting.run([-2])
    counting.run([3], commit=False)
    assert (tmp_path / "state" / "count" / "snapshots").exists()
    assert sorted(read_state(tmp_path, "count").to_pylist(), key=lambda row: row["key"]) == [
        {"key": 1, "n": 20},
        {"key": 3, "n": 20},
    ]
    with pytest.raises(ConfigError, match=r"one whose state is kept in .*: count, got another; did you mean 'count'"):
        read_state(tmp_path, "counts")


def test_a_state_that_is_read_while_snapshots_are_replaced_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foretide.state.ledger._LEAST_ROWS", 10)
    counting, read = Counting(tmp_path), Snapshot.read
    for _ in range(20):
        counting.run([1, 2, 3])

    def slowly(snapshot: Snapshot) -> pa.Table:
        found = read(snapshot)
        if counting.batch < 60:
            for _ in range(20):
                counting.run([1, 2, 3])
        return found

    monkeypatch.setattr(Snapshot, "read", slowly)
    assert read_state(tmp_path, "count").to_pydict()["n"] == [counting.batch] * 3


def test_a_state_lives_in_an_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_in_memory(monkeypatch)
    monkeypatch.setattr("foretide.state.ledger._LEAST_ROWS", 10)
    place, depot = "s3://bucket/run", open_depot("s3://bucket/run")
    counting = counted(tmp_path, place=place)
    assert depot.names("state/count/snapshots") and not (tmp_path / "state").exists()
    # Elsewhere, without views: from what is kept.
    again = Counting(tmp_path, place=place, views="others", batch=counting.batch)
    assert again.run(list(range(10))) == dict.fromkeys(range(10), 30)
    assert read_state_error(place) == "one whose state is kept in s3://bucket/run: there is none"
    depot.put("topology.json", b'{"stages": {"in": {"keeps state of": ["count", "elsewhere"]}}}')
    assert found(place) == expected(31)
    shown = CliRunner().invoke(app, ["state", place, "count", "--key", "101", "--json"])
    assert shown.stdout == '{"key": 101, "n": 1}\n'


def read_state_error(place: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read_state(place, "count")
    return caught.value.expected


def test_a_state_without_changes_is_empty(tmp_path: Path) -> None:
    Counting(tmp_path)
    assert read_state(tmp_path, "count").num_rows == 0


def test_the_command_shows_states(tmp_path: Path) -> None:
    counting = Counting(tmp_path)
    counting.run([1, 2, 3])
    counting.run([2])

    def told(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["state", str(tmp_path), *words])
        return result.exit_code, result.output

    assert told() == (0, "count  3 keys\n")
    assert told("count", "--key", "2", "--json") == (0, '{"key": 2, "n": 2}\n')
    code, output = told("count", "--limit", "1")
    assert code == 0 and output.split()[:2] == ["key", "n"] and "2 more keys" in output
    code, output = told("count", "--key", "7")
    assert code == 2 and "expected a key that 'count' has state of, got 7" in " ".join(output.split())
    code, output = told("other")
    assert code == 2 and "one whose state is kept" in " ".join(output.split())


def test_a_partition_that_never_changed_needs_no_part_of_the_changelog(tmp_path: Path) -> None:
    counting = Counting(tmp_path)
    homes = partitions_of([pa.array(range(100))], 8)
    other = int(np.flatnonzero(homes != homes[1])[0])
    counting.run([1])
    # The view of one partition is behind by a part of the changelog, that of the other has nothing to catch up with.
    counting.run([1])
    assert counting.run([1, other], tasks=1) == {1: 2, other: 0}
    assert counting.run([1, other], tasks=2) == {1: 3, other: 1}
