"""Errors of the data plane on Spark."""

from __future__ import annotations

from foretide.errors import ForetideError

__all__ = ["BatchInterrupted", "CheckpointError", "OperatorError", "SinkError"]


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


class BatchInterrupted(Exception):  # noqa: N818 - says what is the case
    """A batch was given up because the stage stops.

    Spark looks in a failed batch's text for an interruption, with a pattern that overflows the stack of the query's
    thread where the text is long, as stack traces are. So this one is short, and in the words that Spark looks for.
    """

    def __init__(self) -> None:
        super().__init__(
            "py4j.protocol.Py4JJavaError: An error occurred while calling a batch: java.lang.InterruptedException"
        )
