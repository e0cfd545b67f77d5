"""When not to wait for the next decision: a sample shows a backlog that the last one did not know of."""

from __future__ import annotations

from foretide.records import Measurement, Window

__all__ = ["grown_backlog"]


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
