"""What bypassing a worker is worth (SPEC I8): an application on four workers, one of which shares a core with hogs."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _hogs import Hog
from foretide.apps import find_app
from foretide.errors import ConfigError
from foretide.health.bypass import BypassSettings
from foretide.health.faults import executor_processes
from foretide.health.settings import HealthSettings
from foretide.latency import LatencyHistogram

__all__ = ["BypassPlan", "run_bypass"]

_HOGS = 6
# The hogs and their victim have this core, where there are others.
_CORE = 0


@dataclass(frozen=True)
class BypassPlan:
    """How long the parts of a run are, and what runs.

    Parameters
    ----------
    app : str
        The application.
    options : mapping
        Its options.
    warm_up_s, before_s, hogged_s : float
        What does not count, what the rest is compared with, and how long a worker is hogged.
    ramp_s : float
        Seconds in which hogs grow.
    by : str
        Who judges workers.
    trigger_s : float
        Seconds between the starts of two batches.
    """

    app: str
    options: Mapping[str, Any]
    warm_up_s: float = 40.0
    before_s: float = 200.0
    hogged_s: float = 180.0
    ramp_s: float = 60.0
    by: str = "linear"
    trigger_s: float = 1.0


def run_bypass(plan: BypassPlan, *, bypassing: bool, hogged: bool = True) -> dict[str, Any]:
    """Run an application, hog one of its four workers, and return how it did before and after, as plain data."""
    from foretide.spark import EngineSettings, create_session, start
    from foretide.spark.workers.health import watch_health

    spark = create_session("local-cluster[4,1,1024]", f"bypass-{plan.app}", preload=("foretide.apps",))
    settings = HealthSettings.model_validate(
        {
            "by": plan.by,
            "advisory": not bypassing,
            "bypass": BypassSettings(cool_down_s=plan.hogged_s + 60.0),
            # The first training ends well before the hogs begin.
            "trainer": {"first_after_s": 0.75 * (plan.warm_up_s + plan.before_s), "every_s": 86_400.0},
        }
    )
    try:
        with tempfile.TemporaryDirectory() as folder:
            topology = find_app(plan.app).build({"store": "none", **plan.options})
            running = start(
                topology, spark, Path(folder) / "run", EngineSettings(trigger_s=plan.trigger_s, kept_batches=10_000)
            )
            try:
                with watch_health(running, settings) as watch:
                    return _observe(running, watch, plan, hogged=hogged)
            finally:
                running.stop(drain=False)
    finally:
        spark.stop()


def _observe(running: Any, watch: Any, plan: BypassPlan, *, hogged: bool) -> dict[str, Any]:
    running.wait(plan.warm_up_s)
    counted_s = time.time()
    running.wait(plan.before_s)
    began_s, victim = time.time(), _busiest(running)
    hog = Hog("cpu", plan.ramp_s, plan.hogged_s, _HOGS, _CORE) if hogged else nullcontext()
    with hog:
        if hogged:
            _confine(victim)
        running.wait(plan.hogged_s)
    ended_s = time.time()
    events = [event for event in watch.events if event.kind.startswith(("health.", "model."))]
    bypassed = [event for event in events if event.kind == "health.bypassed"]
    found = [event for event in bypassed if hogged and event.at_s >= began_s and event.data["worker"] == victim]
    detected_s = found[0].at_s if found else None
    # From when hogs are at full force, and where a worker is bypassed, what piled up until then apart.
    full_s = began_s + plan.ramp_s
    after_s = max(full_s, (detected_s or full_s) + 10.0)
    return {
        "app": plan.app,
        "by": plan.by,
        "before": _stretch(running, counted_s, began_s),
        "after": _stretch(running, after_s, ended_s),
        "detected_after_s": None if detected_s is None else detected_s - began_s,
        "lead_s": None if detected_s is None else full_s - detected_s,
        "detected_by": found[0].data.get("policy") if found else None,
        "false_alarms": len(bypassed) - len(found),
        "events": [f"{event.at_s - began_s:+.1f} s {event.kind}: {event.message}" for event in events],
    }


def _confine(executor: str) -> None:
    """Let all threads of an executor run on the hogs' core only; what they start stays there too."""
    for pid in executor_processes(executor):
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with suppress(OSError):
                    os.sched_setaffinity(int(thread), {_CORE})


def _busiest(running: Any) -> str:
    """Return the executor that recently had the most tasks: one that takes part."""
    tasks: dict[str, int] = {}
    for batch in running.batches()[-20:]:
        for id, worker in batch.workers.items():
            tasks[id] = tasks.get(id, 0) + worker.tasks
    if not tasks:
        raise ConfigError("application", expected="tasks on its workers", got="none", remedy="let it warm up longer")
    return max(tasks, key=lambda id: tasks[id])


def _stretch(running: Any, first_s: float, last_s: float) -> dict[str, float]:
    """Return throughput and 95th percentile of latency of the batches that began in a stretch."""
    latency, rows = LatencyHistogram(), 0
    for batch in running.batches():
        if first_s <= batch.started_at_s < last_s:
            latency.merge(batch.latency)
            rows += batch.latency.count
    seconds = max(last_s - first_s, 1e-9)
    return {"events_per_s": rows / seconds, "p95_ms": 1e3 * latency.quantile_s(0.95) if rows else float("nan")}
