"""Measuring a running topology at an even pace, and recording what was measured."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Protocol

from foretide.background import Background
from foretide.clock import Clock, SystemClock
from foretide.errors import MetricsError
from foretide.events import Event, EventLog, EventSink, Severity
from foretide.latency import LatencyHistogram, Opening
from foretide.records import Measurement
from foretide.spark.batches.drops import Drop
from foretide.spark.batches.states import HotKey
from foretide.spark.steering.monitor import Observed, SparkMonitor
from foretide.spark.steering.samples import KEPT_SAMPLES, Sample, SampleLog
from foretide.transport.dead_letters import Failure

__all__ = ["SampleRecorder", "Sampled", "Sampler"]

_LOG = logging.getLogger(__name__)


class SampleRecorder(Protocol):
    """Keeps measurements; `foretide.store.RunRecorder` is one."""

    def measured(self, measurements: Iterable[Measurement]) -> None:
        """Keep measurements."""
        ...

    def latencies(self, ended_at_s: float, duration_s: float, histogram: LatencyHistogram) -> None:
        """Keep the latencies of a stretch."""
        ...


class Sampled(Observed, Protocol):
    """A running topology that tells, besides what a monitor sees, which events were given up on."""

    def failures(self) -> Sequence[Failure]:
        """Return what operators failed on since the start, by operator and kind."""
        ...

    def drops(self) -> Sequence[Drop]:
        """Return what was dropped since the start, by queue and reason."""
        ...

    def hot_keys(self) -> Sequence[HotKey]:
        """Return the keys of states that were too hot for one task since the start."""
        ...


class Sampler(Background):
    """Samples a running topology every so many seconds, in a thread of its own.

    Histories then have even steps, however long a cycle of the control loop takes. It never raises into the stream: an
    outage is reported when it begins and when it ends.

    Parameters
    ----------
    running : Sampled
        The topology.
    every_s : float
        Seconds between two samples.
    recorder : SampleRecorder, optional
        Keeps them for good.
    events : EventSink, optional
        Hears ``metrics.failed`` and ``metrics.back``, and ``operator.failed``, ``queue.dropped`` and ``key.hot`` at the
        first failure, drop and hot key of each kind.
    period_s : float
        Seconds from one batch to the next, see `SparkMonitor`.
    collected : bool
        Whether a control loop collects the measurements.
    awaits_first : bool
        Whether it gets them from the first event on, see `SparkMonitor`.
    kept : int
        How many samples are kept, see `SampleLog`.
    on_sample : callable, optional
        Looks at each sample.
    clock, ticks
        Tell the time, and durations.
    """

    _name: ClassVar[str] = "foretide-sampler"

    def __init__(
        self,
        running: Sampled,
        every_s: float = 1.0,
        *,
        recorder: SampleRecorder | None = None,
        events: EventSink | None = None,
        period_s: float = 0.0,
        collected: bool = False,
        awaits_first: bool = False,
        kept: int = KEPT_SAMPLES,
        on_sample: Callable[[Sample], None] | None = None,
        clock: Clock | None = None,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._running, self._every_s, self._recorder = running, every_s, recorder
        self._on_sample = on_sample
        self._events: EventSink = EventLog() if events is None else events
        self._clock = clock or SystemClock()
        self.monitor = SparkMonitor(
            running,
            clock=self._clock,
            period_s=period_s,
            collected=collected,
            awaits_first=awaits_first,
            ticks=ticks,
            on_sample=self._keep,
        )
        self._log = SampleLog(kept)
        #: How the stream began.
        self.opening = Opening()
        self._blind = False
        self._told: set[tuple[str, ...]] = set()

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The samples, oldest first; of a long run, older ones are joined to stretches."""
        return self._log.samples()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop, and take a last sample."""
        super().stop(timeout_s)
        self.sample()

    def sample(self) -> None:
        """Take a sample now, and tell of new kinds of failures and drops."""
        self._tell_failures()
        try:
            self.monitor.sample()
        except MetricsError as error:
            if not self._blind:
                self._emit("metrics.failed", f"{error}; trying again every {self._every_s:g} s", "error")
            self._blind = True
            return
        if self._blind:
            self._blind = False
            self._emit("metrics.back", "the running topology can be measured again", "info")

    def _run(self) -> None:
        due = time.monotonic() + self._every_s
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            self.sample()
            due = max(due + self._every_s, time.monotonic())

    def _keep(self, sample: Sample) -> None:
        self._log.append(sample)
        measurement = sample.measurement
        came = bool(measurement.arrived.any())
        self.opening.add(measurement.ended_at_s, measurement.duration_s, came=came, latency=sample.latency)
        if self._on_sample is not None:
            try:
                self._on_sample(sample)
            except Exception:
                _LOG.warning("a measurement could not be looked at", exc_info=True)
        if self._recorder is None:
            return
        try:
            self._recorder.measured((measurement,))
            if sample.latency.count:
                self._recorder.latencies(measurement.ended_at_s, measurement.duration_s, sample.latency)
        except Exception:
            # Whoever keeps records must not keep the stream, or its control, from going on.
            _LOG.warning("a measurement was not recorded", exc_info=True)

    def _tell_failures(self) -> None:
        running = self._running
        found: list[tuple[str, Failure | Drop | HotKey]] = [
            *(("operator.failed", failure) for failure in running.failures()),
            *(("queue.dropped", drop) for drop in running.drops()),
            *(("key.hot", hot) for hot in running.hot_keys()),
        ]
        for event, one in found:
            if (event, *one.kind) not in self._told:
                self._told.add((event, *one.kind))
                self._emit(event, str(one), "warning", one.to_json())

    def _emit(self, kind: str, message: str, severity: Severity, data: Mapping[str, object] | None = None) -> None:
        try:
            self._events.emit(Event(self._clock.now_s(), kind, message, severity, data or {}))
        except Exception:
            _LOG.exception("the event sink failed on %s: %s", kind, message)
