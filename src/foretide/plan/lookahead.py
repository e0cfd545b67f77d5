"""What a plan would cost: the fluid model rolled forward over everything that may arrive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from foretide._numba import njit
from foretide.plan.fluid import flow_down
from foretide.records import Floats, Ints
from foretide.topology import FlowGraph

__all__ = ["Lookahead", "Prices", "Scenarios"]

# Pieces that an interval is cut into: queues grow and drain within one.
_PIECES = 6
# Stands for the speed of an operator whose execution time is not known: nothing ever waits there.
_ANY_SPEED = 1e18
# Less than this of an event is rounding, not a queue; a rate below this counts as 0.
_SOME_EVENTS, _LEAST_RATE = 1e-6, 1e-9

_Graph: TypeAlias = tuple[Ints, Ints, Floats, Floats]


@dataclass(frozen=True, eq=False, kw_only=True)
class Scenarios:
    """Everything that may arrive, as rows.

    Parameters
    ----------
    before : array over scenarios and sources
        Events per second from now until the plan is active.
    during : array over scenarios and sources
        Events per second in the interval that is planned.
    weight : array over scenarios
        How likely each is; they sum to 1.
    """

    before: Floats
    during: Floats
    weight: Floats

    @property
    def mean(self) -> Floats:
        """The events per second expected of each source in the interval that is planned."""
        expected: Floats = self.weight @ self.during
        return expected

    @property
    def mean_before(self) -> Floats:
        """The events per second expected of each source until then."""
        expected: Floats = self.weight @ self.before
        return expected


@dataclass(frozen=True, kw_only=True)
class Prices:
    """What waiting costs, in units of an event's own work.

    Parameters
    ----------
    patience_s : float
        The wait that costs an event as much as its work; the cost grows with the square of the wait.
    lateness : float
        The additional cost of an event finding a queue at all.
    """

    patience_s: float
    lateness: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Lookahead:
    r"""Rolls a topology forward from now, and prices what happens.

    In replica-seconds, the cost of replicas r over an interval td is

    .. math:: J(r) = td\sum_i r_i + W\,E\Big[\int \frac{Q^2}{\lambda P^2} + a\lambda\,[Q > 0]\,dt + V(Q_{end})\Big]

    with Q the events queued anywhere, counted as events of the input; W the work of one of them; P the patience; a
    the price of lateness. What is left over at the end is drained at the rate x that is cheapest, after the activation
    delay A in which nothing can be done about it: :math:`V(Q) = x\,td + Q^3/(3\lambda P^2 x) + A Q^2/(\lambda P^2)`,
    with x the greater of :math:`\sqrt{Q^3/(3\lambda P^2 td)}` and :math:`Q/td`.

    Parameters
    ----------
    flow : FlowGraph
        The edges.
    share : array over edges
        Events passed on per event finished at the edge's start.
    execution_s : array over operators
        The time that a replica takes for an event; NaN where that is not known.
    parts : array over operators
        The part of the input that reaches each operator (θ).
    queued : array over operators
        Events queued now.
    running : array over operators
        Replicas that are active until the plan is.
    activation_s, interval_s : float
        Seconds until the plan is active, and for how long it will be.
    """

    flow: FlowGraph
    share: Floats
    execution_s: Floats
    parts: Floats
    queued: Floats
    running: Floats
    activation_s: float
    interval_s: float

    @property
    def work_s(self) -> float:
        """The time that all replicas together spend on one event of the input (W)."""
        return float(np.nansum(self.parts * self.execution_s))

    def queued_then(self, rates: Floats) -> Floats:
        """Return what is queued when the plan becomes active, by scenario and operator.

        `rates` are events per second until then, by scenario and source.
        """
        capacity = self.running * self._speed()
        queues: Floats = _pass(rates, self.queued, capacity, self.activation_s, self._graph())
        return queues

    def costs(self, candidates: Floats, scenarios: Scenarios, prices: Prices) -> Floats:
        """Return J for each row of `candidates`, which hold replicas by operator."""
        rate = max(float(scenarios.mean.sum()), _LEAST_RATE)
        waiting = _waiting(
            candidates * self._speed(),
            self.queued_then(scenarios.before),
            scenarios.during,
            scenarios.weight,
            self._graph(),
            (self.interval_s, self.activation_s, rate * prices.patience_s**2, prices.lateness),
        )
        costs: Floats = self.interval_s * candidates.sum(axis=1) + self.work_s * waiting
        return costs

    def _graph(self) -> _Graph:
        """Return edges, shares, and how many events of the input one event at each operator stands for."""
        return self.flow.starts, self.flow.ends, np.asarray(self.share), 1.0 / np.maximum(self.parts, 1.0)

    def _speed(self) -> Floats:
        """Return the events per second that a replica of each operator finishes."""
        known = self.execution_s > 0
        speed: Floats = np.divide(1.0, self.execution_s, out=np.full(known.size, _ANY_SPEED), where=known)
        return speed


@njit
def _pass(rates: Floats, queued: Floats, capacity: Floats, seconds: float, graph: _Graph) -> Floats:
    """Return what is queued after `seconds`, by scenario and operator."""
    starts, ends, share, _ = graph
    sources, step_s = rates.shape[1], seconds / _PIECES
    work, passed = np.empty(sources + queued.size), np.empty(starts.size)
    queues = np.empty((len(rates), queued.size))
    for case in range(len(rates)):
        queues[case] = queued
        if seconds > 0:
            for _ in range(_PIECES):
                work[:sources] = rates[case] * step_s
                work[sources:] = queues[case]
                flow_down(work, passed, capacity * step_s, starts, ends, share)
                queues[case] = np.maximum(work[sources:] - capacity * step_s, 0.0)
    return queues


@njit
def _waiting(
    capacities: Floats,
    queues: Floats,
    during: Floats,
    weight: Floats,
    graph: _Graph,
    terms: tuple[float, float, float, float],
) -> Floats:
    """Return what waiting costs for each row of capacities, in events' own work."""
    starts, ends, share, roots = graph
    interval_s, activation_s, scale, lateness = terms
    step_s, sources = interval_s / _PIECES, during.shape[1]
    work, passed = np.empty(sources + queues.shape[1]), np.empty(starts.size)
    found = np.zeros(len(capacities))
    for row in range(len(capacities)):
        capacity = capacities[row] * step_s
        for case in range(len(during)):
            queue = queues[case].copy()
            rate = during[case].sum()
            cost, before = 0.0, (queue * roots).sum()
            for _ in range(_PIECES):
                work[:sources] = during[case] * step_s
                work[sources:] = queue
                flow_down(work, passed, capacity, starts, ends, share)
                queue = np.maximum(work[sources:] - capacity, 0.0)
                after = (queue * roots).sum()
                middle = (before + after) / 2
                cost += middle * middle * step_s / scale
                if after > _SOME_EVENTS:
                    cost += lateness * rate * step_s
                before = after
            if before > _SOME_EVENTS:
                cube = before**3 / (3 * scale)
                drain = max(np.sqrt(cube / interval_s), before / interval_s)
                cost += drain * interval_s + cube / drain + activation_s * before * before / scale
            found[row] += weight[case] * cost
    return found
