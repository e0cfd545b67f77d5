"""Measuring a running topology at an even pace, and recording what was measured."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Protocol

from foretide.background import Background
from foretide.clock import Clock, SystemClock
from foretide.errors import MetricsError
from foretide.events import Event, EventLog, EventSink, Severity
from foretide.latency import LatencyHistogram
from foretide.records import Measurement
from foretide.spark.steering.monitor import Observed, Sample, SparkMonitor

__all__ = ["SampleRecorder", "Sampler"]

_LOG = logging.getLogger(__name__)
_KEPT_SAMPLES = 100_000


class SampleRecorder(Protocol):
    """Keeps measurements; `foretide.store.RunRecorder` is one."""

    def measured(self, measurements: Iterable[Measurement]) -> None:
        """Keep measurements."""
        ...

    def latencies(self, ended_at_s: float, duration_s: float, histogram: LatencyHistogram) -> None:
        """Keep the latencies of a stretch."""
        ...


class Sampler(Background):
    """Samples a running topology every so many seconds, in a thread of its own.

    Histories then have even steps, however long a cycle of the control loop takes. It never raises into the stream: an
    outage is reported when it begins and when it ends.

    Parameters
    ----------
    running : Observed
        The topology.
    every_s : float
        Seconds between two samples.
    recorder : SampleRecorder, optional
        Keeps them for good.
    events : EventSink, optional
        Hears ``metrics.failed`` and ``metrics.back``, and ``operator.failed`` at the first failure of each kind.
    period_s : float
        Seconds from one batch to the next, see `SparkMonitor`.
    clock, ticks
        Tell the time, and durations.
    """

    _name: ClassVar[str] = "foretide-sampler"

    def __init__(
        self,
        running: Observed,
        every_s: float = 1.0,
        *,
        recorder: SampleRecorder | None = None,
        events: EventSink | None = None,
        period_s: float = 0.0,
        clock: Clock | None = None,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._running, self._every_s, self._recorder = running, every_s, recorder
        self._events: EventSink = EventLog() if events is None else events
        self._clock = clock or SystemClock()
        self.monitor = SparkMonitor(running, clock=self._clock, period_s=period_s, ticks=ticks, on_sample=self._keep)
        #: The latest samples, oldest first.
        self.samples: deque[Sample] = deque(maxlen=_KEPT_SAMPLES)
        self._blind = False
        self._told: set[tuple[str, str, str]] = set()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop, and take a last sample."""
        super().stop(timeout_s)
        self.sample()

    def sample(self) -> None:
        """Take a sample now, and tell of new kinds of failure."""
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
        self.samples.append(sample)
        if self._recorder is None:
            return
        measurement = sample.measurement
        try:
            self._recorder.measured((measurement,))
            if sample.latency.count:
                self._recorder.latencies(measurement.ended_at_s, measurement.duration_s, sample.latency)
        except Exception:
            # Whoever keeps records must not keep the stream, or its control, from going on.
            _LOG.warning("a measurement was not recorded", exc_info=True)

    def _tell_failures(self) -> None:
        for failure in self._running.failures():
            if failure.kind not in self._told:
                self._told.add(failure.kind)
                self._emit("operator.failed", str(failure), "warning", failure.to_json())

    def _emit(self, kind: str, message: str, severity: Severity, data: Mapping[str, object] | None = None) -> None:
        try:
            self._events.emit(Event(self._clock.now_s(), kind, message, severity, data or {}))
        except Exception:
            _LOG.exception("the event sink failed on %s: %s", kind, message)
