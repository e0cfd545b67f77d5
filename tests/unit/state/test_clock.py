"""Time in a state, without Spark: timers, lives, and a clock that an attempt shares with the one before it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from foretide.depot import open_depot
from foretide.state.clock import MICROS, ClockFile, Timing
from foretide.state.keys import decode_key, encode_keys, partitions_of
from foretide.state.ledger import StateLedger
from foretide.state.reading import read_state
from foretide.state.task import TaskState
from foretide.state.view import MARKS, NEVER, PartitionView

SCHEMA = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])


class Timed:
    """A state whose keys have timers, driven batch by batch; times are in seconds."""

    def __init__(self, root: Path, timing: Timing, views: str = "views") -> None:
        self.ledger = StateLedger(
            root / "state" / "o", "o", "r1", 7, partitions=4, key=["k"], columns="x", timing=timing, fsync=False
        )
        self.views, self.batch = root / views, 0

    def run(
        self, timers: Mapping[int, float | None], latest_s: float | None = None, tasks: int = 2, *, commit: bool = True
    ) -> dict[str, list[int]]:
        """Give keys timers, once those that are due have been called and lost theirs; return both kinds."""
        order = self.ledger.order(self.batch, self.ledger.deal(tasks), None)
        transaction = self.ledger.log.begin("stage", self.batch)
        called, before, segments, reports = list[int](), list[int](), [], []
        column = pa.array(list(timers), pa.int64())
        homes = partitions_of([column], order.partitions)
        for task in range(tasks):
            state = TaskState(order, SCHEMA, self.views, task)
            due = state.due()
            if due is not None:
                called += [decode_key(key)[0] for key in due.keys]
                rest = due.state.set_column(
                    1, SCHEMA.field("at"), pa.nulls(due.state.num_rows, SCHEMA.field("at").type)
                )
                state.note(due.partitions, due.keys, np.zeros(len(due.keys), dtype=bool), rest)
            mine = np.flatnonzero(order.deal[homes] == task)
            mine = mine[np.argsort(homes[mine], kind="stable")]
            if mine.size:
                keys = encode_keys([column.take(pa.array(mine))])
                before += [n or 0 for n in state.look_up(homes[mine], keys)["n"].to_pylist()]
                at = [list(timers.values())[place] for place in mine.tolist()]
                rows = pa.record_batch(
                    [
                        pa.array([place + 1 for place in mine.tolist()], pa.int64()),
                        pa.array([None if one is None else round(one * MICROS) for one in at], pa.int64()).cast(
                            SCHEMA.field("at").type
                        ),
                    ],
                    schema=SCHEMA,
                )
                state.note(homes[mine], keys, np.zeros(mine.size, dtype=bool), rows)
            segments.append(transaction.segment_writer().write(state.rows()))
            taken = {at: list(vars(each).values()) for at, each in state.snapshots().items()}
            latest_us = None if latest_s is None else round(latest_s * MICROS)
            report = {"work": {}, "seconds": 0.0, "changed": state.changed(), "snapshots": taken, "columns": ""}
            reports.append({**report, "sizes": state.sizes(), "latest_us": latest_us, "late": 0})
        if commit:
            self.ledger.learn(transaction.commit(segments), json.loads(json.dumps(reports)))
            self.batch += 1
        return {"due": sorted(called), "before": sorted(before)}


def test_a_key_is_due_once_the_watermark_has_passed(tmp_path: Path) -> None:
    timed = Timed(tmp_path, Timing(timer="at", watermark_s=5.0))
    assert timed.run({1: 10.0, 2: 11.0, 3: None}, latest_s=14.0)["due"] == []
    assert timed.run({}, latest_s=15.5)["due"] == []  # the watermark is at 9
    assert timed.run({4: 10.5}, latest_s=12.0, tasks=3)["due"] == [1]  # at 10.5
    assert timed.run({}, latest_s=99.0)["due"] == [4]  # a watermark does not go back
    assert timed.run({}, tasks=1)["due"] == [2]
    assert timed.run({})["due"] == []


def test_another_time_takes_the_place_of_the_first(tmp_path: Path) -> None:
    timed = Timed(tmp_path, Timing(timer="at", watermark_s=0.0))
    timed.run({1: 10.0, 2: 10.0, 3: 10.0}, latest_s=5.0)
    timed.run({1: 30.0, 2: None}, latest_s=20.0)
    assert timed.run({}, latest_s=20.0)["due"] == [3]
    assert timed.run({}, latest_s=40.0)["due"] == []
    assert timed.run({})["due"] == [1]


def test_rows_that_come_with_a_call_find_the_state_after_it(tmp_path: Path) -> None:
    timed = Timed(tmp_path, Timing(timer="at", watermark_s=0.0))
    timed.run({7: 1.0}, latest_s=2.0)
    assert timed.run({7: 5.0}, latest_s=9.0) == {"due": [7], "before": [1]}
    assert timed.run({})["due"] == [7]


@pytest.mark.parametrize("views", ["views", "elsewhere"])
def test_a_batch_that_runs_again_after_a_restart_has_the_time_that_it_had(tmp_path: Path, views: str) -> None:
    timing = Timing(timer="at", watermark_s=0.0, ttl_s=3600.0)
    timed = Timed(tmp_path, timing)
    timed.run({1: 10.0, 2: 20.0}, latest_s=12.0)
    assert timed.run({}, latest_s=30.0, commit=False)["due"] == [1]
    again = Timed(tmp_path, timing, views)
    again.batch = timed.batch
    first = json.loads((tmp_path / "state" / "o" / "clock.json").read_text())
    assert again.run({}, latest_s=30.0, tasks=3)["due"] == [1]
    assert json.loads((tmp_path / "state" / "o" / "clock.json").read_text()) == first
    assert again.run({})["due"] == [2]


def test_timers_survive_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foretide.state.ledger._LEAST_ROWS", 10)
    timing = Timing(timer="at", watermark_s=0.0, ttl_s=1e6)
    timed = Timed(tmp_path, timing)
    timed.run({key: 100.0 + key for key in range(20)}, latest_s=1.0)
    for _ in range(40):
        timed.run({key: 200.0 for key in range(4)}, latest_s=1.0)
    assert timed.ledger.log.first_offset() > 20
    anew = Timed(tmp_path, timing, "elsewhere")
    anew.batch = timed.batch
    anew.run({}, latest_s=118.0)
    assert anew.run({})["due"] == list(range(4, 19))


def test_a_state_goes_when_it_was_not_written_for_so_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1000.0
    monkeypatch.setattr("foretide.state.clock.time.time_ns", lambda: round(now_s * 1e9))
    timed = Timed(tmp_path, Timing(ttl_s=60.0))
    timed.run({1: None, 2: None})
    now_s = 1050.0
    assert timed.run({2: None}) == {"due": [], "before": [2]}
    now_s = 1061.0
    # The one that was not written again is gone, and was not called.
    assert timed.run({1: None}) == {"due": [], "before": [0]}
    now_s = 1115.0
    timed.run({})
    assert [row["k"] for row in read_state(tmp_path, "o").to_pylist()] == [1]
    assert timed.ledger.keys == 2  # as of the commit before


def test_a_life_can_be_given_to_a_state_that_had_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed = Timed(tmp_path, Timing())
    timed.run({1: None, 2: None})
    monkeypatch.setattr("foretide.state.clock.time.time_ns", lambda: 10**18)
    mortal = Timed(tmp_path, Timing(ttl_s=1.0), "elsewhere")
    mortal.batch = timed.batch
    mortal.run({2: None})
    monkeypatch.setattr("foretide.state.clock.time.time_ns", lambda: 10**18 + 2 * 10**9)
    mortal.run({})
    assert [row["k"] for row in read_state(tmp_path, "o").to_pylist()] == [1]


def test_a_view_counts_keys_and_finds_those_that_are_due(tmp_path: Path) -> None:
    view = PartitionView(tmp_path, marked=True)
    view.apply([(b"\1a", MARKS.pack(-5, NEVER)), (b"\1b", MARKS.pack(7, 3) + b"x")], since=0, offset=2)
    assert (len(view), view.due(0, 6), view.due(0, 7), view.due(1, 2), view.due(1, 3)) == (
        2,
        [b"\1a"],
        [b"\1a", b"\1b"],
        [],
        [b"\1b"],
    )
    view.apply([(b"\1a", None), (b"\1b", MARKS.pack(NEVER, NEVER))], since=2, offset=4)
    assert (len(view), view.due(0, 100), view.due(1, 100)) == (1, [], [])
    assert dict(view.items()) == {b"\1b": MARKS.pack(NEVER, NEVER)}


def test_a_watermark_is_behind_the_latest_event_and_never_goes_back(tmp_path: Path) -> None:
    clocks = ClockFile(open_depot(tmp_path), 5.0)
    clocks.saw(20 * MICROS, "0a")
    assert (clocks.at(1).watermark_us, clocks.at(1).columns) == (15 * MICROS, "0a")
    clocks.saw(17 * MICROS)
    clocks.saw(None)
    assert (clocks.at(2).watermark_us, clocks.at(2).columns) == (15 * MICROS, "0a")
    assert ClockFile(open_depot(tmp_path), 5.0).at(2) == clocks.at(2)
