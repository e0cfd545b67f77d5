"""A backtest for a terminal: a progress bar for each model, and a table of scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from foretide.commands.terminal import ProgressView, plain_table
from foretide.forecast.backtest import Backtest, ModelRun

__all__ = ["BacktestView", "backtest_table", "together_table"]

# Measures by which models are compared, and their titles.
_COMPARED = {"mape": "MAPE", "mase": "MASE", "wql": "wql", "pinball_90": "pinball .9"}


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
    table = plain_table(
        "model",
        ("MAPE", "90 % sure", "RMSE", "MAE", "MASE", "wql", "pinball .9", "cover .5", "cover .9", "ms", "failed"),
    )
    ordered = sorted(found.models.items(), key=lambda item: _or_last(item[1].scores["mape"]))
    for name, run in ordered:
        table.add_row(name, *_cells(run))
    parts: list[RenderableType] = [Text(), table, Text()]
    if len(found.models) > 1:
        parts += [_ratios(found), Text()]
    return Group(*parts, _summary(found))


def together_table(found: Mapping[str, Any], series: int) -> RenderableType:
    """Return how models compare with the first one over several series."""
    table = plain_table("model", (*(_COMPARED.values()), "cover .5", "cover .9", "ms"))
    for name, entry in found.items():
        cells = [_ratio(entry[measure]["ratio"], entry[measure]["interval"]) for measure in _COMPARED]
        covers = ["–" if entry[each] is None else f"{entry[each]:.1%}" for each in ("coverage_50", "coverage_90")]
        table.add_row(name, *cells, *covers, f"{entry['ms']:.2f}")
    note = f"{series} series: geometric means of the ratios to {next(iter(found))}, with 90 % confidence"
    return Group(Text(), table, Text(), Text(note, style="dim"))


def _ratios(found: Backtest) -> RenderableType:
    """Return each model over the first one, paired."""
    first, *others = found.models
    table = plain_table(f"over {first}", tuple(_COMPARED.values()))
    for name in others:
        ratios = found.models[name].ratios
        table.add_row(name, *(_ratio(ratios[measure][0], ratios[measure][1:]) for measure in _COMPARED))
    return table


def _ratio(ratio: float | None, interval: Sequence[float] | None) -> str:
    if ratio is None or not math.isfinite(ratio):
        return "–"
    sure = f" ({interval[0]:.2f} - {interval[1]:.2f})" if interval and math.isfinite(interval[0]) else ""
    return f"{ratio:.2f}{sure}"


def _cells(run: ModelRun) -> list[str]:
    low, high = run.intervals["mape"]
    sure = f"{low:.1%} - {high:.1%}" if math.isfinite(low) else "–"
    return [
        _shown(run.scores["mape"], ".1%"),
        sure,
        _shown(run.scores["rmse"], ".4g"),
        _shown(run.scores["mae"], ".4g"),
        _shown(run.scores["mase"], ".3f"),
        _shown(run.scores["wql"], ".4f"),
        _shown(run.scores["pinball_90"], ".4f"),
        _shown(run.scores["coverage_50"], ".1%"),
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
