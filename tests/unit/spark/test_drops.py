"""Events that are dropped: left out when they are read, counted, and told of (SPEC P7)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa
import pytest

from foretide.compile.queues import QueueLimits
from foretide.compile.stages import Stage, compile_stages
from foretide.errors import ConfigError
from foretide.spark.batches.drops import Drop, DropWatch, too_old_of
from foretide.spark.inputs.ages import FreshSlice
from foretide.topology import flow

_TIMES = pa.timestamp("us", tz="UTC")


class Rows:
    """A slice of rows whose events were due at these instants, in microseconds."""

    element = "in"
    letters = ("unreadable",)

    def __init__(self, *batches: Sequence[int | None], name: str = "event_time") -> None:
        self._batches, self._name = batches, name

    def batches(self) -> list[pa.RecordBatch]:
        return [
            pa.record_batch({"id": range(len(times)), self._name: pa.array(times, _TIMES)}) for times in self._batches
        ]


def test_events_older_than_the_limit_are_left_out_and_counted() -> None:
    # Exactly as old as the limit is not too old; nor is an event whose instant is unknown.
    fresh = FreshSlice(Rows([100, 99, 101, None], [1, 2], [500]), oldest_us=100)  # type: ignore[arg-type]
    assert [batch["id"].to_pylist() for batch in fresh.batches()] == [[0, 2, 3], [0]]
    assert (fresh.too_old, fresh.element, fresh.letters) == (3, "in", ("unreadable",))
    list(fresh.batches())
    assert fresh.too_old == 3  # as often as it is read


def test_events_without_an_instant_have_no_age() -> None:
    fresh = FreshSlice(Rows([1], name="at"), oldest_us=100)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"timeout_s of 'in'.*expected events with the column 'event_time'.*id, at"):
        list(fresh.batches())


@pytest.fixture
def stage() -> Stage:
    job = flow("both")
    lines = job.source("lines")
    lines.operator("parse", queue_bound=10, timeout_s=2.0)
    lines.operator("spell", queue_bound=10, timeout_s=2.0)
    [stage] = compile_stages(job.build()).stages
    return stage


def test_drops_add_up_by_queue_and_reason(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    watch = DropWatch(stage, {"lines": QueueLimits(queue_bound=10, timeout_s=2.0)})
    with caplog.at_level(logging.WARNING):
        assert watch.look({"lines": 5}, {"lines": 2}) == {"lines": 7}
        assert watch.look({"lines": 1}, {}) == {"lines": 1}
        assert watch.look({}, {"lines": 0}) == {}
    assert list(watch.drops.values()) == [
        Drop("lines", "queue_bound", 10, 6, ("parse", "spell")),
        Drop("lines", "timeout_s", 2.0, 2, ("parse", "spell")),
    ]
    assert [record.message.partition(";")[0] for record in caplog.records] == [
        "queue 'lines': 5 events dropped, the oldest, since more than 10 waited",
        "queue 'lines': 2 events dropped, older than 2 s when they were taken",
    ]


def test_a_batch_that_runs_again_after_its_limit_was_lifted_is_told_of(stage: Stage) -> None:
    lifted = DropWatch(stage, {"lines": QueueLimits()})
    lifted.look({"lines": 5}, {})
    [drop] = lifted.drops.values()
    assert "5 events dropped, by a limit that held when their batch was planned" in str(drop)


def test_tasks_and_readers_of_spark_tell_what_was_too_old() -> None:
    results = [{"too_old": {"a-b": 2}}, {"too_old": {}}, {"too_old": {"a-b": 1, "in": 4}}]
    assert too_old_of(results, {"in": 3}) == {"in": 7, "a-b": 3}


def test_late_events_add_up_by_operator(caplog: pytest.LogCaptureFixture) -> None:
    job = flow("windows")
    job.source("in").operator("count", key="k", state="at timestamp", timer="at", watermark_s=10)
    [stage] = compile_stages(job.build()).stages
    watch = DropWatch(stage, {})
    with caplog.at_level(logging.WARNING):
        for late in (3, 0, 4):
            assert watch.look({}, {}, [{"states": {"count": {"late": late}}}, {"states": {}}]) == {}
    assert list(watch.drops.values()) == [Drop("count", "watermark_s", 10, 7, ("count",))]
    [record] = caplog.records
    assert record.message.startswith("operator 'count': 3 events dropped, late by more than 10 s")
