"""What tasks of a stage do with rows, round by round, for every way rows can cross an edge."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from topologies import line, step

from foretide.compile.stages import compile_stages
from foretide.errors import ConfigError
from foretide.grouping import Dynamic, PartialKey
from foretide.spark.errors import OperatorError
from foretide.spark.tasks.cells import RESULT, read_result
from foretide.spark.tasks.contract import BatchOrder, Program
from foretide.spark.tasks.operators import OperatorSpec
from foretide.spark.tasks.program import StageTask, prepare
from foretide.spark.tasks.statistics import OperatorStatistics
from foretide.store import RuntimeConfig
from foretide.topology import GroupingSpec, Topology, flow
from foretide.traces import RateTrace, Replay, payload
from foretide.transport import ArrowLog, ArrowLogSettings
from foretide.transport.contract import SegmentInfo

STARTED_US = 1_700_000_000_000_000
REPLAY = Replay(RateTrace("even", 1.0, np.full(20, 250.0)), payload("words"), seed=5)
EVENTS = list(REPLAY.events(0, 5000, STARTED_US, max_rows=137))
ALL_ROWS = [row for batch in EVENTS for row in batch.to_pylist()]
ALL_IDS = [row["id"] for row in ALL_ROWS]

Local = Callable[..., Any]


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def grouped(grouping: GroupingSpec | str, queued: bool = False) -> Topology:
    """Return in -> a -> b -> out, the edge a -> b with a grouping."""
    second = step("b", same, grouping=grouping, queued=queued)
    return line(step("a", same), second, mode="arrow", sink={"kind": "memory"})


class TestChains:
    def test_operators_in_a_chain_run_in_the_task_that_read_the_rows(self, local_stage: Local) -> None:
        stage = local_stage(grouped("shuffle"), "in")
        batch = stage.run({"in": EVENTS}, 3)
        assert stage.stage.rounds == 0 and not batch.received
        assert sorted(ids(batch.at("out"))) == ALL_IDS
        dealt = {task: sum(part.num_rows for part in EVENTS[task::3]) for task in range(3)}
        assert batch.rows_in("a") == batch.rows_in("b") == dealt

    def test_statistics_add_up(self, local_stage: Local) -> None:
        job = flow("filter")
        odd = job.source("in").operator("odd", lambda row: row if row["id"] % 2 else None)
        odd.operator("twice", lambda row: [row, row]).sink("out", "memory")
        batch = local_stage(job.build(), "in").run({"in": EVENTS[:4]}, 2)
        total = sum(part.num_rows for part in EVENTS[:4])
        counts = Counter[str]()
        for result in batch.results:
            for id, amounts in result["operators"].items():
                part = OperatorStatistics(*amounts)
                counts.update({f"{id} in": part.rows_in, f"{id} out": part.rows_out, "failed": part.failed})
                assert part.busy_s > 0 and part.waited_s > 0 and part.failing_s == 0
                assert part.cpu_s > 0 and 0 <= part.stalled_s < part.busy_s
        assert counts == {
            "odd in": total,
            "odd out": total // 2,
            "twice in": total // 2,
            "twice out": total,
            "failed": 0,
        }
        # One row per event that reached the sink, counted by the instant it was due.
        assert sum(count for result in batch.results for _, count in result["event_times"]) == total

    def test_several_sources_and_unread_outputs(self, local_stage: Local) -> None:
        job = flow("two")
        one, two = job.source("one"), job.source("two")
        joined = job.operator(
            "join", lambda row: {"kept": row, "dropped": row}, inputs=[one, two], outputs=("kept", "dropped")
        )
        joined["kept"].sink("out", "memory")
        batch = local_stage(job.build(), "one").run({"one": EVENTS[:3], "two": EVENTS[3:6]}, 2)
        assert sorted(ids(batch.at("out"))) == ALL_IDS[: 6 * 137]


class TestExchanges:
    def test_fields_keeps_a_key_together(self, local_stage: Local) -> None:
        batch = local_stage(grouped("fields:key"), "in").run({"in": EVENTS}, 4)
        owners = defaultdict(set)
        for replica, rows in batch.received["a.out-b"].items():
            for row in rows:
                owners[row["key"]].add(replica)
        assert {len(found) for found in owners.values()} == {1}
        assert len(set().union(*owners.values())) == 4
        assert sorted(ids(batch.at("out"))) == ALL_IDS
        assert batch.rows_in("b") == {replica: len(rows) for replica, rows in batch.received["a.out-b"].items()}

    def test_fields_sends_a_key_to_the_same_replica_in_every_batch_and_from_every_task(
        self, local_stage: Local
    ) -> None:
        stage = local_stage(grouped("fields:key"), "in")
        owners = [
            {row["key"]: replica for replica, rows in batch.received["a.out-b"].items() for row in rows}
            for batch in (stage.run({"in": EVENTS[:10]}, 3), stage.run({"in": EVENTS[7:20][::-1]}, 3, batch_id=1))
        ]
        both = owners[0].keys() & owners[1].keys()
        assert len(both) > 10
        assert all(owners[0][key] == owners[1][key] for key in both)

    def test_null_keys_stay_together(self, local_stage: Local) -> None:
        keys = pa.array([None, "a", None, "b", None] * 20)
        rows = pa.record_batch({"id": pa.array(range(100), pa.int64()), "key": keys})
        batch = local_stage(grouped("fields:key"), "in").run({"in": [rows.slice(0, 50), rows.slice(50)]}, 2)
        holders = [r for r, got in batch.received["a.out-b"].items() if any(row["key"] is None for row in got)]
        assert len(holders) == 1
        assert sorted(ids(batch.at("out"))) == list(range(100))

    def test_all_gives_every_replica_a_copy(self, local_stage: Local) -> None:
        batch = local_stage(grouped("all"), "in").run({"in": EVENTS}, 3)
        assert {replica: sorted(ids(rows)) for replica, rows in batch.received["a.out-b"].items()} == dict.fromkeys(
            range(3), ALL_IDS
        )
        assert Counter(ids(batch.at("out"))) == dict.fromkeys(ALL_IDS, 3)

    def test_global_gives_all_to_replica_0(self, local_stage: Local) -> None:
        batch = local_stage(grouped("global"), "in").run({"in": EVENTS}, 3)
        assert batch.rows_in("b") == {0: 5000}
        assert sorted(ids(batch.at("out"))) == ALL_IDS

    def test_direct_goes_where_the_field_says(self, local_stage: Local) -> None:
        job = flow("direct")
        named = job.source("in").operator("name", lambda row: {"id": row["id"], "to": row["id"] % 3})
        named.operator("b", same, mode="arrow", grouping="direct:to").sink("out", "memory")
        batch = local_stage(job.build(), "in").run({"in": EVENTS}, 3)
        assert {r: {row["to"] for row in rows} for r, rows in batch.received["name.out-b"].items()} == {
            0: {0},
            1: {1},
            2: {2},
        }
        assert sorted(ids(batch.at("out"))) == ALL_IDS

    @pytest.mark.parametrize("to", [3, -1, None, "x"])
    def test_direct_to_no_replica_is_refused_with_names(self, local_stage: Local, to: object) -> None:
        job = flow("direct")
        named = job.source("in").operator("name", lambda row: {"id": row["id"], "to": to})
        named.operator("b", same, mode="arrow", grouping="direct:to").sink("out", "memory")
        with pytest.raises(OperatorError, match=r"operator 'name': expected .*'to'.*, got .*; change what"):
            local_stage(job.build(), "in").run({"in": EVENTS[:2]}, 3)

    def test_shuffle_with_an_exchange_evens_out_what_tasks_read(self, local_stage: Local) -> None:
        topology = grouped(GroupingSpec("shuffle", options={"exchange": True}))
        batch = local_stage(topology, "in").run({"in": EVENTS[:5]}, 4)  # tasks 0 to 3 read 2, 1, 1, 1 parts
        counts = batch.rows_in("b")
        assert sum(counts.values()) == 5 * 137 and max(counts.values()) - min(counts.values()) <= 4

    def test_partial_key_uses_two_replicas_of_a_key_at_most(self, local_stage: Local) -> None:
        batch = local_stage(grouped("partial-key:key"), "in").run({"in": EVENTS}, 4)
        owners = defaultdict(set)
        for replica, rows in batch.received["a.out-b"].items():
            for row in rows:
                owners[row["key"]].add(replica)
        assert max(map(len, owners.values())) == 2
        counts = list(batch.rows_in("b").values())
        assert max(counts) < 1.1 * min(counts)  # the most frequent word alone is a sixth of all
        assert isinstance(stage_route(local_stage(grouped("partial-key:key"), "in"), 4), PartialKey)
        assert sorted(ids(batch.at("out"))) == ALL_IDS

    def test_load_aware_divides_by_speed_and_loses_nothing(self, local_stage: Local) -> None:
        grouping = GroupingSpec("load-aware", options={"speeds": [1.0, 2.0, 1.0]})
        batch = local_stage(grouped(grouping), "in").run({"in": EVENTS}, 3)
        counts = batch.rows_in("b")
        assert abs(counts[1] - 2 * counts[0]) <= 6 and abs(counts[0] - counts[2]) <= 3
        assert sorted(ids(batch.at("out"))) == ALL_IDS

    def test_load_aware_has_more_tasks_than_slots_where_workers_differ(self, local_stage: Local) -> None:
        stage = local_stage(grouped("load-aware"), "in")
        quick, slow = (
            {"worker": {"id": id}, "operators": {"b": (999, 999, s, 0, 0, 0)}} for id, s in (("0", 1), ("1", 3))
        )
        stage.router.learn([quick, slow])
        batch = stage.run({"in": EVENTS}, 2)
        total = sum(batch.rows_in("b").values())
        # Speeds 1 and 1/3: both begin with a quarter of all, and who is through takes the half that is left.
        assert [batch.rows_in("b")[task] / total for task in range(3)] == pytest.approx([0.25, 0.25, 0.5], abs=0.01)
        assert sorted(ids(batch.at("out"))) == ALL_IDS

    @pytest.mark.parametrize("grouping", ["osg:key", "load-aware", "dynamic"])
    def test_groupings_by_load_start_evenly(self, local_stage: Local, grouping: str) -> None:
        batch = local_stage(grouped(grouping), "in").run({"in": EVENTS}, 3)
        counts = list(batch.rows_in("b").values())
        assert len(counts) == 3 and max(counts) - min(counts) <= 30
        assert sorted(ids(batch.at("out"))) == ALL_IDS

    def test_osg_tasks_report_what_they_executed(self, local_stage: Local) -> None:
        batch = local_stage(grouped("osg:key"), "in").run({"in": EVENTS}, 2)
        [number] = {number for result in batch.results for number in result["executed"]}
        reported = [result["executed"][number] for result in batch.results if result["executed"]]
        assert [len(keys) == len(seconds) > 1000 for keys, seconds in reported] == [True, True]

    def test_a_field_that_is_not_there_is_named(self, local_stage: Local) -> None:
        with pytest.raises(OperatorError, match="'a': expected the field 'user', by which a -> b is grouped"):
            local_stage(grouped("fields:user"), "in").run({"in": EVENTS[:1]}, 2)


def stage_route(stage: Any, slots: int, config: RuntimeConfig | None = None) -> Any:
    [route] = stage.router.routes(slots, config or RuntimeConfig()).values()
    return route


class TestDynamic:
    def shares(self, stage: Any, slots: int, batches: list[list[pa.RecordBatch]], config: RuntimeConfig) -> list[float]:
        counts = Counter[int]()
        for batch_id, parts in enumerate(batches):
            counts.update(stage.run({"in": parts}, slots, batch_id=batch_id, config=config).rows_in("b"))
        return [counts[replica] / sum(counts.values()) for replica in range(slots)]

    def test_i1_shares_follow_the_weights(self, local_stage: Local) -> None:
        stage = local_stage(grouped(GroupingSpec("dynamic", options={"weights": [7, 3, 2]})), "in")
        assert self.shares(stage, 3, [EVENTS], RuntimeConfig()) == pytest.approx([7 / 12, 3 / 12, 2 / 12], abs=0.01)

    def test_i1_weights_change_between_batches(self, local_stage: Local) -> None:
        stage = local_stage(grouped("dynamic"), "in")
        for weights in ([1, 1], [9, 1], [0, 1]):
            config = RuntimeConfig(groupings={"a.out-b": {"weights": weights}})
            expected = [weight / sum(weights) for weight in weights]
            assert self.shares(stage, 2, [EVENTS], config) == pytest.approx(expected, abs=0.02)

    def test_i1_shares_hold_over_many_small_batches(self, local_stage: Local) -> None:
        stage = local_stage(grouped(GroupingSpec("dynamic", options={"weights": [7, 3, 2]})), "in")
        small = [[part.slice(first, 3) for first in range(0, 9, 3)] for part in EVENTS]
        assert self.shares(stage, 3, small, RuntimeConfig()) == pytest.approx([7 / 12, 3 / 12, 2 / 12], abs=0.05)

    def test_weights_of_other_slots_do_not_stop_a_batch(self, local_stage: Local) -> None:
        stage = local_stage(grouped(GroupingSpec("dynamic", options={"weights": [7, 3, 2], "m": 6})), "in")
        batch = stage.run({"in": EVENTS}, 4)
        assert sorted(ids(batch.at("out"))) == ALL_IDS
        route = stage_route(stage, 4)
        assert isinstance(route, Dynamic) and route.ring.m == 6
        assert self.shares(stage, 3, [EVENTS], RuntimeConfig()) == pytest.approx([7 / 12, 3 / 12, 2 / 12], abs=0.01)

    def test_an_option_that_does_not_exist_is_named(self, local_stage: Local) -> None:
        stage = local_stage(grouped("dynamic"), "in")
        with pytest.raises(ConfigError, match=r"grouping\.dynamic\.weight'"):
            stage.run({"in": EVENTS}, 2, config=RuntimeConfig(groupings={"a.out-b": {"weight": [1, 1]}}))


class TestGraphs:
    def diamond(self, left: str = "shuffle", right: str = "shuffle", together: str = "shuffle") -> Topology:
        def split(batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
            odd = pc.equal(pc.bit_wise_and(batch["id"], 1), 1)
            return {"odd": batch.filter(odd), "even": batch.filter(pc.invert(odd))}

        job = flow("diamond")
        parts = job.source("in").operator("split", split, mode="arrow", outputs=("odd", "even"))
        odd = parts["odd"].operator("left", lambda row: {"id": row["id"], "side": "left"}, grouping=left)
        even = parts["even"].operator(
            "right", lambda row: {"side": "right", "id": row["id"], "more": 1}, grouping=right
        )
        meet = job.operator("meet", same, mode="arrow", inputs=[odd, even], grouping=together)
        meet.sink("out", "memory")
        even.sink("rights", "memory")
        return job.build()

    @pytest.mark.parametrize(
        ("left", "right", "together", "rounds"),
        [
            ("shuffle", "shuffle", "shuffle", 0),
            ("fields:key", "shuffle", "shuffle", 1),
            ("fields:key", "shuffle", "fields:id", 2),
            ("fields:key", "global", "dynamic", 2),
        ],
    )
    def test_outputs_that_split_meet_again(
        self, local_stage: Local, left: str, right: str, together: str, rounds: int
    ) -> None:
        stage = local_stage(self.diamond(left, right, together), "in")
        assert stage.stage.rounds == rounds
        batch = stage.run({"in": EVENTS}, 3)
        sides = {row["id"]: row["side"] for row in batch.at("out")}
        assert sides == {id: "left" if id % 2 else "right" for id in ALL_IDS}
        assert len(batch.at("out")) == 5000
        assert sorted(ids(batch.at("rights"))) == ALL_IDS[::2]

    def test_two_exchanges_in_a_row(self, local_stage: Local) -> None:
        job = flow("rows")
        stream = job.source("in")
        for number, grouping in enumerate(("fields:key", "all", "global", "fields:id")):
            stream = stream.operator(f"o{number}", same, mode="arrow", grouping=grouping)
        stream.sink("out", "memory")
        stage = local_stage(job.build(), "in")
        batch = stage.run({"in": EVENTS[:6]}, 2)
        assert stage.stage.rounds == 4
        assert Counter(ids(batch.at("out"))) == dict.fromkeys(ALL_IDS[: 6 * 137], 2)

    def test_one_output_may_feed_several_elements(self, local_stage: Local) -> None:
        job = flow("fan")
        stream = job.source("in").operator("a", same, mode="arrow")
        stream.operator("b", same, mode="arrow", grouping="fields:key").sink("one", "memory")
        stream.operator("c", same, mode="arrow").sink("two", "memory")
        stream.sink("three", "memory")
        batch = local_stage(job.build(), "in").run({"in": EVENTS}, 2)
        assert [sorted(ids(batch.at(sink))) == ALL_IDS for sink in ("one", "two", "three")] == [True] * 3


class TestQueuedEdges:
    def open_log(self, path: Path) -> ArrowLog:
        return ArrowLog(path, settings=ArrowLogSettings(fsync=False))

    @pytest.mark.parametrize("grouping", ["shuffle", "fields:key"])
    def test_rows_leave_through_a_log_and_are_spread_where_they_arrive(
        self, local_stage: Local, tmp_path: Path, grouping: str
    ) -> None:
        topology = grouped(grouping, queued=True)
        first, second = local_stage(topology, "a"), local_stage(topology, "b")
        log = self.open_log(tmp_path)
        [edge] = first.stage.outgoing["a", "out"]
        transaction = log.begin("in", 0)
        batch = first.run({"in": EVENTS}, 3, writers={edge.number: transaction.segment_writer()})
        infos = [info for result in batch.results for found in result["written"].values() for info in found]
        transaction.commit([SegmentInfo.from_json(info) for info in infos])
        pieces = [list(log.read(piece)) for piece in log.segments(0, log.end_offset())]
        arrived = second.run({"a.out-b": [part for parts in pieces for part in parts]}, 2)
        assert sorted(ids(arrived.at("out"))) == ALL_IDS
        assert second.stage.rounds == (grouping != "shuffle")
        if grouping == "fields:key":
            one, two = ({row["key"] for row in rows} for rows in arrived.received["a.out-b"].values())
            assert one and two and not one & two

    @pytest.mark.parametrize("grouping", ["shuffle", "fields:key", "global"])
    def test_a_queued_edge_may_end_in_a_sink_whatever_its_grouping(self, local_stage: Local, grouping: str) -> None:
        job = flow("ends")
        stream = job.source("in").operator("a", same, mode="arrow")
        job.sink("out", "memory")
        stream.into("out", grouping=grouping, queued=True)
        batch = local_stage(job.build(), "out").run({"a.out-out": EVENTS}, 2)
        assert sorted(ids(batch.at("out"))) == ALL_IDS
        assert sum(count for result in batch.results for _, count in result["event_times"]) == 5000

    def test_tasks_hand_back_what_they_give_up(self, local_stage: Local) -> None:
        def picky(row: dict[str, Any]) -> dict[str, Any]:
            if row["id"] % 100 == 0:
                raise ValueError(f"not {row['id']}")
            return row

        job = flow("picky")
        job.source("in").operator("picky", picky, grouping="fields:key").sink("out", "memory")
        batch = local_stage(job.build(), "in").run({"in": EVENTS}, 2)
        found = [letter for result in batch.results for letter in result["letters"]]
        assert sorted(json.loads(row["event"])["id"] for row in found) == ALL_IDS[::100]
        assert {(row["operator"], row["error"]) for row in found} == {("picky", "ValueError")}
        counts = Counter[str]()
        for result in batch.results:
            for failure in result["failures"]:
                counts[failure["where"].partition(": ")[2]] += failure["count"]
        assert counts == {"raise ValueError(f\"not {row['id']}\")": 50}
        assert sorted(ids(batch.at("out"))) == [id for id in ALL_IDS if id % 100]

    def test_a_task_hands_back_no_more_of_them_than_it_may(self, local_stage: Local) -> None:
        def never(row: dict[str, Any]) -> dict[str, Any]:
            raise ValueError("no")

        job = flow("never")
        job.source("in").operator("never", never).sink("out", "memory")
        batch = local_stage(job.build(), "in").run({"in": EVENTS}, 2, letter_bytes=2_000)
        for result in batch.results:
            size = sum(len(text) for letter in result["letters"] for text in letter.values())
            assert 1_500 < size <= 2_000
            taken, *_ = result["operators"]["never"]
            assert len(result["letters"]) + result["letters_left_out"] == taken

    def test_a_task_that_fails_leaves_no_segment(self, local_stage: Local, tmp_path: Path) -> None:
        def broken(batch: pa.RecordBatch) -> Any:
            return {"elsewhere": batch} if 500 in batch["id"].to_pylist() else batch

        job = flow("broken")
        stream = job.source("in").operator("broken", broken, mode="arrow")
        stream.operator("next", same, mode="arrow", queued=True)
        stage = local_stage(job.build(), "in")
        [edge] = stage.stage.outgoing["broken", "out"]
        log = self.open_log(tmp_path)
        with pytest.raises(OperatorError):
            stage.run({"in": EVENTS}, 1, writers={edge.number: log.begin("in", 0).segment_writer()})
        assert not [*(tmp_path / "segments").iterdir(), *(tmp_path / "scratch").iterdir()]


class TestColumns:
    """Batches of one edge need not agree in their columns where none are declared."""

    @pytest.mark.parametrize("grouping", ["shuffle", "fields:id"])
    def test_columns_may_come_and_go(self, local_stage: Local, grouping: str) -> None:
        def function(row: dict[str, Any]) -> dict[str, Any]:
            return (
                {"id": row["id"], "note": None} if row["id"] < 500 else {"id": row["id"], "note": "late", "more": 1.5}
            )

        job = flow("columns")
        noted = job.source("in").operator("note", function)
        noted.operator("b", same, mode="arrow", grouping=grouping).sink("out", "memory")
        batch = local_stage(job.build(), "in").run({"in": EVENTS}, 2)
        notes = {row["id"]: row["note"] for row in batch.at("out")}
        assert notes == {id: None if id < 500 else "late" for id in ALL_IDS}


def test_an_error_of_ours_is_a_result_with_all_its_attributes_in_either_kind_of_job() -> None:
    task = StageTask("split/2", b"\x80\x04\x8c\x0bno_such_mod\x8c\x01f\x93.", BatchOrder(0, 1))
    [(edge, alone)] = task.run_alone(0, ())
    [cells] = task.run(0, iter([]))
    assert edge == RESULT and cells["edge"].to_pylist() == [RESULT]
    for result in (alone, cells["payload"][0].as_py()):
        with pytest.raises(OperatorError) as caught:
            read_result(result)
        assert caught.value.operator == "split" and "no_such_mod" in caught.value.got


def test_a_program_that_cannot_be_unpacked_names_the_stage_and_the_remedy() -> None:
    task = StageTask("split/1", b"\x80\x04\x8c\x0bno_such_mod\x8c\x01f\x93.", BatchOrder(0, 1))
    with pytest.raises(
        OperatorError, match=r"'split': expected functions that workers can import, got ModuleNotFound.*addPyFile"
    ):
        results = [payload for cells in task(iter([])) for payload in cells["payload"].to_pylist()]
        read_result(results[0])


class Slow:
    """An operator that has something to load."""

    def __init__(self, log: Path, fails: bool = False) -> None:
        self.log, self.fails = log, fails

    def warm_up(self) -> None:
        with self.log.open("a") as file:
            file.write("loaded\n")
        if self.fails:
            raise OSError("nothing to load")

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch


@pytest.mark.parametrize("fails", [False, True])
def test_an_operator_is_warmed_up_once_in_a_worker_before_its_first_event(tmp_path: Path, fails: bool) -> None:
    topology = line(step("a", Slow(tmp_path / "log", fails)), step("b", same), mode="arrow")
    [stage] = compile_stages(topology).stages
    specs = {operator.id: OperatorSpec(operator, {}, 0) for operator in stage.operators}
    program = cloudpickle.dumps(Program(stage, specs))
    for _ in range(3):
        prepare(f"warm/{tmp_path}", program)
    assert (tmp_path / "log").read_text() == "loaded\n"
