"""Table 3 of PRESPS, and what its interval does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from foretide.experiments.reproduce.contract import Check, Comparison, Experiment, Line, Outcomes, Panel, Result, Scope
from foretide.experiments.reproduce.orderings import ascending, below, each_seed, within
from foretide.experiments.reproduce.pasps.runs import DABS_WEIGHT, SETUP_NOTES, PaspsJob
from foretide.experiments.reproduce.pasps.tables import compared, course, means_of, trials_of, values_of
from foretide.experiments.reproduce.published import LATENCY, PRESPS_TABLE_3, PROCESSED, PSPS_BY_TD, SAVED, Table
from foretide.experiments.reproduce.sim_runs import RunOutcome, by_seed, shipped_input
from foretide.experiments.reproduce.trials import compare_run

__all__ = ["EXPERIMENTS"]

_TRACE = "pasps_twitter_smoothed"
_WITHIN = 0.015
_LAST_SAMPLE = "forecast: the last sample alone"


def _table_rows(scope: Scope) -> Mapping[str, Sequence[PaspsJob]]:
    return {
        "PRESPS": PaspsJob.for_scope(scope, _TRACE, "psps"),
        "DABS": PaspsJob.for_scope(scope, _TRACE, "dabs", str(DABS_WEIGHT)),
    }


def _table(scope: Scope, outcomes: Outcomes) -> Result:
    rows = _table_rows(scope)
    runs = {name: [outcomes[job] for job in jobs] for name, jobs in rows.items()}
    processed, latency = (values_of(runs, metric) for metric in (PROCESSED, LATENCY))
    checks = (
        below("DABS processes fewer events", processed, "DABS", "PRESPS", PROCESSED),
        below("DABS is faster, since what it drops waits for nobody", latency, "DABS", "PRESPS", LATENCY),
        each_seed("PRESPS loses none", scope.seeds, lambda n: processed["PRESPS"][n] >= 0.995),
    )
    notes = (
        *SETUP_NOTES,
        "The paper's trace is of the 2016 election and is not published; its numbers are those of PA-SPS table 4, so "
        "the trace is taken to be the same. DABS as in pasps-table4.",
    )
    return Result(compared(rows, PRESPS_TABLE_3, outcomes), checks, course(runs, "PRESPS and DABS"), notes)


def _td_rows(scope: Scope, option: str = "") -> Mapping[int, Sequence[PaspsJob]]:
    fits = [td for td in PSPS_BY_TD if scope.first_s is None or 2 * td <= scope.first_s]
    return {td: PaspsJob.for_scope(scope, _TRACE, "psps", option, td_s=float(td)) for td in fits}


def _of_td(scope: Scope, outcomes: Outcomes) -> Result:
    rows, others = ({_name(td): jobs for td, jobs in _td_rows(scope, option).items()} for option in ("", "basic"))
    published = {_name(td): PSPS_BY_TD[td] for td in _td_rows(scope)}
    runs, last = ({name: [outcomes[job] for job in jobs] for name, jobs in each.items()} for each in (rows, others))
    experiments = trials_of(rows, published)
    comparisons: list[Comparison] = []
    for name, row in runs.items():
        tried = {title: outcomes[job].metrics for title, job in experiments.get(name, {}).items()}
        tried[_LAST_SAMPLE] = means_of(last[name])
        values = {metric: by_seed(row, metric) for metric in (SAVED, LATENCY)}
        comparisons += compare_run(name, values, published[name], tried, means_of(row), (_LAST_SAMPLE,))
    checks = (*_td_checks(runs, published, ""), *_td_checks(last, published, "by the last sample, "))
    notes = (
        *SETUP_NOTES,
        "PSPS plans from a forecast and each operator's own queue. Its forecast has two readings: the last six "
        "samples of 5 s again whatever td is, six being the horizon that the authors configured, and the last "
        "sample alone. The table has the first; the second is an experiment on it. Statements are checked for both.",
        "The study of td stands in the thesis of the first author [Wladdimiro2024], not in the PRESPS paper.",
    )
    return Result(tuple(comparisons), checks, _td_panels(comparisons), notes)


def _name(td: int) -> str:
    return f"td = {td} s"


def _td_checks(runs: Mapping[str, Sequence[RunOutcome]], published: Table, reading: str) -> tuple[Check, ...]:
    saved = [Comparison(name, SAVED, by_seed(row, SAVED), published[name][SAVED]) for name, row in runs.items()]
    return (
        within(f"{reading}saved resources are within .015 of the printed ones at every td", saved, _WITHIN),
        ascending(f"{reading}latency grows with td", values_of(runs, LATENCY), LATENCY),
    )


def _td_panels(rows: Sequence[Comparison]) -> tuple[Panel, ...]:
    panels = []
    for metric, title in ((SAVED, "saved resources"), (LATENCY, "mean latency (ms)")):
        of = [row for row in rows if row.metric == metric]
        places = list(range(len(of)))
        lines = (
            Line("ours", places, [row.ours for row in of]),
            Line("paper", places, [row.paper or 0.0 for row in of]),
        )
        panels.append(Panel(title, "", title, lines, tuple(row.subject for row in of)))
    return tuple(panels)


def _inputs(scope: Scope) -> tuple[str, ...]:
    return (shipped_input(_TRACE),)


def _td_jobs(scope: Scope) -> list[PaspsJob]:
    rows = {_name(td): jobs for td, jobs in _td_rows(scope).items()}
    experiments = trials_of(rows, {_name(td): cells for td, cells in PSPS_BY_TD.items()}).values()
    return [*_flat(rows.values()), *_flat(_td_rows(scope, "basic").values()), *_flat(e.values() for e in experiments)]


def _flat(rows: Iterable[Iterable[PaspsJob]]) -> list[PaspsJob]:
    return [job for jobs in rows for job in jobs]


EXPERIMENTS = (
    Experiment(
        "presps-table3",
        "PRESPS, table 3: PRESPS and DABS",
        "PRESPS",
        10,
        lambda s: _flat(_table_rows(s).values()),
        _table,
        _inputs,
    ),
    Experiment("presps-td", "PSPS: what its interval td does", "Wladdimiro2024", 60, _td_jobs, _of_td, _inputs),
)
