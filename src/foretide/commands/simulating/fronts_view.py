"""Fronts for a terminal: for each trace a table of policies, and who is best how often."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from foretide.commands.terminal import plain_table
from foretide.sim.fronts.clairvoyant import Metric
from foretide.sim.fronts.study import PolicyFront, TraceFronts

__all__ = ["fronts_table"]

_COLUMNS = ("hypervolume", "÷ best", "regret", "÷ bound", "front", "cost", "latency ms")
_NOTE = (
    "hypervolume: part of the plane of cost and log latency that a front covers; regret: cost ÷ that of the clairvoyant"
    " plan at the same latency, ÷ bound: ÷ what no plan can cost less than, both medians over the front"
)


def fronts_table(found: Sequence[TraceFronts], metric: Metric) -> RenderableType:
    """Return a table for each trace, best policy first, and one over all traces."""
    parts: list[RenderableType] = []
    for trace in found:
        parts += [Text(), _trace(trace, metric)]
    if len(found) > 1:
        parts += [Text(), _summary(found)]
    return Group(*parts, Text(), Text(_NOTE, style="dim"))


def _trace(trace: TraceFronts, metric: Metric) -> Table:
    box = trace.box
    table = plain_table("policy", _COLUMNS, title_justify="left")
    corner = f"{metric}; reference: cost {box.most_cost:g} of the static peak, {box.most_ms:,.0f} ms"
    table.title = Text.assemble((trace.trace, "bold"), (f"  {corner}", "dim"))
    best = trace.best.hypervolume
    for policy in sorted(trace.policies, key=lambda policy: -policy.hypervolume):
        style = "green" if policy.hypervolume == best and best > 0 else ""
        table.add_row(policy.label, *_cells(policy, best), style=style)
    table.add_row("clairvoyant", *_cells(trace.clairvoyant, best), style="dim")
    return table


def _cells(policy: PolicyFront, best: float) -> tuple[str, ...]:
    spread = f" ± {policy.spread:.3f}" if math.isfinite(policy.spread) else ""
    points = policy.points[policy.front]
    return (
        f"{policy.hypervolume:.3f}{spread}",
        f"{policy.hypervolume / best:.3f}" if best else "–",
        _shown(policy.regret),
        _shown(policy.over_bound),
        f"{len(policy.front)} of {len(policy.points)}",
        _range([f"{cost:.2f}" for cost in sorted(points[:, 0].tolist())]),
        _range([f"{latency:,.0f}" for latency in points[:, 1].tolist()]),
    )


def _summary(found: Sequence[TraceFronts]) -> Table:
    """Return how often each policy is best, and how far it is below the best where it is furthest."""
    table = plain_table(
        "policy", ("best on", "least ÷ best", "mean hypervolume", "median regret"), title_justify="left"
    )
    table.title = Text(f"all {len(found)} traces", style="bold")
    labels = [policy.label for policy in found[0].policies]
    own = {label: [_of(trace, label) for trace in found] for label in labels}
    wins = {label: sum(trace.best.label == label for trace in found) for label in labels}
    for label in sorted(labels, key=lambda label: (-wins[label], label)):
        tops = [trace.best.hypervolume for trace in found]
        parts = [policy.hypervolume / top for policy, top in zip(own[label], tops, strict=True) if top]
        regrets = [policy.regret for policy in own[label] if math.isfinite(policy.regret)]
        table.add_row(
            label,
            f"{wins[label]} of {len(found)}",
            f"{min(parts):.3f}" if parts else "–",
            f"{sum(policy.hypervolume for policy in own[label]) / len(found):.3f}",
            _shown(statistics.median(regrets) if regrets else math.nan),
        )
    return table


def _of(trace: TraceFronts, label: str) -> PolicyFront:
    return next(policy for policy in trace.policies if policy.label == label)


def _range(shown: Sequence[str]) -> str:
    if not shown:
        return "–"
    return shown[0] if len(shown) == 1 else f"{shown[0]}-{shown[-1]}"


def _shown(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"
