"""A detached controller: it runs in a process of its own, reads the store of runs and writes the plan.

Measurements come from the store in which the driver records them, plans go into the run-time configuration that the
driver watches (SPEC I2). Either process can die alone: a stream without a controller goes on with the last plan, and a
controller that is started again starts from what the store holds.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from foretide.compile.stages import compile_stages
from foretide.control.loop import ControlLoop, Parts
from foretide.control.models.retraining import retrainer_of
from foretide.control.runtime import RuntimeActuator
from foretide.control.settings import RetrainingSettings
from foretide.control.starting.memory import Memory
from foretide.control.starting.rehearsal import Rehearsal
from foretide.control.steering import Steering
from foretide.errors import ForetideError, MetricsError
from foretide.events import EventLog
from foretide.records import Measurement
from foretide.store import News, Resumed, RunStore, RuntimeStore
from foretide.store.workspace import Workspace
from foretide.topology import Topology

__all__ = ["StoredMetrics", "detached_loop", "steer_detached"]


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
        self._seen: int | None = None

    def collect(self) -> Sequence[Measurement]:
        """Return the measurements since the last call, oldest first."""
        try:
            return self._read()
        except ForetideError as error:
            raise MetricsError(f"run {self._run!r}: its measurements cannot be read: {error}") from error

    def _read(self) -> Sequence[Measurement]:
        found: Resumed | News | None
        if self._seen is None:
            found = self._store.resume(self._run, self._history_s)
        else:
            # By row, not by time: a clock that was ahead for a while must not hide what comes after.
            found = self._store.run(self._run).news(self._seen)
        if found is None:
            return ()
        self._seen = found.seq
        return found.measurements


def detached_loop(
    topology: Topology, path: str | Path, store: RunStore, run: str, steering: Steering | None = None
) -> ControlLoop:
    """Return a control loop over a topology that runs in another process.

    Parameters
    ----------
    topology : Topology
        What runs.
    path : path
        The directory that it runs in, or its URI, of a driver on this machine.
    store : RunStore
        Where the driver records it.
    run : str
        The id or name of the run.
    steering : Steering
        Policy, settings and who listens; executors, which belong to the driver, are not scaled from here.
    """
    steering = steering or Steering()
    rehearsal = Rehearsal(topology, steering)
    rehearsal.start()
    loop, runtime = steering.settings.loop, RuntimeStore(Workspace.at(path).runtime)
    events = EventLog() if steering.events is None else steering.events
    parts = Parts(
        metrics=StoredMetrics(store, run, loop.history * loop.sample_s),
        actuator=RuntimeActuator(topology, runtime),
        planner=steering.make_planner(),
        forecaster=steering.settings.make_forecaster(),
        events=events,
        models=steering.models,
        overrides=runtime.overridden,
        stages=compile_stages(topology).shared_slots,
        signal=steering.make_signal(topology, events),
        ready=rehearsal.ready,
    )
    return ControlLoop(topology.with_execution_times(steering.execution_s), parts, loop)


def steer_detached(
    loop: ControlLoop,
    store: RunStore,
    run: str,
    stop: threading.Event | None = None,
    retraining: RetrainingSettings | None = None,
) -> None:
    """Run a control loop until the run that it steers has ended, or `stop` is set.

    It begins with what was learnt in earlier runs of the topology, and keeps what it learns for later ones. A
    forecaster that is trained beside the loop is, as `retraining` says.
    """
    ended = stop or threading.Event()
    memory = Memory(loop.topology, store, store, loop.parts.events)
    memory.resume(loop)
    settings = retraining or RetrainingSettings()
    trainer = retrainer_of(loop, settings, lambda: store.run(run).measurements(), store)
    if trainer is not None:
        trainer.start()
    try:
        while not ended.is_set():
            loop.run(cycles=1, stop=ended, begun=lambda: True)
            memory.cycle(loop)
            if _is_over(store, run):
                return
    finally:
        if trainer is not None:
            trainer.stop()
        memory.keep(loop)


def _is_over(store: RunStore, run: str) -> bool:
    try:
        return store.run(run).info.status != "running"
    except ForetideError:
        # A store that cannot be read now may be readable later; the cycle has reported it.
        return False
