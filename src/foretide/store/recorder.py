"""What a run talks to: every record of its control loop goes to the store, and no fault comes back to disturb it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from types import TracebackType
from typing import Any, Self

from foretide.clock import Clock
from foretide.events import Event
from foretide.latency import LatencyHistogram
from foretide.records import Measurement
from foretide.store.background import BackgroundWriter
from foretide.store.backlog import Item
from foretide.store.databases.codec import plain
from foretide.store.decisions import DecisionLike, decision_rows
from foretide.store.knowledge import knowledge_row
from foretide.store.rows import TableRow, event_row, feature_rows, latency_row, measurement_row
from foretide.store.samples import FeatureSample, LatencySample, RunInfo, RunStatus
from foretide.topology import Topology

__all__ = ["RunRecorder"]


class RunRecorder:
    """Records one run. Every method returns at once, and none raises for a fault of the store.

    It is an event sink, `decided` fits `Parts.on_decision`, and as a context manager it ends the run.

    Parameters
    ----------
    info : RunInfo
        The run.
    writer : BackgroundWriter
        The writer.
    clock : Clock
        Gives Unix time.
    finish_s : float
        The most seconds that `finish` waits for the disk.
    """

    def __init__(self, info: RunInfo, writer: BackgroundWriter, clock: Clock, *, finish_s: float = 5.0) -> None:
        self._info, self._writer, self._clock, self._finish_s = info, writer, clock, finish_s
        self._numbers = count(1)
        self._last_s = info.started_at_s
        writer.put_run(info)

    @property
    def id(self) -> str:
        """The run's id."""
        return self._info.id

    @property
    def info(self) -> RunInfo:
        """What is known about the run."""
        return self._info

    def now_s(self) -> float:
        """Return the present instant on the clock of the run's loop, as far as it keeps pace with Unix time."""
        return self._clock.now_s() - self._info.clock_offset_s

    def measured(self, measurements: Iterable[Measurement]) -> None:
        """Record measurements."""
        layout = self._info.layout
        size = 8 * (len(layout.sources) + len(layout.edges) + 4 * len(layout.operators)) + 512
        for measurement in measurements:
            self._last_s = max(self._last_s, measurement.ended_at_s)
            self._put("measurements", size, measurement_row, layout, measurement)

    def decided(self, decision: DecisionLike) -> None:
        """Record a decision, with its forecasts and its reasons."""
        terms = 0 if decision.plan is None else len(decision.plan.terms)
        self._last_s = max(self._last_s, decision.at_s)
        size = 8 * (terms + 12) * len(self._info.layout.operators) + 4096
        self._put("decisions", size, decision_rows, decision)

    def emit(self, event: Event) -> None:
        """Record an event."""
        self._put("events", 512, event_row, event)

    def features(self, samples: Iterable[FeatureSample]) -> None:
        """Record features of workers and machines."""
        for sample in samples:
            self._put("features", sample.values.nbytes + 512, feature_rows, sample)

    def latencies(self, ended_at_s: float, duration_s: float, histogram: LatencyHistogram) -> None:
        """Record the latencies of events that left the topology in a stretch of time."""
        own = LatencyHistogram()
        # The caller may keep counting into its own.
        own.merge(histogram)
        self._put("latencies", 4096, latency_row, LatencySample(ended_at_s, duration_s, own))

    def learnt(self, topology: Topology, kind: str, version: int, document: Mapping[str, Any]) -> None:
        """Keep what was learnt about a topology, for later runs of it, in place of what was known before.

        Parameters
        ----------
        topology : Topology
            What it is about.
        kind : str
            Who has learnt it.
        version : int
            The version of the document's form.
        document : mapping
            Plain data for JSON; NaN becomes null.
        """
        # What learns may go on learning before the row is made.
        self._put("knowledge", 4096, knowledge_row, topology, kind, version, self._clock.now_s(), plain(document))

    def _put(self, kind: str, size: int, rows_of: Callable[..., TableRow | list[TableRow]], *record: Any) -> None:
        """Hand over a record: its rows, which begin with the run and a number, are made when they are written."""
        self._writer.put(Item(self.id, kind, partial(rows_of, self.id, next(self._numbers), *record), size))

    def finish(
        self,
        outcome: Mapping[str, Any] | None = None,
        *,
        status: RunStatus = "finished",
        ended_at_s: float | None = None,
    ) -> bool:
        """Record how the run went, and wait a little for everything to be stored; return whether it is."""
        ended_at_s = self._last_s if ended_at_s is None else ended_at_s
        self._info = replace(self._info, status=status, ended_at_s=ended_at_s, outcome=dict(outcome or {}))
        self._writer.put_run(self._info)
        return self._writer.flush(self._finish_s)

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until everything is stored, for at most `timeout_s`; return whether it is."""
        return self._writer.flush(self._finish_s if timeout_s is None else timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._info.status != "running":
            return
        if kind is None:
            self.finish()
        else:
            stopped = issubclass(kind, KeyboardInterrupt | SystemExit)
            self.finish({"error": f"{kind.__name__}: {error}"}, status="interrupted" if stopped else "failed")
