"""A backtest for a terminal: a progress bar for each model, and a table of scores."""

from __future__ import annotations

import math

from rich.console import Console, Group, RenderableType
from rich.text import Text

from foretide.commands.terminal import ProgressView, plain_table
from foretide.forecast.backtest import Backtest, ModelRun

__all__ = ["BacktestView", "backtest_table"]


class BacktestView(ProgressView):
    """Shows how far each model is; if the output is not a terminal, a line when it has finished.

    Parameters
    ----------
    console : Console
        The console.
    models : tuple of str
        The models, in order.
    """

    def __init__(self, console: Console, models: tuple[str, ...]) -> None:
        super().__init__(console)
        self._tasks = {name: self._bar.add_task(name, total=None, start=False) for name in models}

    def show(self, model: str, done: int, total: int) -> None:
        """Show that `model` has finished `done` of `total` origins."""
        if not self._live:
            if done == total:
                self._line(f"{model}: {total} origins done")
            return
        if done == 1:
            self._bar.start_task(self._tasks[model])
        self._bar.update(self._tasks[model], completed=done, total=total)


def backtest_table(found: Backtest) -> RenderableType:
    """Return the scores, the best MAPE first."""
    table = plain_table("model", ("MAPE", "90 % sure", "RMSE", "MAE", "pinball .9", "coverage .9", "ms", "failed"))
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
