"""What all commands share in a terminal: one style of tables, one kind of progress bar."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

__all__ = ["ProgressView", "plain_table"]


def plain_table(first: str = "", numbers: tuple[str, ...] = (), *, header_style: str = "bold", **more: Any) -> Table:
    """Return a table without frames.

    Parameters
    ----------
    first : str
        The title of a first column that names things, if there is one.
    numbers : tuple of str
        Titles of columns of numbers that follow it.
    header_style : str
        The style of titles.
    **more
        Further parameters of `rich.table.Table`.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style=header_style, **more)
    if first:
        table.add_column(first, style="bold cyan", no_wrap=True)
    for title in numbers:
        table.add_column(title, justify="right", no_wrap=True)
    return table


class ProgressView:
    """A progress bar while it is open; if the output is not a terminal, lines are printed instead.

    Parameters
    ----------
    console : Console
        The console.
    counted : bool
        Whether the bar says how many of how many are done.
    """

    def __init__(self, console: Console, *, counted: bool = True) -> None:
        self._console, self._live = console, console.is_terminal
        columns = (TextColumn("{task.description}"), BarColumn(), *([MofNCompleteColumn()] if counted else []))
        self._bar = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True)

    def __enter__(self) -> Self:
        if self._live:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._bar.stop()

    def _line(self, text: str) -> None:
        self._console.print(text, highlight=False)
