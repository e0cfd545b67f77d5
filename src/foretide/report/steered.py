"""A steered run on Spark as the record that a report is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from foretide.control.score import leaving_events
from foretide.latency import LatencyHistogram
from foretide.records import Floats
from foretide.report.record import Figure, RunRecord
from foretide.report.simulated import decision_mark, expected_input
from foretide.spark.steering.monitor import Sample
from foretide.spark.steering.steered_run import SteeredRun

__all__ = ["steered_record"]

# Latency is shown over stretches of so many samples: single batches would make a fence of the line.
_STRETCH = 5


def steered_record(run: SteeredRun, trace: str) -> RunRecord:
    """Return the record of a steered run, its time counted from the first sample."""
    samples = run.samples
    began_s = samples[0].measurement.ended_at_s - samples[0].measurement.duration_s if samples else 0.0
    durations = np.array([sample.measurement.duration_s for sample in samples])
    processed = np.array([sample.measurement.processed for sample in samples]).reshape(len(samples), -1)
    at_s, latencies = _latencies(samples, began_s)
    decisions = [replace(decision, at_s=decision.at_s - began_s) for decision in run.decisions]
    return RunRecord(
        title=f"{run.report.topology} on {run.report.master}",
        facts=_facts(run, trace),
        figures=_figures(run),
        operators=run.topology.layout.operators,
        at_s=np.array([sample.measurement.ended_at_s for sample in samples]) - began_s,
        input_per_s=np.array([sample.measurement.arrived.sum() for sample in samples]) / durations,
        throughput_per_s=leaving_events(run.topology, processed) / durations,
        replicas=np.array([sample.measurement.replicas for sample in samples]),
        queued=np.array([sample.measurement.queued for sample in samples]),
        latency_at_s=at_s,
        latency_ms=latencies,
        expected=expected_input(decisions, run.td_s),
        decisions=tuple(decision_mark(decision) for decision in decisions),
        notes=_notes(run),
    )


def _latencies(samples: Sequence[Sample], began_s: float) -> tuple[Floats, dict[str, Floats]]:
    at_s: list[float] = []
    found: dict[str, list[float]] = {"mean": [], "p50": [], "p95": [], "p99": []}
    for first in range(0, len(samples), _STRETCH):
        stretch = samples[first : first + _STRETCH]
        histogram = LatencyHistogram()
        for sample in stretch:
            histogram.merge(sample.latency)
        at_s.append(stretch[-1].measurement.ended_at_s - began_s)
        found["mean"].append(1000 * histogram.mean_s)
        for name, level in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            found[name].append(1000 * histogram.quantile_s(level))
    return np.array(at_s), {name: np.array(values) for name, values in found.items()}


def _notes(run: SteeredRun) -> tuple[str, ...]:
    """Return what failed, with the final counts, and the latest warnings about anything else."""
    warnings = [event for event in run.events if event.severity != "info" and event.kind != "operator.failed"]
    return (*(str(failure) for failure in run.report.failures), *(f"{e.kind}: {e.message}" for e in warnings[-10:]))


def _facts(run: SteeredRun, trace: str) -> dict[str, str]:
    facts = {"policy": run.policy, "forecaster": run.forecaster, "td": f"{run.td_s:g} s", "trace": trace}
    facts |= {"events": f"{run.report.arrived:,}", "batches": f"{run.report.batches:,}", "ended": run.report.ending}
    if run.report.dead_letters:
        facts["failed"] = f"{run.report.dead_letters:,} events"
    return {name: value for name, value in facts.items() if value}


def _figures(run: SteeredRun) -> tuple[Figure, ...]:
    score = run.score
    if score is None:
        return ()
    figures = [
        Figure("saved resources", _number(score.saved, ".3f"), "1 − r/r_over, r_over being what the peak needs"),
        Figure("slot-seconds", _number(score.slot_seconds, ",.0f"), "replicas of all operators × seconds"),
        Figure("latency, mean", _number(score.latency_mean_ms, ",.0f") + " ms", "from due to committed"),
        Figure("latency, p95", _number(score.latency_p95_ms, ",.0f") + " ms", "19 of 20 events were faster"),
        Figure("latency, p99", _number(score.latency_p99_ms, ",.0f") + " ms", "99 of 100 events were faster"),
        Figure("processed", _number(score.processed, ".4f"), "through ÷ come, when the last event had come"),
        Figure("degradation", _number(score.degradation, ".3f"), "throughput: mean of |in − out|/in"),
        Figure("error of input", _number(score.error_input, ".3f"), "MAPE of the input expected per interval"),
        Figure("error of replicas", _number(score.error_replica, ".3f"), "MAPE against the replicas needed"),
        Figure("changes", f"{score.changes:,}", "times that an operator got another number of replicas"),
    ]
    if run.audit is not None:
        words = f"of {run.audit.expected:,} events, by their ids in the sink"
        figures += [
            Figure("lost", f"{run.audit.lost:,}", words),
            Figure("duplicated", f"{run.audit.duplicated:,}", words),
        ]
    return tuple(figures)


def _number(value: float, shape: str) -> str:
    return "–" if math.isnan(value) else format(value, shape)
