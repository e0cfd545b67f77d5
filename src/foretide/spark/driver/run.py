"""Running a topology from start to a graceful stop, with progress on the way and a report at the end."""

from __future__ import annotations

import math
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from pyspark.sql import SparkSession

from foretide.latency import LatencyHistogram
from foretide.spark.driver.report import Ending, OperatorReport, RunReport, latency_report, operator_report
from foretide.spark.driver.running_topology import RunningTopology
from foretide.spark.inputs.positions import InputState
from foretide.spark.settings import EngineSettings
from foretide.topology import Topology

__all__ = ["ControlStatus", "OperatorReport", "Progress", "RunOptions", "RunReport", "TopologyRun"]

# The rate and the latencies on show are those of the last seconds, as many as these.
_WINDOW_S = 10.0


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What runs: a topology, in which directory, how and for how long.

    Parameters
    ----------
    topology : Topology
        What to run.
    path : path, optional
        The directory of checkpoints and queued edges, or the URI of a folder in an object store, where a later run goes
        on; without it, a temporary one that ends with the run.
    seconds : float, optional
        How long; without it, until all input of finite sources is through.
    replicas : mapping of str to int
        Replicas to begin with, where they differ from the topology's, or from those that an earlier run left.
    settings : EngineSettings
        Those of the engine.
    poll_s : float
        The time between two looks at the run.
    """

    topology: Topology
    path: str | Path | None = None
    seconds: float | None = None
    replicas: Mapping[str, int] = field(default_factory=dict)
    settings: EngineSettings = field(default_factory=EngineSettings)
    poll_s: float = 0.5


@dataclass(frozen=True)
class Progress:
    """How a run stands.

    Parameters
    ----------
    elapsed_s : float
        Since the queries were started.
    arrived, backlog : int
        Events that came to the sources, and rows that wait before any stage.
    input_rate : float
        Events per second that came in the last seconds.
    batches : int
        Batches done, of all stages.
    replicas : mapping of str to int
        By operator.
    p50_s, p95_s : float
        End-to-end latency over the last seconds; NaN while nothing arrived.
    control : ControlStatus, optional
        What the controller expects and has decided, where the run is steered.
    """

    elapsed_s: float
    arrived: int
    backlog: int
    input_rate: float
    batches: int
    replicas: Mapping[str, int]
    p50_s: float
    p95_s: float
    control: ControlStatus | None = None


@dataclass(frozen=True)
class ControlStatus:
    """What the controller of a run expects, and what it has decided.

    Parameters
    ----------
    policy : str
        Who decides.
    expected_rate : float
        Events per second forecast for the next interval; NaN where there is no forecast.
    decision : str
        The last change, in words; empty before the first.
    executors : str
        Executors planned, requested and observed, in words; empty where they are not scaled.
    promise : str
        What is promised and what is expected, or why it cannot be kept; empty where nothing is promised.
    """

    policy: str
    expected_rate: float
    decision: str
    executors: str = ""
    promise: str = ""


class TopologyRun:
    """A run of a topology, from its start to its report.

    As a context it starts the queries and stops them at the end. In between, whoever started it follows its progress,
    and lets what is inside come through::

        with TopologyRun(spark, RunOptions(topology=topology)) as run:
            for progress in run.progress():
                print(progress.input_rate)
            run.drain()
        print(run.report)

    Parameters
    ----------
    spark : SparkSession
        Where to run.
    options : RunOptions
        What to run, and how.

    Raises
    ------
    CheckpointError
        When another topology ran in the directory.
    """

    def __init__(self, spark: SparkSession, options: RunOptions) -> None:
        self.options = options
        with ExitStack() as stack:
            self.running = RunningTopology(options.topology, spark, _directory(options.path, stack), options.settings)
            self._temporary = stack.pop_all()
        self._master = str(spark.sparkContext.master)
        self._watch = _Watch(self.running)
        self._interrupted, self._drained = False, False
        self._ending: Ending = "interrupted"
        self._report: RunReport | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._temporary:
            self._stop()
            if kind is None:
                self._report = self._watch.report(self._master, self._ending, self._drained)

    def _start(self, replicas: Mapping[str, int] | None = None) -> None:
        """Start the queries with `replicas`, those of the options first of all."""
        first = {**(replicas or {}), **self.options.replicas}
        if first:
            self.running.change_replicas(first)
        self.running.start()
        self._watch.begin()

    def _stop(self) -> None:
        self.running.stop(drain=False)

    @property
    def report(self) -> RunReport:
        """What the run did, once it has ended."""
        assert self._report is not None, "a run is reported on after its end"
        return self._report

    def progress(self) -> Iterator[Progress]:
        """Yield how the run stands, until its input is through, its time is up or it is interrupted.

        Raises
        ------
        OperatorError
            When an operator broke its contract; in general, whatever ended a stage.
        """
        seconds = self.options.seconds
        deadline_s = math.inf if seconds is None else time.monotonic() + seconds
        while True:
            self.running.check()
            inputs = self._watch.inputs()
            yield replace(self._watch.progress(inputs), control=self.control_status())
            ending = self._due_ending(inputs, deadline_s)
            if ending is not None:
                self._ending = ending
                return
            time.sleep(max(0.0, min(self.options.poll_s, deadline_s - time.monotonic())))

    def control_status(self) -> ControlStatus | None:
        """Return what the controller expects and has decided; None where nobody steers."""
        return None

    def interrupt(self) -> None:
        """Let `progress` end, as if the input were through."""
        self._interrupted = True

    def drain(self) -> None:
        """Let sources admit nothing new, and wait until what is inside is through."""
        self._drained = self.running.drain()

    def _due_ending(self, inputs: Mapping[str, InputState], deadline_s: float) -> Ending | None:
        if self._interrupted:
            return "interrupted"
        if _through(inputs):
            return "all input is through"
        return "time is up" if time.monotonic() >= deadline_s else None


def _directory(path: str | Path | None, stack: ExitStack) -> str | Path:
    """Return where a run keeps its checkpoints; a temporary directory lives as long as `stack`."""
    if path is not None:
        return path
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="foretide-", ignore_cleanup_errors=True)))


def _through(inputs: Mapping[str, InputState]) -> bool:
    """Return whether nothing will ever come again, and nothing waits."""
    return all(state.exhausted if state.is_source else not state.backlog for state in inputs.values())


class _Watch:
    """Looks at a running topology from outside."""

    def __init__(self, running: RunningTopology) -> None:
        self._running = running
        self._started_s = math.nan
        self._arrivals: deque[tuple[float, int]] = deque()

    def begin(self) -> None:
        self._started_s = time.monotonic()

    def inputs(self) -> Mapping[str, InputState]:
        return self._running.inputs()

    def progress(self, inputs: Mapping[str, InputState]) -> Progress:
        now_s = time.monotonic()
        arrived = sum(state.arrived for state in inputs.values() if state.is_source)
        batches = self._running.batches()
        recent = LatencyHistogram()
        for batch in batches:
            if batch.started_at_s + batch.duration_s > time.time() - _WINDOW_S:
                recent.merge(batch.latency)
        return Progress(
            now_s - self._started_s,
            arrived,
            sum(state.backlog for state in inputs.values()),
            self._rate(now_s, arrived),
            self._running.totals().batches,
            self._running.replicas(),
            recent.quantile_s(0.5),
            recent.quantile_s(0.95),
        )

    def report(self, master: str, ending: Ending, drained: bool) -> RunReport:
        whole = self._running.totals()
        measured_s = max(0.0, whole.ended_at_s - whole.started_at_s)
        inputs = [state for state in self.inputs().values() if state.is_source]
        totals, replicas = self._running.by_operator(), self._running.replicas()
        drops = tuple(self._running.drops())
        before = {id: sum(drop.count for drop in drops if id in drop.ends) for id in totals}
        return RunReport(
            self._running.topology.name,
            master,
            ending,
            drained,
            measured_s,
            whole.batches,
            arrived=sum(state.arrived for state in inputs),
            waiting=sum(state.backlog for state in inputs),
            operators={id: operator_report(part, replicas[id], measured_s, before[id]) for id, part in totals.items()},
            latency=latency_report(self._running.latency()),
            failures=tuple(self._running.failures()),
            drops=drops,
            states=self._running.state_sizes(),
            letters_left_out=self._running.letters_left_out(),
            live=tuple(sorted(self._running.graph.live)),
        )

    def _rate(self, now_s: float, arrived: int) -> float:
        self._arrivals.append((now_s, arrived))
        while now_s - self._arrivals[0][0] > _WINDOW_S:
            self._arrivals.popleft()
        first_s, first = self._arrivals[0]
        return (arrived - first) / (now_s - first_s) if now_s > first_s else 0.0
