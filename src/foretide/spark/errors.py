"""Errors of the data plane on Spark."""

from __future__ import annotations

from foretide.errors import ForetideError

__all__ = ["CheckpointError", "OperatorError", "SinkError"]


class OperatorError(ForetideError, TypeError):
    """An operator's function broke its contract: wrong columns, wrong types, an unknown output, no such module.

    Unlike an event that makes user code raise, this stops the stage: every further event would break it too.
    """

    def __init__(self, operator: str, *, expected: str, got: object, remedy: str) -> None:
        self.operator, self.expected, self.got, self.remedy = operator, expected, " ".join(str(got).split()), remedy
        super().__init__(f"operator {operator!r}: expected {expected}, got {self.got}; {remedy}")


class SinkError(ForetideError, RuntimeError):
    """A sink does not take a batch: its server refuses a row, or stays away."""

    def __init__(self, sink: str, *, expected: str, got: str, remedy: str) -> None:
        self.sink, self.expected, self.got, self.remedy = sink, expected, got, remedy
        super().__init__(f"sink {sink!r}: expected {expected}, got {got}; {remedy}")


class CheckpointError(ForetideError, ValueError):
    """A checkpoint belongs to another topology."""
