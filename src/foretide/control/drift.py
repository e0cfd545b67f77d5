"""Watching execution times drift away from those of the benchmark before deployment (SPEC P7)."""

from __future__ import annotations

from collections.abc import Mapping

from foretide.events import Event, EventSink
from foretide.records import Window

__all__ = ["DriftWatch"]


class DriftWatch:
    """Reports when the measured execution time of an operator leaves what its benchmark said, and when it is back.

    The loop itself always plans from what it measures; this is for people, who may want to look why.

    Parameters
    ----------
    expected_s : mapping of str to float
        Execution times by operator.
    events : EventSink
        Hears ``profile.drift`` and ``profile.back``.
    factor : float
        How many times slower, or faster, is too much.
    """

    def __init__(self, expected_s: Mapping[str, float], events: EventSink, factor: float = 2.0) -> None:
        self._expected_s, self._events, self._factor = expected_s, events, factor
        self._drifted: set[str] = set()

    def look(self, window: Window) -> None:
        """Compare the execution times of a window."""
        for operator, expected_s in self._expected_s.items():
            column = window.layout.operator_index.get(operator)
            if column is None or not window.processed[column] > 0:
                continue
            measured_s = float(window.execution_s[column])
            ratio = measured_s / expected_s if expected_s > 0 else 1.0
            off = not 1 / self._factor <= ratio <= self._factor
            if off != (operator in self._drifted):
                self._report(window.ended_at_s, operator, measured_s, expected_s, off=off)

    def _report(self, at_s: float, operator: str, measured_s: float, expected_s: float, *, off: bool) -> None:
        (self._drifted.add if off else self._drifted.discard)(operator)
        kind, words = ("profile.drift", "has left") if off else ("profile.back", "is back near")
        message = (
            f"operator {operator!r}: execution time {words} its benchmark: {measured_s * 1000:.3g} ms, "
            f"expected {expected_s * 1000:.3g} ms"
        )
        data = {"operator": operator, "measured_s": measured_s, "expected_s": expected_s}
        self._events.emit(Event(at_s, kind, message, "warning" if off else "info", data))
