"""Results as pages: a table *ours | paper | deviation*, the statements, and the index of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from foretide.experiments.reproduce.contract import Comparison, Experiment, Result, Scope

__all__ = ["index_page", "result_page"]


def result_page(experiment: Experiment, result: Result, scope: Scope) -> str:
    """Return the page of one experiment.

    >>> from foretide.experiments.reproduce.contract import Check, Metric
    >>> metric = Metric("saved", "saved resources", "part")
    >>> result = Result((Comparison("ANN", metric, (0.47,), 0.475),), (Check("ANN saves least", 1, 1),), ())
    >>> experiment = Experiment("x", "a table", "PASPS", 1.0, lambda scope: (), lambda scope, runs: result)
    >>> "| ANN | saved resources | 0.470 | 0.475 | -0.005 |" in result_page(experiment, result, Scope(1))
    True
    """
    parts = [f"# {experiment.title}", _provenance(experiment, scope)]
    if not scope.whole:
        parts.append(f"**Only the first {scope.first_s:g} s of each input: these numbers compare with nothing.**")
    if result.panels:
        parts.append(f"![{experiment.title}]({experiment.name}.svg)")
    if result.comparisons:
        parts.append(_table(result.comparisons, scope))
    if result.checks:
        parts += ["## What holds", _checks(result)]
    if result.notes:
        parts += ["## How it was set up", "\n".join(f"- {note}" for note in result.notes)]
    return "\n\n".join(parts) + "\n"


def _provenance(experiment: Experiment, scope: Scope) -> str:
    seeds = "one seed" if scope.seeds == 1 else f"mean of {scope.seeds} seeds"
    return (
        f"Written by `foretide reproduce {experiment.name}`: {seeds}; paper: {experiment.source}. "
        f"[All reproductions](README.md), [numbers as JSON]({experiment.name}.json)."
    )


def _table(comparisons: Sequence[Comparison], scope: Scope) -> str:
    remarks = any(each.remark for each in comparisons)
    spread = scope.seeds > 1
    head = ["run", "metric", "ours", *(["± over seeds"] if spread else []), "paper", "deviation"]
    head += ["remark"] if remarks else []
    rows = []
    for each in comparisons:
        metric = each.metric
        row = [each.subject, metric.title, metric.shown(each.ours), *([metric.shown(each.spread)] if spread else [])]
        row += [metric.shown(each.paper), metric.deviation(each.ours, each.paper), *([each.remark] if remarks else [])]
        rows.append(row)
    left = {"run", "metric", "remark"}
    rule = ["---" if name in left else "---:" for name in head]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def _checks(result: Result) -> str:
    rows = [
        f"| {'**holds**' if check.holds else 'does not hold'} | {check.held} of {check.of} | {check.claim} "
        f"| {check.detail} |"
        for check in result.checks
    ]
    return "\n".join(("| verdict | runs | statement | numbers |", "|---|---:|---|---|", *rows))


def index_page(entries: Iterable[tuple[Experiment, Sequence[tuple[str, bool]]]]) -> str:
    """Return the index: every experiment with what it reproduces and which of its statements fail."""
    rows = []
    for experiment, checks in entries:
        failing = [claim for claim, holds in checks if not holds]
        count = f"{len(checks) - len(failing)} of {len(checks)}"
        rows.append(
            f"| [{experiment.name}]({experiment.name}.md) | {experiment.title} | {count} | {'; '.join(failing)} |"
        )
    return "\n".join(
        (
            "# Reproductions",
            "",
            "The tables and figures of the papers that Foretide follows, made anew in its simulator. Each page has a",
            "table *ours | paper | deviation*, a figure, the statements of the paper and whether they hold, and how it",
            "was set up. `make reproduce` writes all of it, `foretide reproduce NAME` one page; numbers are beside",
            "each page as JSON.",
            "",
            "| page | reproduces | statements that hold | statements that do not |",
            "|---|---|---:|---|",
            *rows,
            "",
        )
    )
