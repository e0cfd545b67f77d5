"""When not to wait for the next decision: a sample shows what the last one did not know of."""

from __future__ import annotations

from foretide.plan.promise import Promise, interval_quantile_s
from foretide.records import Measurement, Window

__all__ = ["grown_backlog", "promise_at_risk"]


def grown_backlog(measurement: Measurement, last: Window, backlog_s: float) -> str:
    """Return why a decision is due at once, in words; empty where none is.

    Parameters
    ----------
    measurement : Measurement
        What was measured just now.
    last : Window
        What the last decision was made from.
    backlog_s : float
        Seconds of the input of that window by which what waits may have grown.
    """
    grown = float(measurement.queued.sum() - last.queued.sum())
    # Of a source that was silent, one event a second is taken to be usual.
    usual = max(float(last.arrived.sum()) / last.duration_s, 1.0)
    if grown <= backlog_s * usual:
        return ""
    return f"{grown:.0f} events more wait than at the last decision, {grown / usual:.1f} s of its input"


def promise_at_risk(measurement: Measurement, last: Window, promise: Promise) -> str:
    """Return why a decision is due at once for the sake of a promise, in words; empty where none is.

    That is, where the events of a sample were late by themselves, so that the interval is about to break the promise.
    An interval that broke it already is known to the last decision and no news.

    Parameters
    ----------
    measurement : Measurement
        What was measured just now.
    last : Window
        What the last decision was made from.
    promise : Promise
        What is promised.
    """
    late_s, before_s = (interval_quantile_s(found.batches, promise.quantile) for found in (measurement, last))
    if not late_s > promise.target_s or before_s > promise.target_s:
        return ""
    return f"p{100 * promise.quantile:g} of the last sample is {1e3 * late_s:.0f} ms, {promise} is promised"
