"""Between the control loop and the store of runs: recording, explaining, and replaying what was recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from foretide.control.decision import Decision, Failure, Stage
from foretide.control.ports import MetricSource
from foretide.errors import ForetideError
from foretide.plan.load import measured_execution_s
from foretide.records import Measurement
from foretide.store import Arrivals, RunRecorder, StoredDecision
from foretide.topology import Topology
from foretide.traces import RateTrace

__all__ = ["RecordedMetrics", "measured_topology", "recalled", "recorded_trace", "recorded_traces"]

_STAGES: tuple[Stage, ...] = ("monitor", "forecast", "plan", "act")


class RecordedMetrics:
    """A metric source whose measurements go to the store as well.

    Parameters
    ----------
    source : MetricSource
        The source.
    recorder : RunRecorder
        Who records.
    """

    def __init__(self, source: MetricSource, recorder: RunRecorder) -> None:
        self._source, self._recorder = source, recorder

    def collect(self) -> Sequence[Measurement]:
        """Return what the source has, and record it."""
        measurements = self._source.collect()
        self._recorder.measured(measurements)
        return measurements


def recalled(stored: StoredDecision) -> Decision:
    """Return a decision from the store as the loop made it, so that it can explain itself."""
    failure = stored.failure
    stage: Stage = next((name for name in _STAGES if failure is not None and name == failure.stage), "act")
    return Decision(
        cycle=stored.cycle,
        at_s=stored.at_s,
        window=stored.window,
        forecasts=stored.forecasts,
        plan=stored.plan,
        action=stored.action,
        failure=None if failure is None else Failure(stage, ForetideError(failure.message), failure.ready),
    )


def recorded_trace(arrivals: Arrivals, source: str | None = None) -> RateTrace:
    """Return what arrived at a source, or at all sources together, as a trace that can be replayed."""
    return RateTrace(arrivals.name, arrivals.bin_s, arrivals.of(source))


def recorded_traces(arrivals: Arrivals) -> dict[str, RateTrace]:
    """Return what arrived at each source as traces that can be replayed side by side."""
    return {source: recorded_trace(arrivals, source) for source in arrivals.rates}


def measured_topology(topology: Topology, measurements: Iterable[Measurement]) -> Topology:
    """Return the topology with the execution times that were measured, busy time ÷ events, where they were."""
    operators = topology.layout.operators
    busy_s, processed = np.zeros(len(operators)), np.zeros(len(operators))
    for measurement in measurements:
        busy_s += np.nan_to_num(measurement.busy_s)
        processed += np.nan_to_num(measurement.processed)
    seconds = measured_execution_s(busy_s, processed, np.zeros(len(operators)), np.full(len(operators), np.nan))
    return topology.with_execution_times(
        {operator: time_s for operator, time_s in zip(operators, seconds.tolist(), strict=True) if time_s > 0}
    )
