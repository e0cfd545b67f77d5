"""Tables 2 to 8 of PA-SPS: five forecasters on four inputs, static replication, other systems, a larger application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from foretide.experiments.reproduce.contract import (
    Check,
    Comparison,
    Experiment,
    Line,
    Metric,
    Outcomes,
    Panel,
    Result,
    Scope,
)
from foretide.experiments.reproduce.orderings import below, each_seed, lowest
from foretide.experiments.reproduce.pasps.assumptions import assumptions_for
from foretide.experiments.reproduce.pasps.runs import DABS_WEIGHT, FORECASTERS, SETUP_NOTES, PaspsJob
from foretide.experiments.reproduce.published import (
    DEGRADATION,
    ERROR_INPUT,
    ERROR_REPLICA,
    LATENCY,
    PASPS,
    PROCESSED,
    SAVED,
    Table,
)
from foretide.experiments.reproduce.sim_runs import RunOutcome, by_seed, shipped_input
from foretide.experiments.reproduce.trials import compare_run

__all__ = ["EXPERIMENTS", "Rows", "compared", "course", "means_of", "trials_of", "values_of"]

_SMOOTHED = "pasps_twitter_smoothed"
_TRACES = {2: _SMOOTHED, 6: "pasps_twitter_raw", 7: "pasps_dns", 8: "pasps_logs"}
_LAST_SAMPLE = "Basic, last sample"
_PSPS_LAST_SAMPLE = "PSPS, last sample"
_LITERAL = "DABS, λ = .3"
#: Rows that read a row of the paper in another way, and how.
READINGS = {
    _LAST_SAMPLE: ("Basic", "forecast: the last sample alone"),
    _PSPS_LAST_SAMPLE: ("PSPS", "forecast: the last sample alone"),
    _LITERAL: ("DABS", "λ = .3, which DABS prints"),
}

#: The runs of each row, one per seed.
Rows = Mapping[str, Sequence[PaspsJob]]
Runs = Mapping[str, Sequence[RunOutcome]]


def values_of(runs: Runs, metric: Metric, names: Sequence[str] | None = None) -> dict[str, tuple[float, ...]]:
    """Return a metric by row, one value per seed."""
    return {name: by_seed(runs[name], metric) for name in names or runs}


def trials_of(rows: Rows, published: Table) -> dict[str, dict[str, PaspsJob]]:
    """Return the experiments on why numbers are off: by row and assumption, the first run of the row under it.

    A row of which no number is evidence has none.
    """
    found: dict[str, dict[str, PaspsJob]] = {}
    for name, (first, *_) in rows.items():
        if any(not cell.no_evidence for cell in published.get(name, {}).values()):
            under = assumptions_for(first.policy)
            found[name] = {each.title: replace(first, assumption=key) for key, each in under.items()}
    return found


def compared(rows: Rows, published: Table, outcomes: Outcomes) -> tuple[Comparison, ...]:
    """Return every number of a table with ours, and with what experiments give.

    Another reading of a row is an experiment on that row.
    """
    runs = {name: [outcomes[job] for job in jobs] for name, jobs in rows.items()}
    experiments = trials_of(rows, published)
    found: list[Comparison] = []
    for name, cells in published.items():
        if name not in runs:
            continue
        tried = {title: outcomes[job].metrics for title, job in experiments.get(name, {}).items()}
        read = {title: means_of(runs[row]) for row, (of, title) in READINGS.items() if of == name and row in runs}
        values = {metric: by_seed(runs[name], metric) for metric in cells}
        found += compare_run(name, values, cells, tried | read, means_of(runs[name]), tuple(read))
    return tuple(found)


def means_of(runs: Sequence[RunOutcome]) -> dict[str, float]:
    """Return the metrics of a row, means over the seeds."""
    return {key: sum(run.metrics[key] for run in runs) / len(runs) for key in runs[0].metrics}


def course(runs: Runs, title: str) -> tuple[Panel, ...]:
    """Return replicas, throughput and latency over time, from the first seed."""
    first = {name: row[0] for name, row in runs.items()}
    one = next(iter(first.values()))
    came = Line("input", one.at_s, one.arrived, "shade")
    return (
        Panel(
            f"{title}: replicas of all operators",
            "seconds",
            "replicas",
            tuple(Line(name, run.at_s, run.replicas, "steps") for name, run in first.items()),
        ),
        Panel(
            "throughput",
            "seconds",
            "events/s",
            (came, *(Line(name, run.at_s, run.left) for name, run in first.items())),
        ),
        Panel(
            "latency",
            "seconds",
            "ms",
            tuple(Line(name, run.at_s, run.latency_ms) for name, run in first.items()),
            log=True,
        ),
    )


def _forecaster_rows(trace: str, scope: Scope) -> Rows:
    rows = {name: PaspsJob.for_scope(scope, trace, "pasps", kind) for name, kind in FORECASTERS.items()}
    return {**rows, _LAST_SAMPLE: PaspsJob.for_scope(scope, trace, "pasps", "basic")}


def _static_rows(scope: Scope) -> Rows:
    rows = {f"r = {r}": PaspsJob.for_scope(scope, _SMOOTHED, "static", str(r)) for r in (1, 4, 8)}
    return {"PA-SPS": PaspsJob.for_scope(scope, _SMOOTHED, "pasps", "ann"), **rows}


def _system_rows(scope: Scope) -> Rows:
    return {
        "PA-SPS": PaspsJob.for_scope(scope, _SMOOTHED, "pasps", "ann"),
        "PSPS": PaspsJob.for_scope(scope, _SMOOTHED, "psps"),
        _PSPS_LAST_SAMPLE: PaspsJob.for_scope(scope, _SMOOTHED, "psps", "basic"),
        "DABS": PaspsJob.for_scope(scope, _SMOOTHED, "dabs", str(DABS_WEIGHT)),
        _LITERAL: PaspsJob.for_scope(scope, _SMOOTHED, "dabs", "0.3"),
    }


def _complex_rows(scope: Scope) -> Rows:
    return {
        "PA-SPS": PaspsJob.for_scope(scope, _SMOOTHED, "pasps", "ann", application="complex"),
        "r = 5": PaspsJob.for_scope(scope, _SMOOTHED, "static", "5", application="complex"),
    }


def _rows(table: int, scope: Scope) -> Rows:
    if table in _TRACES:
        return _forecaster_rows(_TRACES[table], scope)
    return {3: _static_rows, 4: _system_rows, 5: _complex_rows}[table](scope)


def _checks(table: int, runs: Runs) -> tuple[Check, ...]:
    return {2: _of_smoothed, 3: _of_static, 4: _of_systems, 5: _of_complex, 6: _of_raw, 7: _of_dns, 8: _of_logs}[table](
        runs
    )


def _of_smoothed(runs: Runs) -> tuple[Check, ...]:
    names = tuple(FORECASTERS)
    latency, degradation, saves, error_input, error_replica = (
        values_of(runs, metric, names) for metric in (LATENCY, DEGRADATION, SAVED, ERROR_INPUT, ERROR_REPLICA)
    )
    processed = values_of(runs, PROCESSED, names)
    seeds = len(runs["ANN"])
    rest = tuple(name for name in names if name != "Basic")
    return (
        lowest("ANN has the lowest latency", latency, ["ANN"], LATENCY),
        lowest("ANN has the lowest degradation", degradation, ["ANN"], DEGRADATION),
        lowest("ANN saves least", saves, ["ANN"], SAVED),
        lowest("Basic has the highest latency", latency, rest, LATENCY),
        lowest("LR and RF have the lowest error of input", error_input, ["LR", "RF"], ERROR_INPUT),
        lowest("LR and RF have the lowest error of replicas", error_replica, ["LR", "RF"], ERROR_REPLICA),
        *_with_last_sample(runs),
        each_seed(
            "all process at least 99.5 % of events",
            seeds,
            lambda n: all(values[n] >= 0.995 for values in processed.values()),
        ),
    )


def _with_last_sample(runs: Runs) -> tuple[Check, ...]:
    """Return the orderings that depend on what Basic is, with the other reading of it."""
    names = ("ANN", "FFT", "LR", "RF", _LAST_SAMPLE)
    latency, error_input, error_replica = (
        values_of(runs, metric, names) for metric in (LATENCY, ERROR_INPUT, ERROR_REPLICA)
    )
    reading = "Basic as the last sample alone"
    return (
        lowest(f"{reading}: Basic has the highest latency", latency, names[:-1], LATENCY),
        lowest(f"{reading}: LR and RF have the lowest error of input", error_input, ["LR", "RF"], ERROR_INPUT),
        lowest(f"{reading}: LR and RF have the lowest error of replicas", error_replica, ["LR", "RF"], ERROR_REPLICA),
    )


def _of_static(runs: Runs) -> tuple[Check, ...]:
    latency, processed = (values_of(runs, metric) for metric in (LATENCY, PROCESSED))
    seeds = len(runs["PA-SPS"])
    return (
        below("r = 8 is faster than PA-SPS", latency, "r = 8", "PA-SPS", LATENCY),
        below("PA-SPS is faster than r = 4", latency, "PA-SPS", "r = 4", LATENCY),
        below("r = 4 is faster than r = 1", latency, "r = 4", "r = 1", LATENCY),
        each_seed("r = 1 processes less than half of the events", seeds, lambda n: processed["r = 1"][n] < 0.5),
        each_seed(
            "PA-SPS and r = 8 process all events",
            seeds,
            lambda n: min(processed["PA-SPS"][n], processed["r = 8"][n]) >= 0.999,
        ),
    )


def _of_systems(runs: Runs) -> tuple[Check, ...]:
    latency, saves, processed = (values_of(runs, metric) for metric in (LATENCY, SAVED, PROCESSED))
    seeds = len(runs["PA-SPS"])
    return (
        below("PA-SPS is far below PSPS in latency (less than a third)", latency, "PA-SPS", "PSPS", LATENCY, 1 / 3),
        below("the same with PSPS by the last sample", latency, "PA-SPS", _PSPS_LAST_SAMPLE, LATENCY, 1 / 3),
        below("PA-SPS saves less than PSPS", saves, "PA-SPS", "PSPS", SAVED),
        each_seed("DABS loses more than 5 % of events", seeds, lambda n: processed["DABS"][n] < 0.95),
        each_seed(
            "PA-SPS and PSPS lose none",
            seeds,
            lambda n: min(processed["PA-SPS"][n], processed["PSPS"][n]) >= 0.995,
        ),
        below("PA-SPS is faster than DABS", latency, "PA-SPS", "DABS", LATENCY),
    )


def _of_complex(runs: Runs) -> tuple[Check, ...]:
    latency, processed = (values_of(runs, metric) for metric in (LATENCY, PROCESSED))
    seeds = len(runs["PA-SPS"])
    return (
        below("r = 5 is faster than PA-SPS", latency, "r = 5", "PA-SPS", LATENCY),
        each_seed("both process all events", seeds, lambda n: min(v[n] for v in processed.values()) >= 0.999),
    )


def _of_fft(runs: Runs) -> tuple[Check, ...]:
    names = tuple(FORECASTERS)
    rest = tuple(name for name in names if name != "FFT")
    latency, degradation, saves, error = (
        values_of(runs, metric, names) for metric in (LATENCY, DEGRADATION, SAVED, ERROR_INPUT)
    )
    return (
        lowest("FFT has the highest latency", latency, rest, LATENCY),
        lowest("FFT has the highest degradation", degradation, rest, DEGRADATION),
        lowest("FFT saves least", saves, ["FFT"], SAVED),
        lowest("FFT has the highest error of input", error, rest, ERROR_INPUT),
    )


def _of_raw(runs: Runs) -> tuple[Check, ...]:
    latency = values_of(runs, LATENCY, tuple(FORECASTERS))
    return (*_of_fft(runs), lowest("ANN has the lowest latency", latency, ["ANN"], LATENCY))


def _of_logs(runs: Runs) -> tuple[Check, ...]:
    latency = values_of(runs, LATENCY, tuple(FORECASTERS))
    return (*_of_fft(runs), lowest("Basic has the lowest latency", latency, ["Basic"], LATENCY))


def _of_dns(runs: Runs) -> tuple[Check, ...]:
    names = tuple(FORECASTERS)
    rest = tuple(name for name in names if name != "FFT")
    saves, error, latency = (values_of(runs, metric, names) for metric in (SAVED, ERROR_INPUT, LATENCY))
    return (
        lowest("FFT saves least", saves, ["FFT"], SAVED),
        lowest("FFT has the highest error of input", error, rest, ERROR_INPUT),
        lowest("FFT has the lowest latency", latency, ["FFT"], LATENCY),
    )


_NOTES: Mapping[int, tuple[str, ...]] = {
    table: (
        "Basic has two readings. As the paper defines it, the input of the last interval comes again: the last six "
        "samples, row *Basic*. `basic` of Foretide expects the last sample alone: an experiment on that row. On "
        "the smoothed trace the second is nearer to the published latency and input error, while the published order "
        "of the models (Basic slowest, LR and RF with the lowest errors) follows from the first; both are checked.",
    )
    for table in _TRACES
} | {
    3: (
        "PA-SPS with ANN. The static runs start with their replicas. At the trace's peak the second operator needs "
        "nine replicas by the calibrated execution times, so eight queue for a while, which the paper's do not.",
    ),
    4: (
        f"DABS is `autoscale-plus` with a restart of 5.5 s at every change that drops queued and arriving events. "
        f"λ = {DABS_WEIGHT:g} is calibrated to the published saved resources, so that number is no evidence; an "
        "experiment has the value that DABS itself prints, taken literally. PSPS has the two readings that Basic has "
        "in table 2.",
    ),
    5: (
        "Figure 11 names the operators but neither their execution times nor the split. Execution times are such that "
        "two replicas each suffice at the peak, which gives the published saved resources (so that number is no "
        "evidence); base latency 32 ms, the one printed for r = 5; three of five tweets go down the news branch.",
    ),
}


def _conclude(table: int, title: str, scope: Scope, outcomes: Outcomes) -> Result:
    rows = _rows(table, scope)
    runs = {name: [outcomes[job] for job in jobs] for name, jobs in rows.items()}
    shown = {name: row for name, row in runs.items() if name not in READINGS}
    return Result(
        comparisons=compared(rows, PASPS[table], outcomes),
        checks=_checks(table, runs),
        panels=course(shown, title),
        notes=(*SETUP_NOTES, *_NOTES[table]),
    )


def _jobs(table: int, scope: Scope) -> list[PaspsJob]:
    rows = _rows(table, scope)
    experiments = trials_of(rows, PASPS[table]).values()
    return [*(job for jobs in rows.values() for job in jobs), *(job for jobs in experiments for job in jobs.values())]


def _experiment(table: int, what: str, seconds: float) -> Experiment:
    return Experiment(
        name=f"pasps-table{table}",
        title=f"PA-SPS, table {table}: {what}",
        source="PASPS",
        seconds=seconds,
        jobs=partial(_jobs, table),
        conclude=partial(_conclude, table, what),
        inputs=lambda scope: (shipped_input(_TRACES.get(table, _SMOOTHED)),),
    )


EXPERIMENTS = (
    _experiment(2, "five forecasters on Twitter, smoothed", 90),
    _experiment(3, "static replication in Storm", 30),
    _experiment(4, "PSPS and DABS", 45),
    _experiment(5, "a more complex application", 50),
    _experiment(6, "five forecasters on Twitter, raw", 95),
    _experiment(7, "five forecasters on DNS traffic", 80),
    _experiment(8, "five forecasters on system logs", 90),
)
