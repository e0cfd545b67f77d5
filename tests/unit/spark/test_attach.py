"""An application scaled by the progress reports of its queries; the reports are written here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from foretide.clock import ManualClock
from foretide.control import ControlSettings
from foretide.errors import ActuatorError, ConfigError
from foretide.spark.attached.attach import attach
from foretide.spark.attached.attachment import Attachment
from foretide.spark.attached.measuring import QueryMetrics, stand_in
from foretide.spark.attached.settings import AttachSettings
from foretide.spark.driver.query_progress import ProgressLog
from foretide.spark.steering.executors import ExecutorSettings, ExecutorsUnavailable


def report(rows: int, seconds: float, end: int = 0, latest: int = 0, outside_s: float = 0.1) -> dict[str, Any]:
    offsets = {"endOffset": {"topic": {"0": end}}, "latestOffset": json.dumps({"topic": {"0": latest}})}
    durations = {"triggerExecution": 1000 * seconds, "addBatch": 1000 * (seconds - outside_s)}
    return {"numInputRows": rows, "durationMs": durations, "sources": [offsets]}


class Executors:
    """A scheduler whose executors come at once."""

    def __init__(self, deaf: bool = False) -> None:
        self.present, self.deaf, self.cores = ["0"], deaf, 1

    def executors(self) -> tuple[str, ...]:
        return tuple(self.present)

    def request_total(self, executors: int) -> bool:
        if not self.deaf:
            self.present = [str(number) for number in range(max(executors, len(self.present)))]
        return not self.deaf

    def decommission(self, ids: Sequence[str]) -> tuple[str, ...]:
        self.present = [id for id in self.present if id not in ids]
        return tuple(ids)

    def kill(self, ids: Sequence[str]) -> bool:
        return True


CONTROL = ControlSettings.model_validate(
    {"loop": {"td_s": 10.0, "sample_s": 1.0, "stale_after_s": 60.0}, "planner": "pasps", "forecaster": "basic"}
)


class TestAttachment:
    def scene(
        self, executors: Executors | None, lead_s: float = 0.0, **settings: Any
    ) -> tuple[Any, ProgressLog, ManualClock]:
        clock = ManualClock(1000.0)
        log = ProgressLog((lambda: len(executors.executors())) if executors else (lambda: 1))
        bounds = ExecutorSettings(minimum=1, maximum=4, release_after_s=0.0, lead_s=lead_s)
        given = AttachSettings(executors=bounds, **{"control": CONTROL, **settings})
        attachment = Attachment(log, executors, given, clock=clock, refused="" if executors else "no executors")
        ticks = iter(range(0, 100_000, 10))
        attachment.loop.parts.metrics._since = next(ticks)  # type: ignore[attr-defined]
        attachment.loop.parts.metrics._ticks = lambda: next(ticks)  # type: ignore[attr-defined]
        return attachment, log, clock

    def interval(self, log: ProgressLog, clock: ManualClock, rows: int, executors: int) -> None:
        """Let ten seconds pass: batches of different size, 5 ms of an executor for each row."""
        for part in (0.2, 0.3, 0.5):
            each = int(rows * part)
            log.add("q", "scores", report(each, 0.2 + 0.005 * each / executors))
        clock.sleep_s(10.0)

    def test_executors_go_up_and_down_with_the_load(self) -> None:
        executors = Executors()
        attachment, log, clock = self.scene(executors)
        seen = []
        for rows in (1000, 6000, 6000, 1000, 1000):
            self.interval(log, clock, rows, len(executors.present))
            attachment.loop.run_cycle()
            counts = attachment.counts()
            assert counts.observed == counts.requested == counts.planned
            seen.append(counts.observed)
        # 6000 rows in ten seconds keep three executors busy.
        assert seen == [1, 3, 3, 1, 1]

    @pytest.mark.parametrize(("bound", "executors"), [(True, 2), (False, 4)])
    def test_kafkas_partitions_bound_executors_where_that_is_asked_for(self, bound: bool, executors: int) -> None:
        cluster = Executors()
        cluster.cores = 2
        attachment, log, clock = self.scene(cluster, kafka_bound=bound)
        for _ in range(3):
            self.interval(log, clock, 9000, len(cluster.present))
            offsets = {"a": {"0": 1, "1": 1}, "b": {"0": 1}}
            log.add("q", "scores", {"numInputRows": 0, "sources": [{"endOffset": offsets, "latestOffset": offsets}]})
            attachment.loop.run_cycle()
        assert attachment.counts().planned == executors
        last = attachment.decisions[-1].plan
        assert last is not None
        told = [note for note in last.notes if "Kafka" in note]
        assert told == (["3 Kafka partitions keep 2 executors busy, with 2 slots each: query 4 -> 2"] if bound else [])

    def test_executors_are_asked_for_by_what_is_expected_when_they_can_be_there(self) -> None:
        executors = Executors()
        control = CONTROL.model_copy(update={"forecaster": "lr"})
        attachment, log, clock = self.scene(executors, lead_s=60.0, control=control)
        for rows in range(400, 2000, 200):
            self.interval(log, clock, rows, len(executors.present))
            attachment.loop.run_cycle()
        last = attachment.decisions[-1]
        assert attachment.loop.outlook["input"].mean.size == 70
        # 1,800 to 2,000 rows in ten seconds keep one executor busy, 3,200 a minute later two.
        assert last.plan is not None and last.plan.replicas.tolist() == [1]
        assert attachment.counts().planned == 2

    def test_advice_changes_nothing_and_works_where_there_are_no_executors(self) -> None:
        attachment, log, clock = self.scene(None, advisory=True)
        for _ in range(2):
            self.interval(log, clock, 5800, 1)
            decision = attachment.loop.run_cycle()
        assert decision.action.status == "advised"
        assert attachment.counts().planned == 3

    def test_a_refusal_is_told_and_the_next_cycle_tries_again(self) -> None:
        executors = Executors(deaf=True)
        attachment, log, clock = self.scene(executors)
        self.interval(log, clock, 6000, 1)
        decision = attachment.loop.run_cycle()
        assert isinstance(decision.failure.error, ActuatorError)
        assert "act.failed" in [event.kind for event in attachment.events]
        executors.deaf = False
        self.interval(log, clock, 6000, 1)
        attachment.loop.run_cycle()
        assert attachment.counts().observed == 3


def test_what_waits_counts_while_the_query_is_active() -> None:
    log = ProgressLog()
    log.add("q", None, report(10, 1.0, end=10, latest=60))
    ticks = iter([0.0, 1.0, 2.0])
    metrics = QueryMetrics(
        stand_in(ExecutorSettings()), lambda: list(log.totals().values()), lambda: 2, ticks=lambda: next(ticks)
    )
    [measured] = metrics.collect()
    assert (measured.arrived.tolist(), measured.queued.tolist(), measured.replicas.tolist()) == ([60.0], [50.0], [2])
    log.onQueryTerminated(SimpleNamespace(id="q"))  # type: ignore[arg-type]
    assert metrics.collect()[0].queued.tolist() == [0.0]


class TestAttach:
    def session(self, master: str) -> Any:
        streams = SimpleNamespace(added=[], active=[SimpleNamespace(id="q", name="scores")])
        streams.addListener, streams.removeListener = streams.added.append, streams.added.remove
        return SimpleNamespace(sparkContext=SimpleNamespace(master=master), streams=streams)

    def test_a_local_master_is_refused_unless_advice_is_all_one_wants(self) -> None:
        spark = self.session("local[4]")
        with pytest.raises(ExecutorsUnavailable, match="slots only"):
            attach(spark)
        with attach(spark, advisory=True) as attachment:
            assert len(spark.streams.added) == 1
            assert [event.kind for event in attachment.events] == ["executors.unavailable"]
        assert spark.streams.added == []

    def test_spark_connect_is_refused(self) -> None:
        connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session", "streams": None})()
        with pytest.raises(ExecutorsUnavailable, match="Spark Connect"):
            attach(connect, advisory=True)

    def test_anything_else_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="expected a StreamingQuery or a SparkSession, got str"):
            attach("spark")
