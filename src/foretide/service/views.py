"""What the store knows about a run as plain data, ready for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np

from foretide.control.course import RunCourse, while_it_ran
from foretide.control.recorded import recalled
from foretide.control.score import OPENING, estimates_of, opening_of, score_run, yardstick_of
from foretide.errors import MetricsError
from foretide.events import Event
from foretide.latency import LatencyHistogram
from foretide.plan.promise import PromiseScore, latency_outlook, score_promise
from foretide.records import Floats, Forecast, Measurement
from foretide.service.graph import topology_of
from foretide.service.http.answers import columns, rounded
from foretide.store import FeatureSample, LatencySample, RecordedRun, RunInfo, StoredDecision
from foretide.store.merging import joined
from foretide.topology.flow import FlowGraph

__all__ = [
    "decision_entry",
    "decision_story",
    "event_entry",
    "feature_entry",
    "feature_history",
    "forecast_columns",
    "latency_columns",
    "measurement_columns",
    "measurement_row",
    "run_entry",
    "run_score",
    "thinned",
]

LEVELS: Mapping[str, float] = {"p50_s": 0.5, "p95_s": 0.95, "p99_s": 0.99}


def run_entry(info: RunInfo, now_s: float) -> dict[str, Any]:
    """Return a run without its records; one whose process ended without reporting it is called lost."""
    lost = info.status == "running" and not info.is_alive(now_s)
    return {
        "id": info.id,
        "name": info.name,
        "status": "lost" if lost else info.status,
        "began": datetime.fromtimestamp(info.created_at_s, UTC).isoformat(timespec="seconds"),
        "started_at_s": info.started_at_s,
        "ended_at_s": info.ended_at_s,
        "clock_offset_s": info.clock_offset_s,
        "policy": info.policy,
        "forecaster": info.forecaster,
        "trace": info.trace,
        "td_s": info.td_s,
        "sources": list(info.layout.sources),
        "operators": list(info.layout.operators),
        "outcome": dict(info.outcome),
        "dropped": dict(info.dropped),
    }


def utilisation(measurement: Measurement) -> Floats:
    """Return the part of their time that the replicas of each operator were busy (SPEC P3 Eq. 1)."""
    whole_s = measurement.replicas * measurement.duration_s
    busy: Floats = np.divide(measurement.busy_s, whole_s, out=np.zeros(whole_s.shape), where=whole_s > 0)
    return np.minimum(busy, 1.0)


def thinned(measurements: Sequence[Measurement], points: int | None) -> Sequence[Measurement]:
    """Return at most `points` measurements, neighbours joined to longer ones."""
    each = 1 if points is None else -(-len(measurements) // points)
    if each <= 1:
        return measurements
    return [joined(measurements[first : first + each]) for first in range(0, len(measurements), each)]


def measurement_columns(info: RunInfo, measurements: Sequence[Measurement]) -> dict[str, Any]:
    """Return measurements as columns over time, by source, operator and edge."""
    layout, flow = info.layout, FlowGraph.of(info.layout)
    durations: Floats = np.array([one.duration_s for one in measurements]).reshape(-1, 1)

    def table(name: str, width: int) -> Floats:
        return np.array([getattr(one, name) for one in measurements], dtype=np.float64).reshape(-1, width)

    operators, edges = len(layout.operators), len(layout.edges)
    passed = table("passed", edges)
    received = np.array([flow.received(row) for row in passed]).reshape(-1, operators)
    busy = np.array([utilisation(one) for one in measurements]).reshape(-1, operators)
    figures = {
        "received_per_s": columns(layout.operators, received / durations),
        "processed_per_s": columns(layout.operators, table("processed", operators) / durations),
        "dropped_per_s": columns(layout.operators, table("dropped", operators) / durations),
        "queued": columns(layout.operators, table("queued", operators)),
        "state_keys": columns(layout.operators, table("state_keys", operators).astype(np.int64)),
        "state_bytes": columns(layout.operators, table("state_bytes", operators).astype(np.int64)),
        "utilisation": columns(layout.operators, busy),
        "replicas": columns(layout.operators, table("replicas", operators).astype(np.int64)),
    }
    rates = passed / durations
    return {
        "at_s": [one.ended_at_s for one in measurements],
        "duration_s": rounded(durations[:, 0]),
        "latency_s": [one.latency_s for one in measurements],
        "arrived_per_s": columns(layout.sources, table("arrived", len(layout.sources)) / durations),
        "operators": {name: {figure: found[name] for figure, found in figures.items()} for name in layout.operators},
        "edges": [
            {"start": start, "output": output, "end": end, "passed_per_s": rounded(rates[:, place])}
            for place, (start, output, end) in enumerate(layout.edges)
        ],
    }


def measurement_row(measurement: Measurement) -> dict[str, Any]:
    """Return one measurement with its figures in the order of the layout: short, for a stream."""
    duration_s = measurement.duration_s
    return {
        "at_s": measurement.ended_at_s,
        "duration_s": duration_s,
        "latency_s": measurement.latency_s,
        "arrived_per_s": rounded(measurement.arrived / duration_s),
        "passed_per_s": rounded(measurement.passed / duration_s),
        "processed_per_s": rounded(measurement.processed / duration_s),
        "dropped_per_s": rounded(measurement.dropped / duration_s),
        "queued": rounded(measurement.queued),
        "state_keys": measurement.state_keys.astype(np.int64).tolist(),
        "state_bytes": measurement.state_bytes.astype(np.int64).tolist(),
        "utilisation": rounded(utilisation(measurement)),
        "replicas": measurement.replicas.tolist(),
    }


def decision_entry(decision: StoredDecision, info: RunInfo) -> dict[str, Any]:
    """Return a decision in short: what it changed, and its notes."""
    action, plan = decision.action, decision.plan
    totals = {name: None if action is None else int(getattr(action, name).sum()) for name in _COUNTS}
    changes = []
    if action is not None:
        pairs = zip(info.layout.operators, action.observed.tolist(), action.planned.tolist(), strict=True)
        changes = [{"operator": name, "from": old, "to": new} for name, old, new in pairs if old != new]
    return {
        "id": decision.seq,
        "cycle": decision.cycle,
        "at_s": decision.at_s,
        "status": decision.status,
        "planner": None if plan is None else plan.planner,
        **totals,
        "changes": changes,
        "notes": [] if plan is None else list(plan.notes),
        "detail": "" if action is None else action.detail,
        "failure": None if decision.failure is None else str(decision.failure),
        "expected": [expected(forecast, info.td_s) for forecast in decision.forecasts.values()],
        "latency": None if (outlook := latency_outlook(plan)) is None else outlook.to_data(),
    }


_COUNTS = ("planned", "requested", "observed")


def decision_story(decision: StoredDecision, info: RunInfo) -> dict[str, Any]:
    """Return a decision with its reasons: for each operator the way from measurements through equations."""
    action = decision.action
    counts = {
        name: None if action is None else dict(zip(info.layout.operators, getattr(action, name).tolist(), strict=True))
        for name in _COUNTS
    }
    return {
        **decision_entry(decision, info),
        "replicas": counts,
        "explanations": [one.to_data() for one in recalled(decision).explain()],
    }


def expected(forecast: Forecast, td_s: float | None) -> dict[str, Any]:
    """Return what a forecast expects of the next interval: its mean rate, and the widest band it has."""
    span_s = td_s or forecast.step_s * forecast.mean.size
    levels = sorted(forecast.quantiles)
    outer = {"low": levels[0], "high": levels[-1]} if len(levels) > 1 else {}
    rates = {name: forecast.interval_events(span_s, 1, level)[0] / span_s for name, level in outer.items()}
    return {
        "source": forecast.series,
        "model": forecast.made_by,
        "from_s": forecast.made_at_s,
        "to_s": forecast.made_at_s + span_s,
        "mean_per_s": rounded(float(forecast.interval_events(span_s, 1)[0] / span_s)),
        **{f"{name}_per_s": rounded(float(rates[name])) if name in rates else None for name in ("low", "high")},
        "band": [outer["low"], outer["high"]] if outer else None,
        "fallback": forecast.fallback,
    }


def forecast_columns(info: RunInfo, forecasts: Iterable[Forecast]) -> dict[str, Any]:
    """Return forecasts by source, each with what it expects of the next interval."""
    by_source: dict[str, list[dict[str, Any]]] = {name: [] for name in info.layout.sources}
    for forecast in forecasts:
        by_source.setdefault(forecast.series, []).append(expected(forecast, info.td_s))
    return {
        source: {
            name: [entry[name] for entry in entries]
            for name in ("from_s", "to_s", "mean_per_s", "low_per_s", "high_per_s", "model")
        }
        for source, entries in by_source.items()
    }


def latency_columns(samples: Sequence[LatencySample], interval_s: float) -> dict[str, Any]:
    """Return percentiles of latency by interval of about `interval_s` seconds."""
    groups: list[tuple[list[LatencySample], float]] = []
    for sample in samples:
        if not groups or sample.ended_at_s > groups[-1][1] + 1e-6:
            groups.append(([], sample.ended_at_s - sample.duration_s + interval_s))
        groups[-1][0].append(sample)
    rows = [_latency(group) for group, _ in groups]
    return {name: [row[name] for row in rows] for name in ("at_s", "duration_s", "events", "mean_s", *LEVELS)}


def _latency(samples: Sequence[LatencySample]) -> dict[str, Any]:
    whole = LatencyHistogram()
    for sample in samples:
        whole.merge(sample.histogram)
    return {
        "at_s": samples[-1].ended_at_s,
        "duration_s": rounded(sum(sample.duration_s for sample in samples)),
        "events": whole.count,
        "mean_s": rounded(whole.mean_s) if whole.count else None,
        **{name: rounded(whole.quantile_s(level)) if whole.count else None for name, level in LEVELS.items()},
    }


def event_entry(event: Event) -> dict[str, Any]:
    """Return an event."""
    return {
        "at_s": event.at_s,
        "kind": event.kind,
        "severity": event.severity,
        "message": event.message,
        "data": event.data,
    }


def feature_entry(sample: FeatureSample) -> dict[str, Any]:
    """Return the features of a worker or machine at an instant."""
    values = {name: rounded(value) if math.isfinite(value) else None for name, value in sample.by_name().items()}
    return {
        "at_s": sample.at_s,
        "level": sample.level,
        "owner": sample.owner,
        "machine": sample.machine,
        "values": values,
    }


def feature_history(samples: Sequence[FeatureSample], name: str, points: int) -> dict[str, Any]:
    """Return one feature over time by worker or machine, each with at most `points` values, neighbours averaged."""
    found: dict[str, list[tuple[float, float]]] = {}
    for sample in samples:
        if name in sample.names:
            value = float(sample.values[sample.names.index(name)])
            found.setdefault(sample.owner, []).append((sample.at_s, value))
    return {owner: _averaged(values, points) for owner, values in found.items()}


def _averaged(values: Sequence[tuple[float, float]], points: int) -> dict[str, list[float | None]]:
    each = -(-len(values) // points)
    at_s: list[float | None] = []
    means: list[float | None] = []
    for first in range(0, len(values), each):
        part = np.array(values[first : first + each])
        known = part[np.isfinite(part[:, 1]), 1]
        at_s.append(float(part[-1, 0]))
        means.append(rounded(float(known.mean())) if known.size else None)
    return {"at_s": at_s, "values": means}


def run_score(run: RecordedRun, most: int) -> dict[str, Any]:
    """Return the metrics of SPEC P8 of a run so far, as its own report has them when it is over."""
    measurements, latencies = run.measurements(last=most), run.latencies()
    topology = topology_of(run.info)
    td_s = run.info.td_s or 30.0
    latency = LatencyHistogram()
    for sample in latencies:
        latency.merge(sample.histogram)
    replicas = [int(one.replicas.sum()) for one in measurements]
    body: dict[str, Any] = {
        "seconds": sum(one.duration_s for one in measurements),
        "events": sum(float(one.arrived.sum()) for one in measurements),
        "replicas_mean": None,
        "replicas_most": max(replicas, default=None),
        "pool": int(topology.maximum_replicas.sum()),
        "queued_most": max((float(one.queued.sum()) for one in measurements), default=None),
        "latency_p50_ms": 1e3 * latency.quantile_s(0.5),
    }
    try:
        decisions = [recalled(stored) for stored in run.decisions(last=most)]
        course = RunCourse.of(topology, while_it_ran(measurements))
        by = yardstick_of(course, td_s, _overestimated(run.info))
        # Where the beginning is not among what was read, nothing can be said about it.
        opening = opening_of(measurements, latencies, decisions) if len(measurements) < most else None
        score = score_run(course, estimates_of(decisions, td_s), latency, by, opening=opening)
        body |= {**asdict(score), "replicas_mean": score.r_over * (1.0 - score.saved)}
        body |= {name: run.info.outcome[name] for name in OPENING if run.info.outcome.get(name) is not None}
    except MetricsError:
        pass  # nothing has been measured yet
    kept = promise_kept(run, latencies)
    return {name: rounded(value) for name, value in body.items()} | {"slo": None if kept is None else kept.to_data()}


def _overestimated(info: RunInfo) -> float | None:
    """Return what savings of a run are measured against, where it recorded that; older records call it "pool"."""
    found = info.outcome.get("r_over") or info.settings.get("r_over") or info.settings.get("pool")
    return float(found) if found else None


def promise_kept(run: RecordedRun, latencies: Sequence[LatencySample]) -> PromiseScore | None:
    """Return how well the promise of the last decision was kept over so many latencies; None without a promise."""
    outlooks = [latency_outlook(decision.plan) for decision in run.decisions(last=1)]
    if not outlooks or outlooks[0] is None or outlooks[0].promise is None:
        return None
    found = ((sample.ended_at_s, sample.histogram) for sample in latencies if sample.histogram.count)
    return score_promise(outlooks[0].promise, found, run.info.td_s or 30.0)
