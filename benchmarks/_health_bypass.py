"""An application as `foretide run --health` runs it, while hogs share the core of one of its four workers (SPEC I8)."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from _hogs import Hog
from foretide.apps import find_app
from foretide.commands.running.request import RunRequest
from foretide.commands.running.run import TRIGGER_S
from foretide.errors import ConfigError
from foretide.events import Event
from foretide.health.faults import executor_processes
from foretide.latency import LatencyHistogram

__all__ = ["WAYS", "BypassPlan", "outcome", "run_bypass", "stretch_of"]

#: What happens to an application: hogs and bypass, hogs and advice alone, or no hogs, so no reason to bypass anybody.
WAYS = ("with", "without", "calm")
# Figures are kept of every stretch that ends with the hogs and begins at a multiple of these seconds after them.
_GRID_S = 10.0
# The hogs and their victim have this core, where there are others.
_CORE = 0
# Executors that come in the place of others are numbered on; so many may come, and are looked for every so often.
_PLACES, _LOOK_AGAIN_S = ("4", "5", "6", "7"), 3.0


@dataclass(frozen=True)
class BypassPlan:
    """How long the parts of a run are, and what runs.

    Parameters
    ----------
    app : str
        The application.
    options : mapping
        Its options.
    before_s, hogged_s : float
        How long it runs before one of its workers is hogged, and for how long it is.
    calm_s : float
        How long it goes on after that in a run without hogs, to see whether anybody is bypassed for nothing.
    ramp_s : float
        Seconds in which hogs grow.
    hogs : mapping of str to int
        How many processes take each resource.
    by : str
        Who judges workers.
    """

    app: str
    options: Mapping[str, Any]
    before_s: float = 240.0
    hogged_s: float = 180.0
    calm_s: float = 300.0
    ramp_s: float = 60.0
    hogs: tuple[tuple[str, int], ...] = (("cpu", 4), ("memory", 1), ("disk", 1))
    by: str = "linear"

    @property
    def settings(self) -> dict[str, Any]:
        """What a run depends on, as JSON has it: runs of other settings are no turns of the same benchmark."""
        return {**asdict(self), "options": dict(self.options), "hogs": [list(one) for one in self.hogs]}


def run_bypass(plan: BypassPlan, way: str) -> dict[str, Any]:
    """Run an application in one of `WAYS`, and return how it did, as plain data."""
    from foretide.spark import EngineSettings, create_session
    from foretide.spark.driver.run import RunOptions
    from foretide.spark.steering.steered_run import SteeredTopologyRun

    topology = find_app(plan.app).build({"store": "none", **plan.options})
    with tempfile.TemporaryDirectory(prefix="foretide-", ignore_cleanup_errors=True) as folder:
        config = Path(folder) / "settings.toml"
        config.write_text(f"[health]\nadvisory = {str(way == 'without').lower()}\n", encoding="utf-8")
        request = RunRequest(named=plan.app, health=plan.by, config=config, store="none", fresh=True)
        spark = create_session(request.master_for(topology), f"bypass-{plan.app}", preload=("foretide.apps",))
        try:
            settings = EngineSettings(trigger_s=TRIGGER_S, kept_batches=10_000)
            options = RunOptions(topology=topology, path=Path(folder) / "run", settings=settings)
            with SteeredTopologyRun(spark, options, request.steering(topology)) as run:
                return _observe(run.running, run.controller.health, plan, way)
        finally:
            spark.stop()


def _observe(running: Any, watch: Any, plan: BypassPlan, way: str) -> dict[str, Any]:
    _wait(running, plan.before_s)
    began_s = time.time()
    victim = None if way == "calm" else _busiest(running)
    if victim is None:
        _wait(running, plan.hogged_s + plan.calm_s)
    else:
        with _hogged(plan, victim) as look_again:
            while time.time() < began_s + plan.hogged_s:
                look_again()
                _wait(running, min(_LOOK_AGAIN_S, max(0.0, began_s + plan.hogged_s - time.time())))
    events = [event for event in watch.events if event.kind.startswith(("health.", "model."))]
    return outcome(plan, way, victim, began_s, running.batches(), events)


def outcome(
    plan: BypassPlan, way: str, victim: str | None, began_s: float, batches: Sequence[Any], events: Sequence[Event]
) -> dict[str, Any]:
    """Return how a run did: when the hogged worker was found, who was bypassed for nothing, and figures by stretch.

    `from_s` is when figures count from: as soon as hogs are at full force, and where the worker is bypassed ten seconds
    after that, so that what piled up until then is apart.
    """
    bypassed = [event for event in events if event.kind == "health.bypassed"]
    # Whoever comes in the place of the victim is hogged as well.
    right = [
        event
        for event in bypassed
        if victim is not None and event.at_s >= began_s and _is_hogged(event.data["worker"], victim)
    ]
    detected_s = right[0].at_s - began_s if right else None
    from_s = plan.ramp_s if detected_s is None or way == "without" else max(plan.ramp_s, detected_s + _GRID_S)
    last_s = plan.hogged_s - _GRID_S
    places = [_GRID_S * number for number in range(math.ceil(plan.hogged_s / _GRID_S))]
    return {
        "from_s": min(_GRID_S * math.ceil(from_s / _GRID_S), last_s),
        "stretches": {f"{place:g}": stretch_of(batches, began_s + place, began_s + plan.hogged_s) for place in places},
        "detected_after_s": detected_s,
        "lead_s": None if detected_s is None else plan.ramp_s - detected_s,
        "detected_by": right[0].data.get("policy") if right else None,
        "false_alarms": len(bypassed) - len(right),
        "seconds": plan.before_s + plan.hogged_s + (plan.calm_s if way == "calm" else 0.0),
        "events": [f"{event.at_s - began_s:+.1f} s {event.kind}: {event.message}" for event in events],
    }


def stretch_of(batches: Sequence[Any], first_s: float, last_s: float) -> dict[str, float | None]:
    """Return throughput and 95th percentile of latency of the batches that began in a stretch."""
    latency, rows = LatencyHistogram(), 0
    for batch in batches:
        if first_s <= batch.started_at_s < last_s:
            latency.merge(batch.latency)
            rows += batch.latency.count
    p95_ms = 1e3 * latency.quantile_s(0.95) if rows else None
    return {"events_per_s": rows / max(last_s - first_s, 1e-9), "p95_ms": p95_ms}


@contextmanager
def _hogged(plan: BypassPlan, victim: str) -> Iterator[Any]:
    """Let hogs and a worker share a core; what is yielded confines whoever has come in its place since.

    It raises where a hog has died.
    """
    hogs = [Hog(kind, plan.ramp_s, plan.hogged_s, count, _CORE) for kind, count in plan.hogs]

    def look_again() -> None:
        for hog in hogs:
            hog.check()
        for executor in (victim, *_PLACES):
            with suppress(ConfigError):  # it has gone, or has not come
                for pid in executor_processes(executor):
                    _keep_on_core(pid)

    with ExitStack() as stack:
        for hog in hogs:
            stack.enter_context(hog)
        yield look_again


def _is_hogged(worker: str, victim: str) -> bool:
    return worker == victim or worker in _PLACES


def _keep_on_core(pid: int) -> None:
    """Let all threads of a process run on the hogs' core only; what they start stays there too."""
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                os.sched_setaffinity(int(thread), {_CORE})


def _wait(running: Any, seconds: float) -> None:
    """Wait, and raise what a stage failed with."""
    running.wait(seconds)
    running.check()


def _busiest(running: Any) -> str:
    """Return the executor that recently had the most tasks: one that takes part."""
    tasks: dict[str, int] = {}
    for batch in running.batches()[-20:]:
        for id, worker in batch.workers.items():
            tasks[id] = tasks.get(id, 0) + worker.tasks
    if not tasks:
        raise ConfigError("application", expected="tasks on its workers", got="none", remedy="let it run longer first")
    return max(tasks, key=lambda id: tasks[id])
