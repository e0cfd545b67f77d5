"""Simulated runs for a terminal: their progress, and a table of their metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.text import Text

from foretide.commands.terminal import ProgressView, plain_table
from foretide.control.score import RunScore
from foretide.report.runs import score_figures
from foretide.sim.outcome import SimulationReport

__all__ = ["SimulationView", "metrics_table", "promise_table"]


class SimulationView(ProgressView):
    """A progress bar over all seeds; if the output is not a terminal, a line for each that has finished.

    Parameters
    ----------
    console : Console
        The console.
    seeds : int
        How many runs there are.
    """

    def __init__(self, console: Console, seeds: int) -> None:
        super().__init__(console, counted=False)
        self._seeds = seeds
        self._task = self._bar.add_task("preparing", total=float(seeds))

    def of(self, seed: int) -> Callable[[float, float], None]:
        """Return what shows the progress of one run."""

        def show(done_s: float, total_s: float) -> None:
            words = f"seed {seed}: {done_s:,.0f} of {total_s:,.0f} s"
            self._bar.update(self._task, completed=seed + done_s / total_s, description=words)

        if not self._live and self._seeds > 1:
            self._line(f"run {seed + 1} of {self._seeds}")
        return show


def metrics_table(reports: Sequence[SimulationReport]) -> RenderableType:
    """Return all metrics of SPEC P8: with several seeds their mean, and the least and the greatest."""
    first = reports[0]
    table = plain_table("metric", ("mean", "least", "most") if len(reports) > 1 else ("value",))
    table.add_column("what it is", style="dim")
    columns = [score_figures(metrics) for metrics in _summary(reports)]
    for row in zip(*columns, strict=True):
        table.add_row(row[0].name, *(figure.value for figure in row), row[0].meaning)
    return Group(_title(first, len(reports)), Text(), table, *_warnings(reports))


def promise_table(
    reports: Sequence[SimulationReport], foreseen: Sequence[Mapping[str, float | None]]
) -> RenderableType:
    """Return for every seed how well the promise was kept, and what it cost beside a plan that knew the input."""
    table = plain_table("promise", ("seed", "kept", "intervals", "slot-seconds", "clairvoyant", "÷ clairvoyant"))
    for report, known in zip(reports, foreseen, strict=True):
        if report.slo is None:
            continue
        least, over = known["clairvoyant_slot_seconds"], known["over_clairvoyant"]
        table.add_row(
            str(report.slo.promise),
            str(report.options.seed),
            f"{report.slo.kept}",
            f"{report.slo.intervals}",
            f"{report.metrics.slot_seconds:,.0f}",
            "–" if least is None else f"{least:,.0f}",
            "–" if over is None else f"{over:.3f}",
        )
    return table


def _summary(reports: Sequence[SimulationReport]) -> list[RunScore]:
    names = RunScore.__dataclass_fields__
    values = {name: np.array([getattr(report.metrics, name) for report in reports], dtype=float) for name in names}
    functions = (np.mean, np.min, np.max) if len(reports) > 1 else (np.mean,)
    found = [{name: float(function(column)) for name, column in values.items()} for function in functions]
    return [RunScore(**{**one, "changes": round(one["changes"])}) for one in found]  # type: ignore[arg-type]


def _title(report: SimulationReport, seeds: int) -> Text:
    options, totals = report.options, report.totals
    forecaster = f" with {options.forecaster_name}" if options.forecaster_name else ""
    under = ", under stress" if options.stress is not None else ""
    runs = f", {seeds} seeds" if seeds > 1 else ""
    return Text.assemble(
        (f"{report.topology.name} on {report.trace}", "bold"),
        (f"  {options.planner.name}{forecaster}, td {options.control.td_s:g} s{under}{runs}\n", "dim"),
        f"{totals['received']:,.0f} events in {report.course.ended_at_s[-1]:,.0f} s; ",
        f"metrics count from {options.warm_up_s:g} s on",
    )


def _warnings(reports: Sequence[SimulationReport]) -> list[Text]:
    words = []
    if lost := sum(report.totals["dropped"] + report.totals["timed_out"] for report in reports):
        words.append(f"{lost:,.0f} events were dropped or timed out")
    if failed := sum(report.stand_ins for report in reports):
        words.append(f"the forecaster failed in {failed} cycles, where the last value stood in")
    if any(math.isnan(report.metrics.latency_mean_ms) for report in reports):
        words.append("no event left in the part that counts")
    return [Text(line, style="yellow") for line in words]
