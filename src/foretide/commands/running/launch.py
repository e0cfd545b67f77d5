"""Running a topology for the command line: Spark around it, progress on show, Ctrl-C as a graceful stop."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from foretide.commands.running.run_view import ProgressView
from foretide.spark import create_session
from foretide.spark.driver.run import RunOptions, RunReport, TopologyRun
from foretide.spark.session.logs import quiet_start
from foretide.spark.session.shipping import ship_modules
from foretide.spark.steering.sampling import Sampler
from foretide.spark.steering.steered_run import SteeredRun, SteeredTopologyRun
from foretide.spark.workers.health import watch_health
from foretide.store import RunSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

    from foretide.commands.running.request import RunRequest
    from foretide.control.starting.beginning import Beginning
    from foretide.control.steering import Steering
    from foretide.health.settings import HealthSettings
    from foretide.store import RunRecorder, RunStore
    from foretide.topology import Topology

__all__ = ["StopSwitch", "run_plain", "run_steered", "trace_name", "watched_session"]


class StopSwitch:
    """Watches runs for the command line: shows progress, and turns the first Ctrl-C into a graceful stop."""

    def __init__(self, view: ProgressView) -> None:
        self._view, self._asked = view, False

    @classmethod
    @contextmanager
    def installed(cls, view: ProgressView) -> Iterator[StopSwitch]:
        """Listen to Ctrl-C and to a request to terminate, until the end of the block."""
        switch = cls(view)
        before = {kind: signal.signal(kind, switch.ask) for kind in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield switch
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)

    def ask(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Ask the run to stop; a second time, stop it at once."""
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True

    def stopping(self) -> bool:
        """Return whether someone asked."""
        return self._asked

    def follow(self, run: TopologyRun) -> None:
        """Show how a run stands until it ends or someone asks, and let what is inside come through."""
        for progress in run.progress():
            self._view.show(progress)
            if self._asked:
                run.interrupt()
        self._view.say("stopping: letting what is inside come through")
        run.drain()


@contextmanager
def watched_session(
    request: RunRequest, topology: Topology, console: Console
) -> Iterator[tuple[SparkSession, ProgressView, StopSwitch]]:
    """Start Spark with what a topology needs, show progress and listen to Ctrl-C, until the end of the block."""
    with ProgressView(console, topology.name) as view, _session(request, topology) as spark:
        view.say("waiting for the first batch")
        # After Spark has put a handler of its own in place, which would cancel the running batch.
        with StopSwitch.installed(view) as switch:
            yield spark, view, switch


def run_plain(
    spark: SparkSession,
    options: RunOptions,
    switch: StopSwitch,
    store: RunStore | None,
    health: HealthSettings | None = None,
) -> RunReport:
    """Run a topology that nobody steers from here; recorded in a store, it can be steered from elsewhere."""
    spec = RunSpec(topology=options.topology, trace=trace_name(options.topology))
    with _recorded(store, spec) as recorder:
        with TopologyRun(spark, options) as run:
            if recorder is None:
                switch.follow(run)
            else:
                watch = watch_health(run.running, health, recorder=recorder, past=store, events=recorder)
                with Sampler(run.running, recorder=recorder, events=recorder), watch:
                    switch.follow(run)
        return run.report


def run_steered(
    spark: SparkSession,
    options: RunOptions,
    steering: Steering,
    switch: StopSwitch,
    store: RunStore | None,
    beginning: Beginning | None = None,
) -> SteeredRun:
    """Run a topology under control, and record it."""
    trace = trace_name(options.topology)
    with _recorded(store, steering.run_spec(options.topology, trace)) as recorder:
        with SteeredTopologyRun(spark, options, steering, recorder, beginning) as run:
            switch.follow(run)
        result = run.result
        if recorder is not None:
            interrupted = result.report.ending == "interrupted"
            recorder.finish(result.row(trace), status="interrupted" if interrupted else "finished")
    return result


def trace_name(topology: Topology) -> str:
    """Return the trace that a topology replays; empty where it replays none."""
    names = [
        str(source.connector.options.get("trace", ""))
        for source in topology.sources
        if source.connector.kind == "trace"
    ]
    return ", ".join(Path(name).stem if name.endswith(".csv") else name for name in names)


@contextmanager
def _recorded(store: RunStore | None, spec: RunSpec) -> Iterator[RunRecorder | None]:
    if store is None:
        yield None
    else:
        with store.begin_run(spec) as recorder:
            yield recorder


@contextmanager
def _session(request: RunRequest, topology: Topology) -> Iterator[SparkSession]:
    functions = [operator.function for operator in topology.operators if callable(operator.function)]
    modules = sorted({str(getattr(function, "__module__", "")) for function in functions} - {""})
    preload = modules if request.application else ()
    with quiet_start():
        settings = request.spark_settings()
        spark = create_session(request.master_for(topology), topology.name, preload=preload, settings=settings)
    try:
        ship_modules(spark, Path(request.named), topology)
        yield spark
    finally:
        spark.stop()
