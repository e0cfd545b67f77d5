"""A simulated run in the store of runs, as a run on Spark is: for the dashboard, for reports, and for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from foretide.clock import Clock, ManualClock
from foretide.control.decision import Decision
from foretide.control.loop import ControlLoop, Parts
from foretide.events import EventLog, FanOut
from foretide.records import Measurement
from foretide.sim.options import SimulationOptions
from foretide.sim.run import check_duration
from foretide.sim.system import SimulatedSystem
from foretide.store import RunRecorder, RunSpec, RunStore, RuntimeStore
from foretide.topology import Topology
from foretide.traces import RateTrace

__all__ = ["Recording", "record_simulation"]

# Simulated time between two looks at the system, as long as what is measured of a real one.
_SAMPLE_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Recording:
    """How a simulated run is recorded.

    Parameters
    ----------
    name : str
        What to call the run; the topology's name where it is empty.
    seconds : float, optional
        How long it lasts; to the end of the trace, where it is missing.
    clock : Clock
        A `ManualClock` runs as fast as it can, a `SystemClock` lives through the run.
    runtime : RuntimeStore, optional
        Where replicas can be set by hand while it runs.
    on_sample : callable, optional
        Called with the recorder and the present instant after each second, for instance to record features.
    """

    name: str = ""
    seconds: float | None = None
    clock: Clock = field(default_factory=ManualClock)
    runtime: RuntimeStore | None = None
    on_sample: Callable[[RunRecorder, float], None] | None = None


def record_simulation(
    store: RunStore,
    topology: Topology,
    trace: RateTrace,
    options: SimulationOptions,
    recording: Recording | None = None,
) -> str:
    """Simulate a run, record it as it goes on, and return its id.

    Parameters
    ----------
    store : RunStore
        Where to record it.
    topology : Topology
        What runs; operators must declare their execution time.
    trace : RateTrace
        The input of every source.
    options : SimulationOptions
        Who decides and how.
    recording : Recording, optional
        What to call it, how long, and by which clock.

    Examples
    --------
    >>> import tempfile
    >>> from foretide.topology import flow
    >>> job = flow("words")
    >>> _ = job.source("in").operator("count", execution_s=0.01, replicas=(1, 8))
    >>> trace = RateTrace("steps", bin_s=30, rates=[100, 350, 100, 100])
    >>> options = SimulationOptions.of({"planner": "pasps", "forecaster": "basic", "td_s": 10.0})
    >>> with RunStore(f"{tempfile.mkdtemp()}/runs.db", threaded=False) as store:
    ...     run = store.run(record_simulation(store, job.build(), trace, options))
    ...     len(run.measurements()), len(run.decisions()), run.info.status
    (120, 12, 'finished')
    """
    how = recording or Recording()
    clock, seconds = how.clock, how.seconds or check_duration(trace, options)
    system = SimulatedSystem(topology, trace, clock=clock, settings=options.simulation, seed=options.seed)
    with store.begin_run(_spec(topology, trace, options, how)) as recorder:
        buffer = _Buffer(system, recorder)
        loop = _loop(topology, options, how, buffer, recorder)
        _drive(loop, buffer, recorder, how, seconds)
        recorder.finish({"processed": system.totals.processed, "received": system.totals.received})
    return recorder.id


class _Buffer:
    """A simulated system whose measurements and latencies are recorded second by second."""

    def __init__(self, system: SimulatedSystem, recorder: RunRecorder) -> None:
        self.system, self._recorder = system, recorder
        self._new: list[Measurement] = []

    def look(self, now_s: float) -> None:
        """Record what happened since the last look."""
        measured = self.system.collect()
        self._recorder.measured(measured)
        self._new.extend(measured)
        latency = self.system.take_latency()
        if latency.count:
            self._recorder.latencies(now_s, sum(one.duration_s for one in measured) or _SAMPLE_S, latency)

    def collect(self) -> Sequence[Measurement]:
        """Return what came since the last call."""
        found, self._new = self._new, []
        return found


def _spec(topology: Topology, trace: RateTrace, options: SimulationOptions, how: Recording) -> RunSpec:
    settings: dict[str, Any] = {"loop": options.control.model_dump(), "simulated": True}
    if how.runtime is not None:
        settings["runtime_path"] = str(how.runtime.path)
    return RunSpec(
        topology=topology,
        name=how.name,
        policy=options.planner.name,
        forecaster=options.forecaster_name or "",
        trace=trace.name,
        td_s=options.control.td_s,
        settings=settings,
        started_at_s=how.clock.now_s(),
    )


def _loop(
    topology: Topology, options: SimulationOptions, how: Recording, buffer: _Buffer, recorder: RunRecorder
) -> ControlLoop:
    decided: Callable[[Decision], None] = recorder.decided
    overrides: Callable[[float], Mapping[str, int]] | None = None if how.runtime is None else how.runtime.overridden
    parts = Parts(
        metrics=buffer,
        actuator=buffer.system,
        planner=options.fresh_planner(),
        forecaster=options.fresh_forecaster(),
        clock=how.clock,
        events=FanOut(EventLog(), recorder),
        on_decision=decided,
        overrides=overrides,
        stages=buffer.system.stages,
    )
    return ControlLoop(topology, parts, options.control)


def _drive(loop: ControlLoop, buffer: _Buffer, recorder: RunRecorder, how: Recording, seconds: float) -> None:
    """Look every second and decide every `td_s`, until the time is up."""
    clock, td_s = how.clock, loop.settings.td_s
    began_s = clock.now_s()
    due_s = td_s
    for number in range(1, int(seconds / _SAMPLE_S) + 1):
        clock.sleep_s(max(0.0, began_s + number * _SAMPLE_S - clock.now_s()))
        now_s = clock.now_s()
        buffer.look(now_s)
        if how.on_sample is not None:
            how.on_sample(recorder, now_s)
        if now_s - began_s >= due_s - 1e-6:
            loop.run_cycle()
            due_s += td_s
