"""A backtest for a terminal: a progress bar for each model, and a table of scores."""

from __future__ import annotations

import math
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from foretide.forecast.backtest import Backtest, ModelRun

__all__ = ["BacktestView", "backtest_table"]


class BacktestView:
    """Shows how far each model is; where the output is no terminal, a line when it is through.

    Parameters
    ----------
    console : Console
        Where to.
    models : tuple of str
        The models, in order.
    """

    def __init__(self, console: Console, models: tuple[str, ...]) -> None:
        self._console = console
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
        self._live = console.is_terminal
        self._tasks = {name: self._bar.add_task(name, total=None, start=False) for name in models}

    def __enter__(self) -> Self:
        if self._live:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._bar.stop()

    def show(self, model: str, done: int, total: int) -> None:
        """Show that `model` is through with `done` of `total` origins."""
        if not self._live:
            if done == total:
                self._console.print(f"{model}: {total} origins done", highlight=False)
            return
        if done == 1:
            self._bar.start_task(self._tasks[model])
        self._bar.update(self._tasks[model], completed=done, total=total)


def backtest_table(found: Backtest) -> RenderableType:
    """Return the scores, the best MAPE first."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("model", style="bold cyan", no_wrap=True)
    for name in ("MAPE", "90 % sure", "RMSE", "MAE", "pinball .9", "coverage .9", "ms", "failed"):
        table.add_column(name, justify="right", no_wrap=True)
    ordered = sorted(found.models.items(), key=lambda item: _or_last(item[1].scores["mape"]))
    for name, run in ordered:
        table.add_row(name, *_cells(run))
    return Group(Text(), table, Text(), _summary(found))


def _cells(run: ModelRun) -> list[str]:
    low, high = run.intervals["mape"]
    sure = f"{low:.1%} - {high:.1%}" if math.isfinite(low) else "–"
    return [
        _shown(run.scores["mape"], ".1%"),
        sure,
        _shown(run.scores["rmse"], ".4g"),
        _shown(run.scores["mae"], ".4g"),
        _shown(run.scores["pinball_90"], ".4f"),
        _shown(run.scores["coverage_90"], ".1%"),
        f"{run.ms:.2f}",
        str(run.failures or ""),
    ]


def _summary(found: Backtest) -> Text:
    left_out = int((~found.counted).sum())
    text = f"{int(found.counted.sum()):,} origins, the mean of the next {found.options.horizon} steps"
    if left_out:
        text += f"; {left_out:,} more do not count, since a value after them is missing"
    return Text(text, style="dim")


def _shown(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else "–"


def _or_last(value: float) -> float:
    return value if math.isfinite(value) else math.inf
