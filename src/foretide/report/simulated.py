"""A simulated run as the record that a report is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from foretide.control.decision import Decision
from foretide.records import Floats, Forecast, Plan, Term
from foretide.report.record import DecisionMark, Expected, Figure, RunRecord
from foretide.sim.outcome import RunMetrics, SimulationReport

__all__ = ["decision_mark", "expected_input", "metric_figures", "record_of"]

# As many operators, and as many steps of the way to a number, as a label that floats over a plot can hold.
_OPERATORS, _TERMS = 8, 4


def record_of(report: SimulationReport) -> RunRecord:
    """Return the record of a simulated run."""
    series, options = report.series, report.options
    td_s = options.control.td_s
    latencies = {
        "mean": series.latency_mean_s,
        "p50": series.latency_p50_s,
        "p95": series.latency_p95_s,
        "p99": series.latency_p99_s,
    }
    return RunRecord(
        title=f"{report.topology.name} on {report.trace}",
        facts=_facts(report),
        figures=metric_figures(report.metrics, report.r_over),
        operators=report.topology.layout.operators,
        at_s=series.ended_at_s,
        input_per_s=series.arrived.sum(axis=1) / series.step_s,
        throughput_per_s=series.left / series.step_s,
        replicas=series.replicas,
        queued=series.queued,
        latency_at_s=series.latency_at_s,
        latency_ms={name: 1e3 * values for name, values in latencies.items()},
        expected=expected_input(report.decisions, td_s),
        decisions=tuple(decision_mark(decision) for decision in report.decisions),
        counted_from_s=options.warm_up_s,
        notes=_notes(report),
    )


def metric_figures(metrics: RunMetrics, r_over: float) -> tuple[Figure, ...]:
    """Return the metrics of SPEC P8 as text.

    >>> metrics = RunMetrics(0.521, 155.2, 158.0, 161.0, 1.0, 0.012, float("nan"), 0.1, 12)
    >>> [(figure.name, figure.value) for figure in metric_figures(metrics, 32)][:3]
    [('saved resources', '0.521'), ('latency, mean', '155 ms'), ('latency, p95', '158 ms')]
    """
    return (
        Figure("saved resources", _number(metrics.saved, ".3f"), f"mean of 1 − r/r_over, r_over = {r_over:g}"),
        Figure("latency, mean", _milliseconds(metrics.latency_mean_ms), "end to end, of the events that left"),
        Figure("latency, p95", _milliseconds(metrics.latency_p95_ms), "19 of 20 events were faster"),
        Figure("latency, p99", _milliseconds(metrics.latency_p99_ms), "99 of 100 events were faster"),
        Figure("processed", _number(metrics.processed, ".4f"), "events processed ÷ received, whole run"),
        Figure("degradation", _number(metrics.degradation, ".3f"), "throughput: mean of |in − out|/in"),
        Figure("error of input", _number(metrics.error_input, ".3f"), "MAPE of the input expected per interval"),
        Figure("error of replicas", _number(metrics.error_replica, ".3f"), "MAPE against the replicas needed"),
        Figure("changes", f"{metrics.changes:,}", "times that an operator got another number of replicas"),
    )


def expected_input(decisions: Sequence[Decision], td_s: float) -> Expected | None:
    """Return what the forecasts said of the next interval, all sources together; None where there were none."""
    made = [decision for decision in decisions if decision.forecasts]
    if not made:
        return None
    levels = sorted(set.union(*(set(forecast.quantiles) for forecast in made[-1].forecasts.values())))
    low, high = (levels[0], levels[-1]) if len(levels) > 1 else (None, None)
    from_s = np.array([decision.at_s for decision in made])
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
    """Return the mean rate of the next interval, or a quantile of it where the forecast has that one."""
    return np.array([sum(_rate(made, td_s, level) for made in step.forecasts.values()) for step in decisions])


def _rate(forecast: Forecast, td_s: float, level: float | None) -> float:
    return float(forecast.interval_events(td_s, 1, level if level in forecast.quantiles else None)[0]) / td_s


def decision_mark(decision: Decision) -> DecisionMark:
    """Return a decision in words: what changes, and for each operator the last steps on the way to its number."""
    at = f"{decision.at_s:g} s"
    plan, window = decision.plan, decision.window
    if plan is None or window is None:
        return DecisionMark(decision.at_s, f"{at}: no plan", (str(decision.failure or ""),), changed=False)
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
    return DecisionMark(decision.at_s, headline, (*whole, *reasons, *more, *plan.notes), bool(moved.size))


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


def _facts(report: SimulationReport) -> dict[str, str]:
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


def _notes(report: SimulationReport) -> tuple[str, ...]:
    totals, notes = report.totals, []
    parts = [f"{totals[name]:,.0f} {name.replace('_', ' ')}" for name in totals if name != "received"]
    notes.append(f"{totals['received']:,.0f} events received: {', '.join(parts)}.")
    if report.stand_ins:
        notes.append(f"The forecaster failed in {report.stand_ins} cycles; the last value stood in.")
    return tuple(notes)


def _number(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else "–"


def _milliseconds(value: float) -> str:
    return f"{value:,.0f} ms" if math.isfinite(value) else "–"
