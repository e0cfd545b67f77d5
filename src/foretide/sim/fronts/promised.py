r"""What it takes to keep a promise, for a plan that knows what will arrive: the cheapest slots of every batch.

Dynamic programming over the instants at which batches begin, on a grid of time. A batch that begins at t takes all
events that came since the one before it began at a; with n slots it lasts :math:`d = d_0 + W/n`, and its slots are held
until the next one begins. Of all n under which the quantile of the batch's own latencies keeps the promise, those that
make the cheapest way through the run are taken. So this is a plan that could have been carried out, and that keeps
the promise in every interval. It is not quite the cheapest of all: batches begin on the grid, and neither single late
batches nor the part of intervals in which a promise may be broken are made use of.
"""

from __future__ import annotations

import math

import numpy as np

from foretide._numba import njit
from foretide.plan.promise import Promise
from foretide.records import Floats
from foretide.sim.fronts.clairvoyant import Future

__all__ = ["least_slot_seconds"]

# The grid of time on which batches begin and end.
_GRID_S = 0.02
# Less than this of an event or of a step is rounding.
_SOME = 1e-6


def least_slot_seconds(future: Future, promise: Promise) -> float | None:
    """Return the slot-seconds of the cheapest plan that keeps a promise in every interval.

    None where no plan keeps it, where operators have replicas of their own, or where there are several stages, which
    share the time that is promised in ways that are not searched.

    >>> from foretide.plan.promise import parse_promise
    >>> from foretide.sim.options import SimulationOptions
    >>> from foretide.sim.settings import SimulationSettings
    >>> from foretide.topology import flow
    >>> from foretide.traces import RateTrace
    >>> job = flow("words")
    >>> _ = job.source("in").operator("count", execution_s=0.01, replicas=(1, 8))
    >>> batches = SimulationSettings(micro_batch={"fixed_s": 0.1, "per_task_s": 0.0, "trigger_s": 0.5})
    >>> options = SimulationOptions.of({"planner": "static", "td_s": 5.0, "settings": batches, "warm_up_s": 0.0})
    >>> future = Future(job.build(), RateTrace("flat", bin_s=100, rates=[100.0]), options)

    Batches of 50 events, half a second of work, may last 800 - 475 ms: three slots for 100 s.

    >>> round(least_slot_seconds(future, parse_promise("p95<800ms")), 3)
    300.0
    """
    stages = future.stages
    if len(stages) != 1:
        return None
    [stage] = stages
    fixed, per_task, trigger, target, cores, rounds, work = stage.batch.tolist()
    steps = round((stage.came.size - 1) * future.piece_s / _GRID_S)
    at = np.linspace(0.0, stage.came.size - 1, steps + 1)
    limit = (promise.target_s - future.base_latency_s) / _GRID_S
    rule = np.array([fixed + per_task * rounds, trigger, target, work]) * future.piece_s / _GRID_S
    if limit <= rule[0]:
        return None
    bounds = (float(stage.sizes[0]), min(float(stage.sizes[-1]), cores))
    least = _cheapest(np.interp(at, np.arange(stage.came.size), stage.came), rule, bounds, limit, 1 - promise.quantile)
    return least * _GRID_S if math.isfinite(least) else None


@njit
def _by(came: Floats, step: float) -> float:
    """Return the events that came by an instant; before the beginning they came as in the first step."""
    if step <= 0.0:
        return float(came[0] + (came[1] - came[0]) * step)
    low = min(int(step), came.size - 2)
    return float(came[low] + (came[low + 1] - came[low]) * (step - low))


@njit
def _at(came: Floats, events: float) -> float:
    """Return the instant by which so many events had come: the inverse of `_by`."""
    place = min(max(int(np.searchsorted(came, events)), 1), came.size - 1)
    step = came[place] - came[place - 1]
    return place if step <= 0.0 else place - 1 + (events - came[place - 1]) / step


@njit
def _cheapest(came: Floats, rule: Floats, bounds: tuple[float, float], limit: float, part: float) -> float:
    """Return the least slots times steps, infinite if no plan keeps the limit.

    Parameters
    ----------
    came : array over steps
        Events that came by then.
    rule : array
        What a batch takes in any case, the time between two, the work admitted and the work of an event, in steps.
    bounds : tuple of float
        The fewest and the most slots.
    limit, part : float
        The latency promised, in steps, and the part of a batch's events that may take longer.
    """
    overhead, trigger, target, work = rule
    steps, oldest = came.size - 1, int(np.ceil(limit))
    # By when a batch begins, and how long before that the one before it did.
    best = np.full((steps, oldest + 1), np.inf)
    for begin in range(steps - 1, -1, -1):
        tick = int(np.ceil(trigger * (np.floor(begin / trigger + 1e-9) + 1.0) - 1e-9)) if trigger > 0.0 else 0
        for lag in range(1, oldest + 1):
            served = _by(came, begin - lag)
            ready = came[begin] - served
            if ready < 1.0:
                # Nobody waits: the batch begins with the next event, or the tick after it.
                after = max(begin + 1, int(np.searchsorted(came, served + 1.0)))
                if trigger > 0.0:
                    after = max(after, int(np.ceil(trigger * np.ceil(after / trigger - 1e-9) - 1e-9)))
                then = best[after, min(after - begin + lag, oldest)] if after < steps else 0.0
                best[begin, lag] = bounds[0] * (min(after, steps) - begin) + then
                continue
            # By when the batch must end: when the first that may not be late would be.
            ends = limit + _at(came, served + part * ready)
            free = min(ends - begin - overhead, max(target - overhead, target / 2))
            if free <= _SOME:
                continue
            fewest = max(np.ceil(ready * work / free - 1e-9), bounds[0])
            soonest = max(begin + int(np.ceil(overhead + _SOME)), tick)
            after = max(int(np.ceil(begin + overhead + ready * work / fewest - 1e-9)), soonest)
            while after >= soonest:
                slots = fewest
                if after > tick:
                    slots = max(slots, np.ceil(ready * work / max(after - begin - overhead, _SOME) - 1e-9))
                if slots > bounds[1]:
                    break
                if after - begin <= oldest:
                    then = best[after, after - begin] if after < steps else 0.0
                    best[begin, lag] = min(best[begin, lag], slots * (min(after, steps) - begin) + then)
                after -= 1
    first = int(np.ceil(max(trigger, overhead) - _SOME))
    return float(best[0, min(first, oldest) :].min())
