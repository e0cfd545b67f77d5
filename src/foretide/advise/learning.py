"""What a log tells about a query: what came for it and when, and how long its batches take."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from foretide.eventlogs.application import Batch, LoggedApplication, LoggedQuery
from foretide.plan.stages.batch_model import BatchModel
from foretide.records import BatchRun, SharedSlots
from foretide.sim.attached.curve import ArrivalCurve
from foretide.sim.attached.latencies import Latencies
from foretide.sim.attached.query import QueryModel

__all__ = ["arrivals", "learn_query", "logged_latencies", "trigger_seconds"]

# The first batches of a query start Python and compile plans: no rule for the others, where there are enough of them.
_COLD, _ENOUGH = 2, 8
# Less than this, relative to their mean, and batches are too much alike to tell what a row costs from them.
_ALIKE = 0.2


def arrivals(query: LoggedQuery, origin_s: float = 0.0) -> ArrivalCurve:
    """Return when the rows of a query came, in seconds since `origin_s`.

    When a batch begins Spark looks how far its sources are, so what it takes had come by then, and not before the batch
    before it began; rows that it leaves, as a limit of rows would make it, had come too.
    """
    done, points = 0, []
    before_s = query.batches[0].began_at_s - _usual_gap_s(query.batches)
    points.append((before_s, 0.0))
    for batch in query.batches:
        done += batch.rows
        points.append((batch.began_at_s, float(done + batch.ahead)))
    began_s = np.array([batch.began_at_s for batch in query.batches])
    counts = np.cumsum([batch.rows for batch in query.batches])
    for at_s in query.idle:
        # Nothing new was there then.
        place = int(np.searchsorted(began_s, at_s, side="right")) - 1
        if place >= 0:
            points.append((at_s, float(counts[place])))
    return ArrivalCurve.of((at_s - origin_s, rows) for at_s, rows in points)


def logged_latencies(query: LoggedQuery, curve: ArrivalCurve, origin_s: float) -> Latencies:
    """Return how long the rows of a query took, from when they came to when their batch had ended."""
    found, done = Latencies(), 0
    for batch in query.batches:
        found.add(curve, done, done + batch.rows, batch.ended_at_s - origin_s)
        done += batch.rows
    return found


def trigger_seconds(batches: Sequence[Batch]) -> float:
    """Return the seconds between two triggers, as batches tell that waited for one; 0 where there is none.

    >>> trigger_seconds([Batch(float(at), 0.4, 10) for at in range(10)])
    1.0
    >>> trigger_seconds([Batch(0.5 * at, 0.48, 10) for at in range(10)])
    0.0
    """
    began_s = np.array([batch.began_at_s for batch in batches])
    took_s = np.array([batch.duration_s for batch in batches])[:-1]
    between_s = np.diff(began_s)
    waited = between_s[took_s < 0.9 * between_s]
    if waited.size < max(3, 0.2 * between_s.size):
        return 0.0
    low, middle, high = np.quantile(waited, [0.25, 0.5, 0.75])
    return round(float(middle), 2) if high - low <= 0.1 * middle else 0.0


def learn_query(application: LoggedApplication, query: LoggedQuery, origin_s: float) -> QueryModel:
    """Return what the log tells about a query; instants are seconds since `origin_s`."""
    trigger_s = trigger_seconds(query.batches)
    batches = query.batches[_COLD:] if len(query.batches) >= _ENOUGH else query.batches
    told = [batch for batch in batches if math.isfinite(batch.ran_s)]
    # A log may miss a stage here and there.
    by_tasks = 2 * len(told) > len(batches)
    batches = told if by_tasks else batches
    cores = application.cores
    shape = QueryModel("", ArrivalCurve.of([(0.0, 0.0)]), 0.0, 0.0, tasks=query.tasks)
    slots = [
        max(shape.side_by_side(float(max(1, application.executors_at(batch.began_at_s)) * cores)), 1.0)
        for batch in batches
    ]
    row_s = math.nan if by_tasks else _row_seconds(batches, slots)
    pool = SharedSlots((query.name,), ((0,),), (1,), (max(1, math.ceil(max(slots))),), trigger_s=trigger_s)
    model = BatchModel(pool, fixed_work=by_tasks)
    for batch, beside in zip(batches, slots, strict=True):
        model.learn(
            BatchRun(
                stage=0,
                began_at_s=batch.began_at_s,
                duration_s=batch.duration_s,
                slots=round(beside),
                events=batch.rows,
                work_s=batch.ran_s if by_tasks else batch.rows * row_s,
            )
        )
    known = model.figures(0)
    cold_s = _cold_seconds(application, query, known.batch_s, known.event_s) if by_tasks else 0.0
    usual = float(np.median(slots))
    held_back = [batch.rows for batch in batches if batch.ahead > 0]
    return QueryModel(
        query.name,
        arrivals(query, origin_s),
        start_s=known.start_s + known.slot_s * usual,
        row_s=known.event_s * known.skew,
        gap_s=known.gap_s,
        trigger_s=trigger_s,
        tasks=query.tasks,
        limit=float(max(held_back)) if len(held_back) >= 3 else math.inf,
        batch_s=known.batch_s * known.skew,
        cold_s=cold_s,
    )


def _cold_seconds(application: LoggedApplication, query: LoggedQuery, batch_s: float, row_s: float) -> float:
    """Return how much more work the first batches were for each executor than they are later, in seconds of a slot."""
    first = [batch for batch in query.batches[:_COLD] if math.isfinite(batch.ran_s)]
    more_s = sum(max(0.0, batch.ran_s - batch_s - batch.rows * row_s) for batch in first)
    # Those that come while the first one runs take part in it.
    return more_s / max(1, application.executors_at(query.batches[0].ended_at_s))


def _row_seconds(batches: Sequence[Batch], slots: Sequence[float]) -> float:
    """Return the work of a row, in seconds of a slot, where the log does not tell how long tasks ran.

    It is the slope of durations over rows per slot. Where batches are too much alike, all that their own jobs took
    counts as work.
    """
    each = np.array([batch.rows / beside for batch, beside in zip(batches, slots, strict=True)])
    took_s = np.array([batch.duration_s for batch in batches])
    inside_s = np.array([batch.duration_s - batch.outside_s for batch in batches])
    at_most = float(inside_s.sum() / each.sum())
    if len(batches) < 3 or each.std() <= _ALIKE * each.mean():
        return at_most
    kept = np.ones(each.size, dtype=bool)
    slope = at_most
    for _ in range(3):
        centred = each[kept] - each[kept].mean()
        slope = float(centred @ took_s[kept] / (centred @ centred))
        miss_s = took_s - (took_s[kept].mean() + slope * (each - each[kept].mean()))
        kept = np.abs(miss_s) <= 3.0 * max(float(np.median(np.abs(miss_s[kept]))) * 1.5, 1e-6)
    return min(max(slope, 0.0), at_most)


def _usual_gap_s(batches: Sequence[Batch]) -> float:
    began_s = [batch.began_at_s for batch in batches]
    return float(np.median(np.diff(began_s))) if len(began_s) > 1 else batches[0].duration_s
