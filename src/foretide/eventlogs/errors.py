"""What can be wrong with an event log."""

from __future__ import annotations

from foretide.errors import ForetideError

__all__ = ["EventLogError"]


class EventLogError(ForetideError, ValueError):
    """An event log is not what it should be, or does not tell what is asked.

    Parameters
    ----------
    log : str
        The log.
    expected, got : str
        What belongs there, and what is there.
    remedy : str
        What to do.
    """

    def __init__(self, log: str, expected: str, got: str, remedy: str = "") -> None:
        self.log, self.expected, self.got, self.remedy = log, expected, got, remedy
        super().__init__(f"event log {log}: expected {expected}, got {got}" + (f"; {remedy}" if remedy else ""))
