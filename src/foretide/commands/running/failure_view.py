"""Events that failed, for a terminal: each kind as it first happens, and all of them in the report."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.text import Text

from foretide.spark.batches.failures import FAILURE_LOGGER
from foretide.transport.dead_letters import Failure

__all__ = ["ShownFailures", "failures_view"]


class ShownFailures(logging.Handler):
    """Shows failures as they happen, within a ``with``, instead of the lines that logging would print.

    Parameters
    ----------
    console : Console
        Where to; a live display on it stays below.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def __enter__(self) -> Self:
        FAILURE_LOGGER.addHandler(self)
        FAILURE_LOGGER.propagate = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        FAILURE_LOGGER.removeHandler(self)
        FAILURE_LOGGER.propagate = True

    def emit(self, record: logging.LogRecord) -> None:
        """Show the failure that a record is about; what else is told there is text."""
        failure: Failure | None = getattr(record, "failure", None)
        if failure is None:
            self._console.print(Text(record.getMessage(), style="yellow"), soft_wrap=True)
            return
        lines = Text.assemble((f"{failure.operator} failed: ", "bold yellow"), f"{failure.error}: {failure.message}")
        for line in filter(None, (failure.where, f"event {failure.event}")):
            lines.append(f"\n    {line}", "dim")
        self._console.print(lines, soft_wrap=True)


def failures_view(failures: Sequence[Failure]) -> RenderableType:
    """Return which events failed, by operator and kind, those that are most first."""
    total = sum(failure.count for failure in failures)
    words = f"{total:,} event{'s' if total != 1 else ''} failed; the dead-letter log has them:"
    ordered = sorted(failures, key=lambda failure: -failure.count)
    lines = (Text(f"{failure.count:>9,}  {failure.operator}  {failure.cause}") for failure in ordered)
    return Group(Text(words, style="yellow"), *lines)
