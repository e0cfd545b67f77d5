"""Results as reports: a table *ours | paper | deviation*, the statements, and the index of all of them in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from foretide.experiments.report import Report, markdown_table, write_text
from foretide.experiments.reproduce.contract import Comparison, Experiment, Result, Scope

__all__ = ["to_report", "write_index"]


def to_report(experiment: Experiment, result: Result, scope: Scope) -> Report:
    """Return the report of one experiment.

    >>> from foretide.experiments.reproduce.contract import Check, Metric
    >>> metric = Metric("saved", "saved resources", "part")
    >>> result = Result((Comparison("ANN", metric, (0.47,), 0.475),), (Check("ANN saves least", 1, 1),), ())
    >>> experiment = Experiment("x", "a table", "PASPS", 1.0, lambda scope: (), lambda scope, runs: result)
    >>> "| ANN | saved resources | 0.470 | 0.475 | -0.005 |" in to_report(experiment, result, Scope(1)).page()
    True
    """
    seeds = "one seed" if scope.seeds == 1 else f"mean of {scope.seeds} seeds"
    head, rows = _table(result.comparisons, scope)
    return Report(
        name=experiment.name,
        title=experiment.title,
        origin=(
            f"Written by `foretide reproduce {experiment.name}`: {seeds}; paper: {experiment.source}. "
            f"[All reproductions](README.md),"
        ),
        warning=(
            ""
            if scope.whole
            else f"Only the first {scope.first_s:g} s of each input: these numbers compare with nothing."
        ),
        inputs=experiment.inputs(scope),
        head=head,
        rows=rows,
        texts=("metric", "remark"),
        checks=result.checks,
        panels=result.panels,
        notes=result.notes,
        data={
            "paper": experiment.source,
            "seeds": scope.seeds,
            "first_s": scope.first_s,
            "comparisons": [
                {
                    "subject": each.subject,
                    "metric": each.metric.key,
                    "ours": each.ours,
                    "values": each.values,
                    "paper": each.paper,
                    "remark": each.remark,
                }
                for each in result.comparisons
            ],
        },
    )


def _table(comparisons: Sequence[Comparison], scope: Scope) -> tuple[list[str], list[list[str]]]:
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
    return head, rows


def write_index(folder: Path, experiments: Mapping[str, Experiment]) -> Path:
    """Write the index of every experiment whose numbers are in the folder."""
    found = ((experiment, _checks(folder / f"{name}.json")) for name, experiment in experiments.items())
    return write_text(folder / "README.md", _index((each, checks) for each, checks in found if checks is not None))


def _checks(file: Path) -> list[tuple[str, bool]] | None:
    """Return the statements of an experiment and whether each holds; None without a readable result."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return [(str(check["claim"]), bool(check["holds"])) for check in found["checks"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _index(entries: Iterable[tuple[Experiment, Sequence[tuple[str, bool]]]]) -> str:
    """Return the index: every experiment with what it reproduces and which of its statements fail."""
    rows = []
    for experiment, checks in entries:
        failing = [claim for claim, holds in checks if not holds]
        count = f"{len(checks) - len(failing)} of {len(checks)}"
        rows.append((f"[{experiment.name}]({experiment.name}.md)", experiment.title, count, "; ".join(failing)))
    head = ("page", "reproduces", "statements that hold", "statements that do not")
    return "\n".join(
        (
            "# Reproductions",
            "",
            "The tables and figures of the papers that Foretide follows, reproduced in its simulator. Each page has a",
            "table *ours | paper | deviation*, a figure, the statements of the paper and whether they hold, and how it",
            "was set up. `make reproduce` writes all of it, `foretide reproduce NAME` one page; numbers are beside",
            "each page as JSON.",
            "",
            markdown_table(head, rows, (head[1], head[3])),
            "",
        )
    )
