"""Errors of the data plane on Spark."""

from __future__ import annotations

from foretide.errors import ForetideError

__all__ = ["BatchError", "BatchInterrupted", "CheckpointError", "OperatorError", "SinkError", "cause_of"]

# Where what Python raised begins in a text of Spark's.
_PYTHON = "Traceback (most recent call last)"
# What Java raised stands behind these; by the first, py4j tells what it has caught.
_JAVA = (": ", "Caused by: ")
_LONGEST = 500


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


class BatchError(ForetideError, RuntimeError):
    """Spark gave a batch up as often as it is tried. The error that it raised, with its stacks, is the cause."""

    def __init__(self, stage: str, attempts: int, got: str) -> None:
        self.stage, self.attempts, self.got = stage, attempts, got
        super().__init__(
            f"stage {stage!r}: expected a batch to be through within {attempts} attempts, got {got}; nothing of it "
            "counts, and it runs again at the next start"
        )


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


def cause_of(text: str) -> str:
    r"""Return what happened in one line, of an error that Spark tells with its stacks: what Python or Java raised.

    >>> cause_of("PythonException: Traceback (most recent call last):\n  File x\nKeyError: 'id'\n\n\tat org.apache")
    "KeyError: 'id'"
    >>> cause_of("SparkException: awaitResult\n\tat org\nCaused by: java.io.IOException: full\n\t... 1 more")
    'java.io.IOException: full'
    >>> cause_of("An error occurred while calling o1.run.\n: java.io.IOException: full\n\tat org")
    'java.io.IOException: full'
    >>> cause_of("no stacks")
    'no stacks'
    """
    _, is_python, raised = text.rpartition(_PYTHON)
    lines = [line for line in raised.splitlines() if line.strip()]
    if is_python:
        found = [line for line in lines[1:] if not line[0].isspace()]
    else:
        found = [line for line in lines if line.startswith(_JAVA)][-1:] or lines
    return found[0].removeprefix(_JAVA[0]).removeprefix(_JAVA[1]).strip()[:_LONGEST] if found else ""
