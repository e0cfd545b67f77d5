"""A controller beside the driver, in a process of its own: it reads the store of runs, and writes the plan.

Measurements come from the store in which the driver records them, plans go into the run-time configuration that the
driver watches (SPEC I2). Either process can die alone: a stream without controller goes on with the last plan, and a
controller that is started again begins with what the store knows.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from foretide.clock import Clock, SystemClock
from foretide.control import ControlLoop, ControlSettings, Parts
from foretide.control.runtime import RuntimeActuator
from foretide.errors import ForetideError, MetricsError
from foretide.events import EventLog, EventSink
from foretide.plan import Guarded, Planner
from foretide.records import Measurement
from foretide.store import RunStore, RuntimeStore
from foretide.store.workspace import Workspace
from foretide.topology import Topology

__all__ = ["BesideOptions", "StoredMetrics", "control_beside", "steer_beside"]


@dataclass(frozen=True, kw_only=True)
class BesideOptions:
    """What a controller beside the driver may be given beside its settings.

    Parameters
    ----------
    planner : Planner or Guarded, optional
        Instead of the one that the settings name.
    events : EventSink
        Hears what happens.
    clock : Clock
        Tells the time.
    """

    planner: Planner | Guarded | None = None
    events: EventSink = field(default_factory=EventLog)
    clock: Clock = field(default_factory=SystemClock)


class StoredMetrics:
    """The measurements that another process records, as they come.

    The first call also gives those of the recent past, so that histories are full from the start.

    Parameters
    ----------
    store : RunStore
        Where they are recorded.
    run : str
        Which run.
    history_s : float
        How far the first call looks back from the last measurement.
    """

    def __init__(self, store: RunStore, run: str, history_s: float) -> None:
        self._store, self._run, self._history_s = store, run, history_s
        self._since_s: float | None = None

    def collect(self) -> Sequence[Measurement]:
        """Return the measurements since the last call, oldest first."""
        try:
            found = self._read()
        except ForetideError as error:
            raise MetricsError(f"run {self._run!r}: its measurements cannot be read: {error}") from error
        if found:
            self._since_s = found[-1].ended_at_s
        return found

    def _read(self) -> Sequence[Measurement]:
        if self._since_s is not None:
            return self._store.run(self._run).measurements(self._since_s)
        resumed = self._store.resume(self._run, self._history_s)
        return () if resumed is None else resumed.measurements


def control_beside(
    topology: Topology,
    path: str | Path,
    store: RunStore,
    run: str,
    settings: ControlSettings | None = None,
    options: BesideOptions | None = None,
) -> ControlLoop:
    """Return a control loop over a topology that runs in another process.

    Parameters
    ----------
    topology : Topology
        What runs.
    path : path
        The directory that it runs in.
    store : RunStore
        Where the driver records it.
    run : str
        The id or name of the run.
    settings : ControlSettings
        Loop, planner, forecaster, guards.
    options : BesideOptions
        What else.
    """
    chosen, given = settings or ControlSettings(), options or BesideOptions()
    runtime = RuntimeStore(Workspace(Path(path).absolute()).runtime)
    parts = Parts(
        metrics=StoredMetrics(store, run, chosen.loop.history * chosen.loop.sample_s),
        actuator=RuntimeActuator(topology, runtime),
        planner=given.planner or chosen.make_planner(),
        forecaster=chosen.make_forecaster(),
        clock=given.clock,
        events=given.events,
        overrides=runtime.overridden,
    )
    return ControlLoop(topology, parts, chosen.loop)


def steer_beside(loop: ControlLoop, store: RunStore, run: str, stop: threading.Event | None = None) -> None:
    """Run a control loop until the run that it steers has ended, or `stop` is set."""
    ended = stop or threading.Event()
    while not ended.is_set():
        loop.run(cycles=1, stop=ended)
        try:
            if store.run(run).info.status != "running":
                return
        except ForetideError:
            # A store that cannot be read now may be readable later; the cycle has reported it.
            continue
