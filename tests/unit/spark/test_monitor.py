"""Measuring a topology on Spark, over one that is moved by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from foretide.clock import ManualClock
from foretide.errors import MetricsError
from foretide.events import EventLog
from foretide.spark.batches.drops import Drop
from foretide.spark.batches.states import HotKey, StateSize
from foretide.spark.inputs.positions import InputState
from foretide.spark.steering.monitor import SparkMonitor
from foretide.spark.steering.samples import Sample
from foretide.spark.steering.sampling import Sampler
from foretide.spark.tasks.statistics import OperatorStatistics
from foretide.topology import Topology, flow
from foretide.transport.dead_letters import Failure


def two_stages() -> Topology:
    """Return in -> a -> (queued) b -> c."""
    job = flow("two")
    stream = job.source("in", "trace", trace="pasps_dns").operator("a", replicas=(1, 8))
    stream.operator("b", queued=True, replicas=(1, 8)).operator("c", replicas=(1, 8))
    return job.build()


class Ticker:
    """Both clocks of a monitor, moved together."""

    def __init__(self) -> None:
        self.clock, self.ticks = ManualClock(1000.0), 0.0

    def pass_s(self, seconds: float) -> None:
        self.clock.sleep_s(seconds)
        self.ticks += seconds


@pytest.fixture
def time_() -> Ticker:
    return Ticker()


@pytest.fixture
def run(fake_run: Callable[..., Any]) -> Any:
    found = fake_run(two_stages())
    found.states = {"in": InputState("in", True, 0, 0), "a.out-b": InputState("a.out-b", False, 0, 0)}
    return found


@pytest.fixture
def monitor(run: Any, time_: Ticker) -> SparkMonitor:
    return SparkMonitor(run, clock=time_.clock, ticks=lambda: time_.ticks)


def moved(run: Any, name: str, **changes: int) -> None:
    run.states[name] = replace(run.states[name], **changes)


class TestArrivals:
    def test_arrivals_are_counted_at_the_source_though_no_batch_has_ended(
        self, run: Any, monitor: SparkMonitor, time_: Ticker
    ) -> None:
        moved(run, "in", arrived=500, admitted=120)
        time_.pass_s(2.0)
        [measured] = monitor.collect()
        assert (measured.ended_at_s, measured.duration_s) == (1002.0, 2.0)
        assert measured.arrived.tolist() == [500.0]
        assert measured.processed.tolist() == [0.0, 0.0, 0.0]
        # The batch under way has taken 120 of them; the others wait before the first operator.
        assert measured.queued.tolist() == [380.0, 0.0, 0.0]

    def test_events_of_the_last_batch_period_are_no_queue(self, run: Any, time_: Ticker) -> None:
        monitor = SparkMonitor(run, clock=time_.clock, period_s=2.0, ticks=lambda: time_.ticks)
        found = []
        for arrived, admitted in ((100, 0), (200, 0), (300, 200), (400, 200), (500, 200)):
            moved(run, "in", arrived=arrived, admitted=admitted)
            time_.pass_s(1.0)
            found.append(monitor.collect()[0].queued[0])
        # Two seconds before, 0, 0 (nothing is known of the time before), 100, 200 and 300 had come.
        assert found == [100.0, 100.0, 0.0, 0.0, 100.0]

    def test_what_was_counted_once_does_not_count_again(self, run: Any, monitor: SparkMonitor, time_: Ticker) -> None:
        found = []
        for total in (100, 250, 250, 240, 300):
            moved(run, "in", arrived=total)
            time_.pass_s(1.0)
            found += [measured.arrived[0] for measured in monitor.collect()]
        # At 240 the clock of the trace was set back: nothing came, and nothing comes twice.
        assert found == [100.0, 150.0, 0.0, 0.0, 50.0]

    def test_a_source_that_only_spark_can_count_goes_by_its_progress(
        self, fake_run: Callable[..., Any], time_: Ticker
    ) -> None:
        job = flow("files")
        job.source("files", "files", path="in").operator("a")
        run = fake_run(job.build(), counted={"files": 70})
        run.states = {"files": InputState("files", True, 0, 0)}
        monitor = SparkMonitor(run, clock=time_.clock, ticks=lambda: time_.ticks)
        time_.pass_s(1.0)
        assert monitor.collect()[0].arrived.tolist() == [70.0]

    def test_no_time_no_measurement(self, monitor: SparkMonitor, time_: Ticker) -> None:
        assert not monitor.collect()
        time_.pass_s(1.0)
        assert len(monitor.collect()) == 1
        assert not monitor.collect()


class TestBatches:
    def test_a_batch_counts_once_when_it_is_committed(self, run: Any, monitor: SparkMonitor, time_: Ticker) -> None:
        moved(run, "in", arrived=100)
        run.finish("in", {"a": (100, 0.4)}, edges={0: 100, 1: 60}, latency={0.5: 60})
        time_.pass_s(1.0)
        [first] = monitor.collect()
        time_.pass_s(1.0)
        [second] = monitor.collect()
        assert first.processed.tolist() == [100.0, 0.0, 0.0]
        assert first.busy_s.tolist() == [0.4, 0.0, 0.0]
        assert first.latency_s == pytest.approx(0.5)
        assert not second.processed.any() and second.latency_s is None

    def test_what_failed_is_not_processed_and_its_time_is_no_work(
        self, run: Any, monitor: SparkMonitor, time_: Ticker
    ) -> None:
        run.finish("in", {"a": (100, 5.0)})
        run.done[-1].operators["a", 0] = OperatorStatistics(100, 10, busy_s=5.0, failed=90, failing_s=4.5)
        time_.pass_s(1.0)
        [measurement] = monitor.collect()
        assert (measurement.processed[0], measurement.failed[0]) == (10.0, 90.0)
        assert measurement.busy_s[0] == pytest.approx(0.5)

    def test_p7_what_was_dropped_is_counted_before_the_operators_that_did_not_get_it(
        self, run: Any, monitor: SparkMonitor, time_: Ticker
    ) -> None:
        moved(run, "in", arrived=100)
        run.finish("in", {"a": (10, 0.1)}, dropped={"in": 90})
        time_.pass_s(1.0)
        [measurement] = monitor.collect()
        assert (measurement.dropped.tolist(), measurement.arrived[0]) == ([90.0, 0.0, 0.0], 100.0)
        assert measurement.processed[0] == 10.0

    def test_a_queued_edge_gets_what_is_written_to_its_log(
        self, run: Any, monitor: SparkMonitor, time_: Ticker
    ) -> None:
        moved(run, "a.out-b", arrived=60, admitted=20, done=20)
        run.finish("b", {"b": (20, 0.1), "c": (10, 0.1)}, edges={1: 20, 2: 10})
        time_.pass_s(1.0)
        [measured] = monitor.collect()
        index = measured.layout.edge_index
        assert measured.passed[index["a", "out", "b"]] == 60.0
        assert measured.passed[index["b", "out", "c"]] == 10.0
        assert measured.queued.tolist() == [0.0, 40.0, 0.0]

    def test_what_each_batch_of_an_operator_on_dataframes_costs_anyway_is_no_work(
        self, fake_run: Callable[..., Any], time_: Ticker
    ) -> None:
        job = flow("frames")
        job.source("in", "trace", trace="pasps_dns").operator("merge", mode="dataframe").operator("a")
        run = fake_run(job.build())
        run.states = {"in": InputState("in", True, 0, 0)}
        monitor = SparkMonitor(run, clock=time_.clock, ticks=lambda: time_.ticks)
        # Half a second for every batch, and a millisecond for every row.
        for rows in (0, 100, 200, 400):
            run.finish("in", {"merge": (rows, 0.5 + 0.001 * rows), "a": (rows, 0.01)})
        time_.pass_s(1.0)
        [measured] = monitor.collect()
        assert measured.processed.tolist() == [700.0, 700.0]
        assert measured.busy_s == pytest.approx([0.7, 0.04])
        assert [run.work_s for run in measured.batches] == pytest.approx([0.01, 0.11, 0.21, 0.41])

    def test_time_for_which_a_task_waits_for_a_core_is_busy_but_no_work(
        self, run: Any, monitor: SparkMonitor, time_: Ticker
    ) -> None:
        run.finish("in", {"a": (100, 2.0)})
        run.done[-1].operators["a", 0] = OperatorStatistics(100, 100, busy_s=2.0, cpu_s=0.6, stalled_s=1.2)
        time_.pass_s(1.0)
        [measured] = monitor.collect()
        assert measured.busy_s[0] == 2.0
        [batch] = measured.batches
        assert (batch.work_s, batch.cpu_s) == pytest.approx((0.8, 0.6))

    def test_replicas_are_those_of_the_last_batch_until_the_one_under_way_is_done(
        self, run: Any, monitor: SparkMonitor, time_: Ticker
    ) -> None:
        run.finish("in", {"a": (1, 0.1)})
        run.plan["a"], run.plan["b"] = 5, 3
        moved(run, "in", arrived=10, admitted=10, done=4)
        time_.pass_s(1.0)
        assert monitor.collect()[0].replicas.tolist() == [1, 3, 1]
        moved(run, "in", done=10)
        time_.pass_s(1.0)
        assert monitor.collect()[0].replicas.tolist() == [5, 3, 1]


class TestFaults:
    def test_metrics_that_stop_coming_are_an_error_and_the_next_sample_covers_the_gap(
        self, run: Any, monitor: SparkMonitor, time_: Ticker
    ) -> None:
        run.broken = OSError("stale file handle")
        time_.pass_s(5.0)
        with pytest.raises(MetricsError, match=r"topology 'two': expected its positions.*stale file handle"):
            monitor.collect()
        run.broken = None
        moved(run, "in", arrived=80)
        time_.pass_s(3.0)
        [measured] = monitor.collect()
        assert (measured.duration_s, measured.arrived.tolist()) == (8.0, [80.0])

    def test_a_clock_that_jumps_changes_instants_not_durations(
        self, run: Any, monitor: SparkMonitor, time_: Ticker
    ) -> None:
        time_.clock.set_s(99_999.0)
        time_.ticks += 1.0
        [ahead] = monitor.collect()
        time_.clock.set_s(5.0)
        time_.ticks += 1.0
        [back] = monitor.collect()
        assert (ahead.ended_at_s, ahead.duration_s, back.ended_at_s, back.duration_s) == (99_999.0, 1.0, 5.0, 1.0)


class TestSampler:
    def test_the_first_failure_of_each_kind_is_an_event(self, run: Any, time_: Ticker) -> None:
        log = EventLog()
        sampler = Sampler(run, 1.0, events=log, clock=time_.clock, ticks=lambda: time_.ticks)
        first = Failure("a", "KeyError", "'word'", '{"id": 3}', "job.py:7: row['word']", 12)
        for failed in ([first], [replace(first, count=20)], [replace(first, count=20), replace(first, operator="b")]):
            run.failed = failed
            time_.pass_s(1.0)
            sampler.sample()
        assert [(event.kind, event.severity, event.data["operator"]) for event in log] == [
            ("operator.failed", "warning", "a"),
            ("operator.failed", "warning", "b"),
        ]
        [event, _] = log
        assert event.message == str(first) and event.data["count"] == 12

    def test_p7_the_first_drop_of_each_kind_is_an_event_with_edge_limit_and_remedy(
        self, run: Any, time_: Ticker
    ) -> None:
        log = EventLog()
        sampler = Sampler(run, 1.0, events=log, clock=time_.clock, ticks=lambda: time_.ticks)
        first = Drop("a -> b", "queue_bound", 1000, 12, ("b",))
        for dropped in ([first], [replace(first, count=20)], [first, replace(first, limit="timeout_s", value=30)]):
            run.dropped = dropped
            time_.pass_s(1.0)
            sampler.sample()
        assert [(event.kind, event.severity, event.message) for event in log] == [
            (
                "queue.dropped",
                "warning",
                "queue 'a -> b': 12 events dropped, the oldest, since more than 1,000 waited; give b more replicas, or "
                "raise queue_bound",
            ),
            (
                "queue.dropped",
                "warning",
                "queue 'a -> b': 12 events dropped, older than 30 s when they were taken; give b more replicas, or "
                "raise timeout_s",
            ),
        ]

    def test_the_sizes_of_states_are_measured(self, run: Any, time_: Ticker) -> None:
        operators = run.topology.layout.operators
        run.sizes = {operators[-1]: StateSize(7, 4096)}
        sampler = Sampler(run, 1.0, clock=time_.clock, ticks=lambda: time_.ticks)
        time_.pass_s(1.0)
        sampler.sample()
        measurement = sampler.samples[-1].measurement
        assert measurement.state_keys.tolist() == [0.0] * (len(operators) - 1) + [7.0]
        assert measurement.state_bytes[-1] == 4096.0

    def test_a_hot_key_is_an_event_once(self, run: Any, time_: Ticker) -> None:
        log = EventLog()
        sampler = Sampler(run, 1.0, events=log, clock=time_.clock, ticks=lambda: time_.ticks)
        for part in (0.6, 0.7):
            run.hot = [HotKey("count", "('the',)", part, 4)]
            time_.pass_s(1.0)
            sampler.sample()
        [event] = log
        assert (event.kind, event.severity, event.data["part"]) == ("key.hot", "warning", 0.6)
        assert "key ('the',) has 60% of the rows of a batch that 4 tasks share" in event.message

    @pytest.fixture
    def events(self) -> EventLog:
        return EventLog()

    @pytest.fixture
    def sampler(self, run: Any, time_: Ticker, events: EventLog) -> Sampler:
        return Sampler(run, clock=time_.clock, ticks=lambda: time_.ticks, events=events)

    def test_an_outage_is_told_once_and_its_end_too(
        self, run: Any, sampler: Sampler, time_: Ticker, events: EventLog
    ) -> None:
        for broken in (None, OSError("gone"), OSError("gone"), None, None):
            run.broken = broken
            time_.pass_s(1.0)
            sampler.sample()
        assert [event.kind for event in events] == ["metrics.failed", "metrics.back"]
        assert [sample.measurement.duration_s for sample in sampler.samples] == [1.0, 3.0, 1.0]

    def test_a_recorder_that_fails_changes_nothing(
        self, run: Any, sampler: Sampler, time_: Ticker, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Full:
            def measured(self, measurements: Any) -> None:
                raise OSError("no space left on device")

        sampler._recorder = Full()  # type: ignore[assignment]
        time_.pass_s(1.0)
        sampler.sample()
        kept: list[Sample] = list(sampler.samples)
        assert len(kept) == 1
        assert "a measurement was not recorded" in caplog.text


class TestOpening:
    """What a control loop gets to see of a stream that begins."""

    def test_it_begins_with_the_stretch_after_the_one_in_which_the_first_event_came(
        self, run: Any, time_: Ticker
    ) -> None:
        monitor = SparkMonitor(run, clock=time_.clock, awaits_first=True, ticks=lambda: time_.ticks)
        for arrived, begun in ((0, False), (0, False), (40, False), (140, True), (140, True)):
            moved(run, "in", arrived=arrived)
            time_.pass_s(1.0)
            monitor.sample()
            assert monitor.begun() is begun
        # Forty came in a part of the third second, a hundred in the fourth, none in the fifth.
        assert [measured.arrived.tolist() for measured in monitor.collect()] == [[100.0], [0.0]]

    def test_half_a_minute_without_an_event_is_a_stream_at_rest(self, run: Any, time_: Ticker) -> None:
        monitor = SparkMonitor(run, clock=time_.clock, awaits_first=True, ticks=lambda: time_.ticks)
        for second in range(1, 32):
            time_.pass_s(1.0)
            monitor.sample()
            assert monitor.begun() is (second >= 30)
        assert len(monitor.collect()) == 2
