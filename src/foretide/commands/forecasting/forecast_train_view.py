"""A training for a terminal: a progress bar, or plain lines if the output is not a terminal, and the results."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from foretide.commands.terminal import ProgressView, plain_table
from foretide.forecast.training.trainer import METRICS, PairResult
from foretide.spark.training.training import TrainingReport

__all__ = ["TrainingView", "report_view", "to_dict"]

_PLAIN_EVERY_S = 5.0
# More lines than this are for a file, see --json.
_MOST_LINES = 40
# As many as fit a terminal of 80 columns.
_SHOWN = {"mape": "MAPE", "rmse": "RMSE", "pinball_90": "pinball .9", "coverage_90": "cover .9"}


class TrainingView(ProgressView):
    """Shows how many pairs of series and model are finished.

    Parameters
    ----------
    console : Console
        The console.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._task = self._bar.add_task("starting Spark", total=None)
        self._pairs, self._finished, self._shown_s = 0, 0, -math.inf

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if kind is KeyboardInterrupt:
            self._line(f"stopped after {self._finished} of {self._pairs} models; start again to continue there")

    def say(self, words: str) -> None:
        """Show what is happening while there is nothing to count."""
        if self._live:
            self._bar.update(self._task, description=words)
        else:
            self._line(words)

    def begin(self, pairs: int, kept: int) -> None:
        """Show how many pairs there are, and how many were trained before."""
        self._pairs = pairs
        if kept:
            self._line(f"{kept} of {pairs} models were trained before and are kept")
        # Restarted, so that neither Spark's start nor what was kept counts as speed.
        self._bar.reset(self._task, total=pairs, completed=kept, description="training")
        self.advance(kept)

    def advance(self, finished: int) -> None:
        """Show how many pairs are finished."""
        self._finished = max(self._finished, finished)
        if self._live:
            self._bar.update(self._task, completed=self._finished)
        elif time.monotonic() - self._shown_s >= _PLAIN_EVERY_S or self._finished == self._pairs:
            self._shown_s = time.monotonic()
            self._line(f"trained {self._finished} of {self._pairs} models")


def report_view(report: TrainingReport) -> RenderableType:
    """Return what a training did: the models, the bad rows, what failed."""
    parts: list[RenderableType] = [_table(report)]
    if len(report.results) > _MOST_LINES:
        parts.append(Text(f"and {len(report.results) - _MOST_LINES} more; --json has them all", style="dim"))
    parts += [Text(), _summary(report)]
    for name, problem in report.problems.items():
        kept = "put in order" if name == "time going backwards" else "left out"
        rows = f"{problem.rows:,} row{'s' if problem.rows > 1 else ''}"
        parts.append(Text(f"{rows} {kept}: {name} (first: {problem.example})", style="yellow"))
    for result in [result for result in report.results if result.note][:_MOST_LINES]:
        parts.append(Text(f"{result.model} of {result.series}: {result.note}", style="yellow"))
    for result in [result for result in report.results if result.status == "failed"][:_MOST_LINES]:
        parts.append(Text(f"{result.model} of {result.series} failed: {result.error}", style="red"))
    return Group(*parts)


def to_dict(report: TrainingReport) -> dict[str, Any]:
    """Return a report as plain data for JSON, which has no NaN."""
    return {
        "bin_s": report.bin_s,
        "series": report.series,
        "values": report.values,
        "missing": report.missing,
        "seconds": report.seconds,
        "counts": dict(report.counts()),
        "problems": {name: {"rows": each.rows, "first": each.example} for name, each in report.problems.items()},
        "models": [_plain(result) for result in report.results],
    }


def _plain(result: PairResult) -> dict[str, Any]:
    return {
        "series": result.series,
        "model": result.model,
        "status": result.status,
        "version": result.version,
        "seconds": result.seconds,
        **{name: _finite(result.metrics, name) for name in METRICS},
        "error": result.error or None,
        "note": result.note or None,
    }


def _finite(metrics: Mapping[str, float], name: str) -> float | None:
    value = metrics.get(name, math.nan)
    return value if math.isfinite(value) else None


def _table(report: TrainingReport) -> Table:
    table = plain_table()
    table.add_column("series", style="bold cyan", overflow="fold", min_width=8)
    for name in ("model", "status"):
        table.add_column(name, no_wrap=True)
    for name in ("v", *_SHOWN.values(), "s"):
        table.add_column(name, justify="right", no_wrap=True)
    for result in report.results[:_MOST_LINES]:
        shown = [_shown(result.metrics, name) for name in _SHOWN]
        table.add_row(
            result.series, result.model, result.status, str(result.version or ""), *shown, f"{result.seconds:.1f}"
        )
    return table


def _shown(metrics: Mapping[str, float], name: str) -> str:
    value = _finite(metrics, name)
    if value is None:
        return "–"
    return f"{value:.1%}" if name in ("mape", "coverage_90") else f"{value:.4g}"


def _summary(report: TrainingReport) -> Text:
    counts = report.counts()
    done = ", ".join(f"{counts[name]} {name}" for name in ("trained", "kept", "failed") if counts[name])
    missing = f", {report.missing:,} of them missing" if report.missing else ""
    return Text.assemble(
        (done, "bold"),
        f" in {report.seconds:.1f} s; {report.series:,} series, {report.values:,} bins of {report.bin_s:g} s{missing}",
    )
