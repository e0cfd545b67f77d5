"""Results as reports: a table *ours | paper | deviation*, the statements, and the index of all of them in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretide.experiments.report import Report, markdown_table, write_text
from foretide.experiments.reproduce.comparison import VERDICTS, Comparison, Trial, Verdict, tally
from foretide.experiments.reproduce.contract import Experiment, Result, Scope
from foretide.experiments.reproduce.trials import with_spoilt

__all__ = ["summary", "to_report", "write_index"]


def to_report(experiment: Experiment, result: Result, scope: Scope) -> Report:
    """Return the report of one experiment.

    >>> from foretide.experiments.reproduce.contract import Check, Metric, Printed
    >>> metric, printed = Metric("saved", "saved resources", "part"), Printed(0.475, "PASPS, section 4.2, table 2")
    >>> result = Result((Comparison("ANN", metric, (0.47,), printed),), (Check("ANN saves least", 1, 1),), ())
    >>> experiment = Experiment("x", "a table", "PASPS", 1.0, lambda scope: (), lambda scope, runs: result)
    >>> to_report(experiment, result, Scope(1)).rows
    [['ANN', 'saved resources', '0.470', '0.475', '-1%', 'within 10 %', '']]
    """
    seeds = "one seed" if scope.seeds == 1 else f"mean of {scope.seeds} seeds"
    comparisons = with_spoilt(result.comparisons)
    head, rows = _table(comparisons, scope)
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
        summary=summary(tally(each.verdict for each in comparisons)),
        inputs=experiment.inputs(scope),
        head=head,
        rows=rows,
        texts=("metric", "verdict", "cause"),
        sections=_sections(comparisons),
        checks=result.checks,
        panels=result.panels,
        notes=result.notes,
        data={
            "paper": experiment.source,
            "seeds": scope.seeds,
            "first_s": scope.first_s,
            "tally": tally(each.verdict for each in comparisons),
            "comparisons": [_data(each) for each in comparisons],
        },
    )


def summary(counts: Mapping[Verdict, int]) -> str:
    """Return what the comparisons of a page, or of all, come to.

    >>> summary({"within 10 %": 3, "explained": 1, "unexplained": 2, "no evidence": 4})
    '10 printed numbers: **3 within 10 %**, 1 explained, **2 unexplained**, 4 no evidence (not counted)'
    >>> summary({"within 10 %": 0, "explained": 0, "unexplained": 0, "no evidence": 0})
    'No numbers are printed: statements are checked instead'
    """
    total = sum(counts.values())
    if not total:
        return "No numbers are printed: statements are checked instead"
    numbers = "number" if total == 1 else "numbers"
    return (
        f"{total} printed {numbers}: **{counts['within 10 %']} within 10 %**, {counts['explained']} explained, "
        f"**{counts['unexplained']} unexplained**, {counts['no evidence']} no evidence (not counted)"
    )


def _data(each: Comparison) -> dict[str, Any]:
    printed = each.printed
    return {
        "subject": each.subject,
        "metric": each.metric.key,
        "ours": each.ours,
        "values": each.values,
        "paper": each.paper,
        "where": printed.where if printed else "",
        "no_evidence": printed.no_evidence if printed else "",
        "contradiction": printed.contradiction if printed else "",
        "verdict": each.verdict,
        "cause": each.cause,
        "trials": [
            {"assumption": t.assumption, "value": t.value, "within": each.shows(t), "spoils": t.spoils}
            for t in each.trials
        ],
    }


def _table(comparisons: Sequence[Comparison], scope: Scope) -> tuple[list[str], list[list[str]]]:
    spread, compared = scope.seeds > 1, any(each.printed for each in comparisons)
    head = ["run", "metric", "ours", *(["± over seeds"] if spread else [])]
    head += ["paper", "deviation", "verdict", "cause"] if compared else []
    rows = []
    for each in comparisons:
        metric = each.metric
        row = [each.subject, metric.title, metric.shown(each.ours), *([metric.shown(each.spread)] if spread else [])]
        if compared:
            row += [metric.shown(each.paper), metric.deviation(each.ours, each.paper), each.verdict, each.cause]
        rows.append(row)
    return head, rows


def _sections(comparisons: Sequence[Comparison]) -> list[tuple[str, str]]:
    sections = []
    places = list(dict.fromkeys(each.printed.where for each in comparisons if each.printed))
    if places:
        sections.append(("Where the numbers are printed", "\n".join(f"- {place}" for place in places)))
    off = [each for each in comparisons if each.verdict in ("explained", "unexplained") and each.trials]
    if off:
        sections.append(("Experiments on what is off", f"{_EXPERIMENTS}\n\n{_trials(off)}"))
    return sections


_EXPERIMENTS = (
    "The same run with one assumption changed (the first seed), or the same run measured by another definition. "
    "**Bold** is within 10 % of print. † is no cause: it moves another number of the same row or "
    "column away from print."
)


def _trials(off: Sequence[Comparison]) -> str:
    titles = list(dict.fromkeys(trial.assumption for each in off for trial in each.trials))
    rows = []
    for each in off:
        found = {trial.assumption: trial for trial in each.trials}
        row = [each.subject, each.metric.title, each.metric.shown(each.paper), each.metric.shown(each.ours)]
        rows.append([*row, *(_trial(each, found.get(title)) for title in titles)])
    return markdown_table(("run", "metric", "paper", "ours", *titles), rows, ("metric",))


def _trial(each: Comparison, trial: Trial | None) -> str:
    if trial is None:
        return ""
    shown = each.metric.shown(trial.value)
    mark = "†" if trial.spoils else ""
    return f"**{shown}**{mark}" if each.shows(trial) else f"{shown}{mark}"


def write_index(folder: Path, experiments: Mapping[str, Experiment]) -> Path:
    """Write the index of every experiment whose numbers are in the folder."""
    found = ((experiment, _read(folder / f"{name}.json")) for name, experiment in experiments.items())
    return write_text(folder / "README.md", _index([(each, data) for each, data in found if data is not None]))


@dataclass(frozen=True)
class _Outcome:
    """What the index needs of a page: its statements and whether each holds, and its verdicts."""

    checks: list[tuple[str, bool]]
    verdicts: list[str]


def _read(file: Path) -> _Outcome | None:
    """Return the outcome of an experiment; None without a readable result."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        checks = [(str(check["claim"]), bool(check["holds"])) for check in found["checks"]]
        return _Outcome(checks, [str(each["verdict"]) for each in found["comparisons"]])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _index(entries: Sequence[tuple[Experiment, _Outcome]]) -> str:
    """Return the index: every experiment with what it reproduces, its verdicts, and which of its statements fail."""
    rows = []
    for experiment, outcome in entries:
        failing = [claim for claim, holds in outcome.checks if not holds]
        counts = map(str, tally(outcome.verdicts).values())
        held = f"{len(outcome.checks) - len(failing)} of {len(outcome.checks)}"
        rows.append((f"[{experiment.name}]({experiment.name}.md)", experiment.title, *counts, held, "; ".join(failing)))
    head = ("page", "reproduces", *VERDICTS, "statements that hold", "statements that do not")
    total = tally(verdict for _, outcome in entries for verdict in outcome.verdicts)
    return (
        "\n\n".join(("# Reproductions", f"{summary(total)}.", *_INDEX, markdown_table(head, rows, (head[1], head[-1]))))
        + "\n"
    )


_INDEX = (
    "The tables and figures of the papers that Foretide follows, reproduced in its simulator. Each page has a table "
    "*ours | paper | deviation | verdict | cause*, a figure, experiments on what is off, the statements of the paper "
    "and whether they hold, and how it was set up. `make reproduce` writes all of it, `foretide reproduce NAME` one "
    "page; numbers are beside each page as JSON.",
    "- **within 10 %** of the printed number.\n"
    "- **explained**: further off, and the cause is known. Either an experiment found it: the same run with one "
    "assumption changed, or measured by another definition, comes within 10 %, and no other number of its row or "
    "column moves away from print. Or the paper contradicts itself in that number. Where several assumptions are "
    "tried, one may come near by chance; the page shows them all.\n"
    "- **unexplained**: further off, for reasons we do not know. The page says what comes nearest.\n"
    "- **no evidence**: calibrated against that very number, so by definition, or printed in another table too.",
    "Every printed number has its document ([references](../references.md)), section, and table or figure. The texts "
    "that we have carry no page numbers.",
)
