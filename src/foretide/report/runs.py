"""Runs as the record that a report is made of: simulated ones, and those steered on Spark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from foretide.control.course import RunCourse, latency_row
from foretide.control.decision import Decision
from foretide.control.score import RunScore
from foretide.control.starting.first_replicas import BEGAN
from foretide.events import COUNTED
from foretide.latency import LatencyHistogram
from foretide.plan.promise import PromiseScore, latency_outlook
from foretide.records import Floats, Forecast, Plan, Term
from foretide.report.record import DecisionMark, Expected, Figure, RunRecord
from foretide.sim.outcome import SimulationReport

if TYPE_CHECKING:
    from foretide.spark.steering.samples import Sample
    from foretide.spark.steering.steered_run import SteeredRun

__all__ = ["decision_mark", "expected_input", "record_of", "score_figures", "steered_record"]

# As many operators, and as many terms for each, as a tooltip can hold.
_OPERATORS, _TERMS = 8, 4
# Latency on Spark is shown over stretches of this many samples: single batches would make the line unreadable.
_STRETCH = 5


def record_of(report: SimulationReport) -> RunRecord:
    """Return the record of a simulated run."""
    return _record(
        report.course,
        report.decisions,
        report.options.control.td_s,
        title=f"{report.topology.name} on {report.trace}",
        facts=_simulated_facts(report),
        figures=(*score_figures(report.metrics), *_kept(report.slo)),
        counted_from_s=report.options.warm_up_s,
        notes=_simulated_notes(report),
    )


def steered_record(run: SteeredRun, trace: str) -> RunRecord:
    """Return the record of a steered run, its time counted from the first sample."""
    course = RunCourse.of(run.topology, [sample.measurement for sample in run.samples], _latency_rows(run.samples))
    figures = () if run.score is None else (*score_figures(run.score), *_kept(run.slo))
    if figures and run.audit is not None:
        words = f"of {run.audit.expected:,} events, by their ids in the sink"
        counts = (("lost", run.audit.lost), ("duplicated", run.audit.duplicated))
        figures += tuple(Figure(name, f"{count:,}", words) for name, count in counts)
    facts = {"policy": run.policy, "forecaster": run.forecaster, "td": f"{run.td_s:g} s", "trace": trace}
    facts |= {"events": f"{run.report.arrived:,}", "batches": f"{run.report.batches:,}", "ended": run.report.ending}
    facts["began with"] = next((event.message for event in run.events if event.kind == BEGAN), "")
    if run.report.dead_letters:
        facts["failed"] = f"{run.report.dead_letters:,} events"
    if run.report.dropped:
        facts["dropped"] = f"{run.report.dropped:,} events"
    return _record(
        course,
        run.decisions,
        run.td_s,
        title=f"{run.report.topology} on {run.report.master}",
        facts={name: value for name, value in facts.items() if value},
        figures=figures,
        notes=_steered_notes(run),
    )


def _steered_notes(run: SteeredRun) -> tuple[str, ...]:
    """Return what failed and what was dropped, with the final counts, and the latest warnings about anything else."""
    warnings = [event for event in run.events if event.severity != "info" and event.kind not in COUNTED]
    counted = (*run.report.failures, *run.report.drops)
    return (*(str(each) for each in counted), *(f"{e.kind}: {e.message}" for e in warnings[-10:]))


def _record(course: RunCourse, decisions: Sequence[Decision], td_s: float, **words: Any) -> RunRecord:
    """Return a record whose time counts from where the course began."""
    began_at_s = course.began_at_s
    return RunRecord(
        operators=course.topology.layout.operators,
        at_s=course.ended_at_s - began_at_s,
        input_per_s=course.arrived.sum(axis=1) / course.duration_s,
        throughput_per_s=course.left / course.duration_s,
        replicas=course.replicas,
        queued=course.queued,
        latency_at_s=course.latency_at_s - began_at_s,
        latency_ms={name: 1e3 * values for name, values in course.latency_s.items()},
        expected=expected_input(decisions, td_s, began_at_s),
        **_outlook(decisions, began_at_s),
        decisions=tuple(decision_mark(decision, began_at_s) for decision in decisions),
        **words,
    )


def _outlook(decisions: Sequence[Decision], began_at_s: float) -> dict[str, Any]:
    """Return the latencies that plans expected, and what was promised; empty where they expected none."""
    made = [(decision.at_s, found) for decision in decisions if (found := latency_outlook(decision.plan)) is not None]
    if not made:
        return {}
    lines = {
        "p50 expected": [found.p50_s for _, found in made],
        "p95 expected": [found.p95_s for _, found in made],
    }
    promise = made[-1][1].promise
    if promise is not None:
        lines[f"promised (p{100 * promise.quantile:g})"] = [promise.target_s] * len(made)
    return {
        "outlook_at_s": np.array([at_s for at_s, _ in made]) - began_at_s,
        "outlook_ms": {name: 1e3 * np.array(values) for name, values in lines.items()},
    }


def _kept(slo: PromiseScore | None) -> tuple[Figure, ...]:
    """Return how well a promise was kept, as a metric."""
    if slo is None:
        return ()
    share = f"{slo.kept / slo.intervals:.1%}" if slo.intervals else "–"
    return (Figure(f"promise {slo.promise}", share, f"kept in {slo.kept} of {slo.intervals} intervals"),)


def _latency_rows(samples: Sequence[Sample]) -> list[tuple[float, ...]]:
    rows = []
    for first in range(0, len(samples), _STRETCH):
        stretch, latency = samples[first : first + _STRETCH], LatencyHistogram()
        for sample in stretch:
            latency.merge(sample.latency)
        rows.append(latency_row(stretch[-1].measurement.ended_at_s, latency))
    return rows


def score_figures(score: RunScore) -> tuple[Figure, ...]:
    """Return the metrics of SPEC P8 as text.

    >>> score = RunScore(
    ...     saved=0.521, r_over=32, slot_seconds=18_400, latency_mean_ms=155.2, latency_p95_ms=158.0,
    ...     latency_p99_ms=161.0, processed=1.0, degradation=0.012, error_input=0.1, error_replica=0.1, changes=12,
    ... )
    >>> [(figure.name, figure.value) for figure in score_figures(score)][:3]
    [('saved resources', '0.521'), ('slot-seconds', '18,400'), ('latency, mean', '155 ms')]
    """
    return (
        Figure("saved resources", _number(score.saved, ".3f"), f"mean of 1 − r/r_over, r_over = {score.r_over:g}"),
        Figure("slot-seconds", _number(score.slot_seconds, ",.0f"), "replicas of all operators × seconds"),
        Figure("latency, mean", _milliseconds(score.latency_mean_ms), "end to end, of the events that left"),
        Figure("latency, p95", _milliseconds(score.latency_p95_ms), "19 of 20 events were faster"),
        Figure("latency, p99", _milliseconds(score.latency_p99_ms), "99 of 100 events were faster"),
        Figure("processed", _number(score.processed, ".4f"), "events processed ÷ received, when the last had arrived"),
        Figure("degradation", _number(score.degradation, ".3f"), "throughput: mean of |in − out|/in over 5 s"),
        Figure("error of input", _number(score.error_input, ".3f"), "MAPE of the input expected per interval"),
        Figure("error of replicas", _number(score.error_replica, ".3f"), "MAPE against the replicas needed"),
        Figure("changes", f"{score.changes:,}", "changes of an operator's number of replicas"),
        Figure("first plan", _seconds(score.first_plan_s), "from the first event to the first plan in force"),
        Figure("latency, p95, cold", _milliseconds(score.cold_p95_ms), "of events that left in the first 30 s"),
        Figure("latency, p95, warm", _milliseconds(score.warm_p95_ms), "of events that left later"),
    )


def expected_input(decisions: Sequence[Decision], td_s: float, began_at_s: float = 0.0) -> Expected | None:
    """Return what the forecasts expected of the next interval, all sources together; None if there were none.

    Instants count from `began_at_s`.
    """
    made = [decision for decision in decisions if decision.forecasts]
    if not made:
        return None
    levels = sorted(set.union(*(set(forecast.quantiles) for forecast in made[-1].forecasts.values())))
    low, high = (levels[0], levels[-1]) if len(levels) > 1 else (None, None)
    from_s = np.array([decision.at_s for decision in made]) - began_at_s
    forecaster = next(iter(made[-1].forecasts.values())).model
    return Expected(
        from_s=from_s,
        to_s=from_s + td_s,
        rate_per_s=_rates(made, td_s),
        low_per_s=None if low is None else _rates(made, td_s, low),
        high_per_s=None if high is None else _rates(made, td_s, high),
        band="" if low is None or high is None else f"{100 * low:g}–{100 * high:g} %",
        made_by=forecaster,
    )


def _rates(decisions: Sequence[Decision], td_s: float, level: float | None = None) -> Floats:
    """Return the mean rate of the next interval, or a quantile of it if the forecast has that one."""
    return np.array([sum(_rate(made, td_s, level) for made in step.forecasts.values()) for step in decisions])


def _rate(forecast: Forecast, td_s: float, level: float | None) -> float:
    return float(forecast.interval_events(td_s, 1, level if level in forecast.quantiles else None)[0]) / td_s


def decision_mark(decision: Decision, began_at_s: float = 0.0) -> DecisionMark:
    """Return a decision in words: what changes, and for each operator the last steps on the way to its number.

    Its instant counts from `began_at_s`.
    """
    at_s = decision.at_s - began_at_s
    at = f"{at_s:g} s"
    plan, window = decision.plan, decision.window
    if plan is None or window is None:
        return DecisionMark(at_s, f"{at}: no plan", (str(decision.failure or ""),), changed=False)
    before, after = window.replicas, plan.replicas
    moved = np.flatnonzero(before != after)
    names = plan.layout.operators
    if not moved.size:
        headline = f"{at}: {int(after.sum())} replicas stay"
    else:
        headline = f"{at}: {int(before.sum())} → {int(after.sum())} replicas"
    shown = [*moved.tolist(), *(column for column in range(len(names)) if column not in set(moved.tolist()))]
    reasons = [_reason(plan, column, int(before[column])) for column in shown[:_OPERATORS]]
    more = [f"and {len(names) - _OPERATORS} more operators"] if len(names) > _OPERATORS else []
    whole = [_whole(term) for term in plan.terms if isinstance(term.values, float)]
    return DecisionMark(at_s, headline, (*whole, *reasons, *more, *plan.notes), bool(moved.size))


def _reason(plan: Plan, column: int, before: int) -> str:
    after = int(plan.replicas[column])
    change = f"{before} → {after}" if before != after else f"{after}"
    terms = [term for term in plan.terms if not isinstance(term.values, float) and term.symbol != "r"]
    steps = ", ".join(f"{term.symbol} = {_short(term.value(column))}{_unit(term)}" for term in terms[-_TERMS:])
    return f"{plan.layout.operators[column]} {change}" + (f": {steps}" if steps else "")


def _whole(term: Term) -> str:
    return f"{term.symbol} = {_short(term.value(0))}{_unit(term)}"


def _unit(term: Term) -> str:
    return f" {term.unit}" if term.unit else ""


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _simulated_facts(report: SimulationReport) -> dict[str, str]:
    options, stress = report.options, report.options.stress
    facts = {"policy": options.policy_name}
    if options.forecaster_name is not None:
        facts["forecaster"] = options.forecaster_name
    facts |= {"td": f"{options.control.td_s:g} s", "seed": str(options.seed)}
    if stress is not None:
        facts["stress"] = (
            f"service × {stress.service_factor:g}, noise CV {stress.service_cv:g} (service) and {stress.arrival_cv:g} "
            f"(input), activation after {stress.activation_s:g} s"
        )
    else:
        facts["stress"] = "none"
    facts["counted"] = f"from {options.warm_up_s:g} s on"
    return facts


def _simulated_notes(report: SimulationReport) -> tuple[str, ...]:
    totals, notes = report.totals, []
    parts = [f"{totals[name]:,.0f} {name.replace('_', ' ')}" for name in totals if name != "received"]
    notes.append(f"{totals['received']:,.0f} events received: {', '.join(parts)}.")
    if report.stand_ins:
        notes.append(f"The forecaster failed in {report.stand_ins} cycles; the last value stood in.")
    return tuple(notes)


def _number(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else "–"


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if math.isfinite(value) else "–"


def _milliseconds(value: float) -> str:
    return f"{value:,.0f} ms" if math.isfinite(value) else "–"
