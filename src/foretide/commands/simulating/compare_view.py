"""A comparison of policies for a terminal: its progress, and for each trace a table with its Pareto front."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from foretide.commands.terminal import ProgressView, plain_table
from foretide.metrics import pareto_front
from foretide.records import Floats

__all__ = ["CompareView", "comparison", "means"]

_PLAIN_EVERY_S = 5.0
# The metrics of the front, with 1 if less is better and -1 if more is.
_FRONT = {"saved": -1.0, "latency_mean_ms": 1.0, "latency_p99_ms": 1.0, "processed": -1.0}
_COLUMNS = (
    ("saved", "saved", ".3f"),
    ("latency_mean_ms", "mean ms", ",.0f"),
    ("latency_p99_ms", "p99 ms", ",.0f"),
    ("processed", "processed", ".4f"),
    ("degradation", "degr.", ".3f"),
    ("error_input", "err. in", ".3f"),
    ("error_replica", "err. r", ".3f"),
    ("changes", "changes", ",.0f"),
)
_PROMISED = (("kept", "kept", ".3f"), ("over_clairvoyant", "÷ clairv.", ".3f"))


class CompareView(ProgressView):
    """A progress bar over all runs; if the output is not a terminal, a line every five seconds.

    Parameters
    ----------
    console : Console
        The console.
    total : int
        How many runs there are.
    """

    def __init__(self, console: Console, total: int) -> None:
        super().__init__(console)
        self._total, self._done, self._shown_s = total, 0, time.monotonic()
        self._task = self._bar.add_task("simulating", total=total)

    def show(self, number: int, row: Mapping[str, Any]) -> None:
        """Show that a run has finished."""
        self._done += 1
        if self._live:
            self._bar.update(self._task, advance=1, description=f"{row['trace']} {_label(row)}")
        elif self._done == self._total or time.monotonic() - self._shown_s >= _PLAIN_EVERY_S:
            self._shown_s = time.monotonic()
            self._line(f"{self._done} of {self._total} runs")


def comparison(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return a table for each trace."""
    parts: list[RenderableType] = []
    for trace in dict.fromkeys(row["trace"] for row in rows):
        parts += [Text(), _table(trace, [row for row in rows if row["trace"] == trace])]
    note = "● on the Pareto front of saved resources, latency (mean, p99) and processed events; else one that beats it"
    return Group(*parts, Text(), Text(note, style="dim"))


def means(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the mean of each metric over the seeds, by policy; NaN if there is none.

    >>> row = {name: 1.0 for name, _, _ in _COLUMNS} | {"policy": "pasps", "forecaster": "lr"}
    >>> means([row, row | {"saved": 0.5, "error_input": None}])["pasps:lr"]["saved"]
    0.75
    """
    found: dict[str, dict[str, float]] = {}
    for label in dict.fromkeys(_label(row) for row in rows):
        own = [row for row in rows if _label(row) == label]
        found[label] = {name: _mean([_value(row, name) for row in own]) for name, _, _ in (*_COLUMNS, *_PROMISED)}
    return found


def _value(row: Mapping[str, Any], name: str) -> float | None:
    if name != "kept":
        value: float | None = row.get(name)
        return value
    slo = row.get("slo")
    return slo["kept"] / slo["intervals"] if slo and slo["intervals"] else None


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else float("nan")


def _label(row: Mapping[str, Any]) -> str:
    return str(row["policy"]) if row.get("forecaster") is None else f"{row['policy']}:{row['forecaster']}"


def _table(trace: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    by_policy = means(rows)
    points = np.array([[sign * found[name] for name, sign in _FRONT.items()] for found in by_policy.values()])
    front = pareto_front(points)
    first = rows[0]
    seeds = len({row["seed"] for row in rows})
    how = f"td {first['td']:g} s{', under stress' if first['stress'] else ''}, {seeds} seed{'s' if seeds > 1 else ''}"
    columns = (*_COLUMNS, *_PROMISED) if any(row.get("slo") for row in rows) else _COLUMNS
    table = plain_table("policy", tuple(title for _, title, _ in columns), title_justify="left")
    table.title = Text.assemble((trace, "bold"), (f"  {how}", "dim"))
    table.add_column("front", no_wrap=True)
    order = sorted(range(len(front)), key=lambda at: (not front[at], points[at][1]))
    labels = list(by_policy)
    for at in order:
        values = (_shown(by_policy[labels[at]][name], form) for name, _, form in columns)
        mark = Text("●", style="green") if front[at] else Text(f"< {labels[_winner(points, at)]}", style="dim")
        table.add_row(labels[at], *values, mark)
    return table


def _winner(points: Floats, beaten: int) -> int:
    """Return one that is no worse in any metric and better in at least one."""
    rows = np.nan_to_num(points, nan=np.inf)
    wins = (rows <= rows[beaten]).all(axis=1) & (rows < rows[beaten]).any(axis=1)
    return int(np.flatnonzero(wins)[0])


def _shown(value: float, form: str) -> str:
    return "–" if np.isnan(value) else format(value, form)
