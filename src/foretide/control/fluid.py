"""A running system in memory: events as a fluid that flows down the DAG, for trying a planner without an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from foretide.clock import Clock
from foretide.control.activation import Activation
from foretide.errors import ConfigError
from foretide.plan.fluid import flow_down
from foretide.plan.load import known_execution_s
from foretide.records import Floats, Ints, Measurement, Plan
from foretide.topology import Topology

__all__ = ["FluidSystem"]


class FluidSystem:
    """Both sides of a running system: a metric source and an actuator over a deterministic fluid model.

    In each step all that arrives at a source reaches the operators behind it at once; an operator finishes what its
    replicas have time for, passes it on by the declared shares, and queues the rest. Queues have no bound and nothing
    is lost. Execution times and shares are those that the topology declares.

    Parameters
    ----------
    topology : Topology
        What runs; every operator must declare `execution_s`.
    rates : sequence of float, or mapping of source to such a sequence
        Events per second in each step; the last one goes on for ever. A plain sequence is every source's.
    clock : Clock
        The time; the system has lived through it when it is next asked.
    step_s : float
        Seconds that a step, and so a measurement, takes.
    activation_s : float
        Seconds from a plan until its replicas are active.

    Examples
    --------
    >>> from foretide.clock import ManualClock
    >>> from foretide.topology import flow
    >>> job = flow("words")
    >>> _ = job.source("in").operator("count", execution_s=0.01, replicas=(1, 8))
    >>> clock = ManualClock()
    >>> system = FluidSystem(job.build(), [80.0, 150.0], clock=clock)
    >>> clock.sleep_s(3.0)
    >>> [(step.processed.tolist(), step.queued.tolist()) for step in system.collect()]
    [([80.0], [0.0]), ([100.0], [50.0]), ([100.0], [100.0])]
    """

    def __init__(
        self,
        topology: Topology,
        rates: Sequence[float] | Mapping[str, Sequence[float]],
        *,
        clock: Clock,
        step_s: float = 1.0,
        activation_s: float = 0.0,
    ) -> None:
        for name, seconds, least in (("step_s", step_s, 1e-6), ("activation_s", activation_s, 0.0)):
            if not least <= seconds < np.inf:
                raise ConfigError(f"fluid.{name}", expected=f"at least {least:g} seconds", got=seconds)
        self._topology, self._clock = topology, clock
        self._step_s = step_s
        self._rates = {source: _rates(source, rates) for source in topology.layout.sources}
        self._execution_s = known_execution_s(topology)
        self._began_at_s, self._steps = clock.now_s(), 0
        self._queued: Floats = np.zeros(len(topology.operators))
        self._activation = Activation(topology, activation_s)
        self._measured: list[Measurement] = []

    @property
    def queued(self) -> Floats:
        """Events queued before each operator."""
        return self._queued.copy()

    @property
    def replicas(self) -> Ints:
        """Replicas of each operator that are active."""
        return self._activation.active.copy()

    def collect(self) -> Sequence[Measurement]:
        """Return a measurement of every whole step since the last call."""
        self._live()
        measured, self._measured = self._measured, []
        return measured

    def apply(self, plan: Plan) -> Ints:
        """Take a plan, cut to the operators' bounds; it is active `activation_s` seconds from now."""
        self._live()
        requested = self._activation.request(plan, self._clock.now_s())
        self._activate(self._now_s())
        return requested

    def _now_s(self) -> float:
        return self._began_at_s + self._steps * self._step_s

    def _live(self) -> None:
        """Go through the whole steps up to the present; a clock that was set back waits until it has caught up."""
        # A step that is over but for rounding of the clock is over.
        due = int((self._clock.now_s() - self._began_at_s) / self._step_s + 1e-9)
        while self._steps < due:
            self._activate(self._now_s())
            self._measured.append(self._step())

    def _activate(self, now_s: float) -> None:
        """Make active what is due before the middle of the step that begins now."""
        self._activation.take_due(now_s + self._step_s / 2)

    def _step(self) -> Measurement:
        topology, step_s, flow = self._topology, self._step_s, self._topology.flow
        arrived = np.array([rates[min(self._steps, rates.size - 1)] * step_s for rates in self._rates.values()])
        capacity = self._activation.active * step_s / self._execution_s
        work, passed = np.concatenate((arrived, self._queued)), np.empty(len(topology.layout.edges))
        flow_down(work, passed, capacity, flow.starts, flow.ends, topology.declared_share)
        processed = np.minimum(work[flow.sources :], capacity)
        self._queued = work[flow.sources :] - processed
        self._steps += 1
        return Measurement(
            layout=topology.layout,
            ended_at_s=self._now_s(),
            duration_s=step_s,
            arrived=arrived,
            passed=passed,
            processed=processed,
            queued=self._queued,
            busy_s=processed * self._execution_s,
            replicas=self._activation.active,
        )


def _rates(source: str, rates: Sequence[float] | Mapping[str, Sequence[float]]) -> Floats:
    given: npt.ArrayLike | None = rates.get(source) if isinstance(rates, Mapping) else rates
    if given is None:
        raise ConfigError(f"fluid.rates.{source}", expected="events per second of every source", got="none")
    values: Floats = np.asarray(given, dtype=np.float64)
    if values.ndim != 1 or not values.size or not (np.isfinite(values) & (values >= 0)).all():
        raise ConfigError(f"fluid.rates.{source}", expected="finite events per second, one per step", got=repr(given))
    return values
