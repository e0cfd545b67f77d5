"""A worker that misbehaves, and bypassing it (SPEC I8; figures 9 and 10 of [IDRNN]_), on Spark.

Three executors look events up in a store that answers after some milliseconds. One of them is throttled to a tenth of
its speed for a minute: stopped and continued in turn, with all of its processes. The run is made twice, without and
with worker health.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from foretide.experiments.report import Check, Line, Panel, Report
from foretide.experiments.split import constant_trace
from foretide.health.bypass import BypassSettings
from foretide.health.faults import Throttle, executor_processes
from foretide.health.settings import HealthSettings
from foretide.topology import Topology, flow

__all__ = ["BypassOptions", "BypassRun", "look_up", "report_bypass", "run_bypass"]

_MOST_AFTER, _LEAST_WITHOUT = 1.2, 5.0
_TARGET_S, _FIRST_ROWS = 10.0, 100_000


@dataclass(frozen=True, kw_only=True)
class BypassOptions:
    """How the experiment is run.

    Parameters
    ----------
    before_s, throttled_s : float
        Seconds before the worker is throttled, the first ones of which do not count, and while it is.
    warm_up_s : float
        The seconds that do not count.
    rate : float
        Events per second.
    wait_s : float
        How long the store takes to answer.
    share : float
        The share of its speed that the throttled worker keeps.
    trigger_s : float
        Seconds between the starts of two batches.
    master : str
        A cluster of at least two executors on this machine.
    health : HealthSettings
        How workers are watched.
    """

    before_s: float = 45.0
    throttled_s: float = 60.0
    warm_up_s: float = 20.0
    rate: float = 120.0
    wait_s: float = 0.003
    share: float = 0.1
    trigger_s: float = 1.0
    master: str = "local-cluster[3,1,1024]"
    health: HealthSettings = field(
        # Batches take a third of a second: half a second is long.
        default_factory=lambda: HealthSettings(
            by="peers", stalled_s=0.5, bypass=BypassSettings(confirm=3, cool_down_s=60.0)
        )
    )


@dataclass(frozen=True)
class Batch:
    """One batch: when it began and ended, how many events it had, and their mean time in the system."""

    began_s: float
    ended_s: float
    events: int
    mean_s: float


@dataclass(frozen=True)
class BypassRun:
    """The outcome of one run.

    Parameters
    ----------
    bypassing : bool
        Whether worker health was on.
    throttled_s : float
        When the worker was throttled.
    ended_s : float
        When it was released.
    detected_s : float, optional
        When it was bypassed.
    batches : tuple of Batch
        All batches with events.
    failed, lost, duplicated : int
        Events that operators gave up on, that never came to the sink, and that came twice.
    counted_s : float
        From when on batches count.
    events : tuple of str
        The events of worker health.
    """

    bypassing: bool
    throttled_s: float
    ended_s: float
    detected_s: float | None
    batches: tuple[Batch, ...]
    failed: int
    lost: int
    duplicated: int
    counted_s: float
    events: tuple[str, ...] = ()

    def mean_s(self, first_s: float, last_s: float) -> float:
        """Return the mean time of the events of batches that began in a stretch; NaN if there are none."""
        chosen = [batch for batch in self.batches if first_s <= batch.began_s < last_s]
        events = sum(batch.events for batch in chosen)
        return sum(batch.mean_s * batch.events for batch in chosen) / events if events else float("nan")

    @property
    def before_s(self) -> float:
        """The mean event time before the worker was throttled."""
        return self.mean_s(self.counted_s, self.throttled_s)

    @property
    def after_s(self) -> float:
        """The mean event time after detection; without worker health, all the time that the worker was throttled."""
        return self.mean_s(self.detected_s or self.throttled_s, self.ended_s)


def look_up(batch: pa.RecordBatch, wait_s: float) -> pa.RecordBatch:
    """Return the events, having waited for a store's answer to each of them."""
    for _ in range(batch.num_rows):
        time.sleep(wait_s)
    return batch


def declare(trace: str, wait_s: float) -> Topology:
    """Return the topology: look up behind a dynamic grouping, keep the results."""
    job = flow("bypass")
    events = job.source("events", "trace", trace=trace, payload="words", speed=1.0)
    work = partial(look_up, wait_s=wait_s)
    found = events.operator(
        "lookup", work, mode="arrow", grouping="dynamic", execution_s=wait_s, selectivity=1.0, replicas=3
    )
    found.sink("kept", "memory")
    return job.build()


def run_bypass(
    options: BypassOptions | None = None, *, bypassing: bool = True, progress: Callable[[str], None] = lambda text: None
) -> BypassRun:
    """Run the stream on Spark with one worker throttled for a while."""
    from foretide.spark import EngineSettings, create_session, start

    options = options or BypassOptions()
    spark = create_session(options.master, "bypass", preload=("foretide.experiments.bypass",))
    try:
        with tempfile.TemporaryDirectory() as folder:
            seconds = options.before_s + options.throttled_s
            topology = declare(constant_trace(Path(folder), options.rate, seconds), options.wait_s)
            # Batches are not cut short by admission: what has piled up is worked off in one of them.
            settings = EngineSettings(
                trigger_s=options.trigger_s, batch_target_s=_TARGET_S, first_rows=_FIRST_ROWS, features_every_s=2.0
            )
            running = start(topology, spark, Path(folder) / "run", settings)
            try:
                return _observe(running, options, bypassing, progress)
            finally:
                running.stop()
    finally:
        spark.stop()


def _observe(running: Any, options: BypassOptions, bypassing: bool, progress: Callable[[str], None]) -> BypassRun:
    from foretide.spark.driver.audit import SinkAudit
    from foretide.spark.workers.health import watch_health

    health = options.health.model_copy(update={"advisory": not bypassing})
    with watch_health(running, health) as watch:
        running.wait(options.warm_up_s)
        counted_s = time.time()
        running.wait(options.before_s - options.warm_up_s)
        victim = _busiest(running)
        progress(f"executor {victim} is throttled to {options.share:.0%}")
        throttled_s = time.time()
        with Throttle(lambda: executor_processes(victim), options.share):
            running.wait(options.throttled_s)
        ended_s = time.time()
        progress("and released")
        running.drain(180.0)
        events = [event for event in watch.events if event.kind.startswith("health.")]
    done = sum(state.done for state in running.inputs().values())
    audit = SinkAudit(running.topology).count(running, done, running.workspace.run_id())
    totals = running.totals()
    found = [event.at_s for event in events if event.kind == "health.bypassed" and event.data["worker"] == victim]
    return BypassRun(
        bypassing=bypassing,
        throttled_s=throttled_s,
        ended_s=ended_s,
        detected_s=found[0] if found and bypassing else None,
        batches=_batches(running.batches()),
        failed=sum(part.failed for part in totals.operators.values()),
        lost=audit.lost if audit is not None else 0,
        duplicated=audit.duplicated if audit is not None else 0,
        counted_s=counted_s,
        events=tuple(f"{event.at_s - throttled_s:+.1f} s {event.kind}: {event.message}" for event in events),
    )


def _busiest(running: Any) -> str:
    """Return the executor that recently had the most tasks: one that takes part."""
    tasks: dict[str, int] = {}
    for batch in running.batches()[-10:]:
        for id, worker in batch.workers.items():
            tasks[id] = tasks.get(id, 0) + worker.tasks
    return max(tasks, key=lambda id: tasks[id])


def _batches(found: Sequence[Any]) -> tuple[Batch, ...]:
    return tuple(
        Batch(batch.started_at_s, batch.started_at_s + batch.duration_s, batch.latency.count, batch.latency.mean_s)
        for batch in found
        if batch.latency.count
    )


def report_bypass(with_bypass: BypassRun, without: BypassRun, options: BypassOptions) -> Report:
    """Return what the two runs show."""
    ratios = [run.after_s / run.before_s for run in (with_bypass, without)]
    failed = [run.failed + run.lost + run.duplicated for run in (with_bypass, without)]
    detected = with_bypass.detected_s is not None
    delay_s = (with_bypass.detected_s or float("nan")) - with_bypass.throttled_s
    checks = (
        Check(
            f"with worker health, the mean event time after detection is at most {_MOST_AFTER:g} × that before",
            int(detected and ratios[0] <= _MOST_AFTER),
            1,
            f"{ratios[0]:.2f} ×, detected after {delay_s:.1f} s" if detected else "the worker was not detected",
        ),
        Check(f"without it, at least {_LEAST_WITHOUT:g} ×", int(ratios[1] >= _LEAST_WITHOUT), 1, f"{ratios[1]:.1f} ×"),
        Check("no event failed, was lost or came twice", sum(not count for count in failed), 2),
    )
    runs = {"with worker health": with_bypass, "without": without}
    rows = [_row(name, run, ratio) for (name, run), ratio in zip(runs.items(), ratios, strict=True)]
    return Report(
        name="bypass",
        title="A worker throttled to a tenth, with and without worker health",
        origin="Written by `foretide experiment bypass`;",
        head=(
            "run",
            "before (ms)",
            "after detection (ms)",
            "ratio",
            "peak (ms)",
            "detected (s)",
            "failed events",
        ),
        rows=rows,
        checks=checks,
        panels=(_panel(runs),),
        notes=(
            f"{options.rate:g} events a second over {options.master}; a lookup takes {options.wait_s * 1000:g} ms; a"
            f" batch every {options.trigger_s:g} s.",
            f"One executor (its JVM and its Python processes) runs for {options.share:.0%} of the time, for"
            f" {options.throttled_s:g} s, by SIGSTOP and SIGCONT.",
            "The mean event time is that of all events of batches that began in the stretch: what piled up before"
            " detection counts.",
        ),
        data={
            "ratio_with": ratios[0],
            "ratio_without": ratios[1],
            "detected_after_s": delay_s,
            "failed": failed,
            "events": {name: list(run.events) for name, run in runs.items()},
            "batches": {
                name: [[batch.began_s - run.throttled_s, batch.events, batch.mean_s] for batch in run.batches]
                for name, run in runs.items()
            },
        },
    )


def _row(name: str, run: BypassRun, ratio: float) -> list[str]:
    throttled = [batch.mean_s for batch in run.batches if run.throttled_s <= batch.began_s < run.ended_s]
    detected = "–" if run.detected_s is None else f"{run.detected_s - run.throttled_s:.1f}"
    return [
        name,
        f"{run.before_s * 1000:.0f}",
        f"{run.after_s * 1000:.0f}",
        f"{ratio:.2f}",
        f"{max(throttled, default=np.nan) * 1000:.0f}",
        detected,
        str(run.failed + run.lost + run.duplicated),
    ]


def _panel(runs: dict[str, BypassRun]) -> Panel:
    lines = tuple(
        Line(
            name,
            [batch.began_s - run.throttled_s for batch in run.batches if batch.began_s >= run.counted_s],
            [batch.mean_s * 1000 for batch in run.batches if batch.began_s >= run.counted_s],
        )
        for name, run in runs.items()
    )
    run = next(iter(runs.values()))
    marks = tuple(
        at_s for at_s in (0.0, (run.detected_s or run.throttled_s) - run.throttled_s, run.ended_s - run.throttled_s)
    )
    return Panel(
        "mean event time of each batch", "seconds since the worker was throttled", "ms", lines, log=True, marks=marks
    )
