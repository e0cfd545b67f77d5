"""How a run on Spark went, from its samples and decisions."""

from __future__ import annotations

from collections.abc import Sequence

from foretide.control import Decision
from foretide.control.course import RunCourse, while_it_ran
from foretide.control.score import RunScore, estimates_of, score_run, yardstick_of
from foretide.errors import MetricsError
from foretide.latency import LatencyHistogram, Opening
from foretide.plan.promise import Promise, PromiseScore, score_promise
from foretide.spark.steering.samples import Sample
from foretide.topology import Topology

__all__ = ["kept_promise", "score_samples"]


def score_samples(
    topology: Topology,
    samples: Sequence[Sample],
    decisions: Sequence[Decision],
    opening: Opening,
    *,
    td_s: float,
    r_over: float | None,
) -> RunScore | None:
    """Return the metrics of a run; None if it was too short. Savings are against `r_over`, or the most there were."""
    latency = LatencyHistogram()
    for sample in samples:
        latency.merge(sample.latency)
    course = RunCourse.of(topology, while_it_ran([sample.measurement for sample in samples]))
    by = yardstick_of(course, td_s, r_over)
    try:
        return score_run(course, estimates_of(decisions, td_s), latency, by, opening=opening)
    except MetricsError:
        return None


def kept_promise(promise: Promise | None, samples: Sequence[Sample], td_s: float) -> PromiseScore | None:
    """Return how well a promise was kept; None where nothing was promised."""
    if promise is None:
        return None
    latencies = ((sample.measurement.ended_at_s, sample.latency) for sample in samples if sample.latency.count)
    return score_promise(promise, latencies, td_s)
