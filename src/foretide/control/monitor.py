"""From single measurements to the window that planners and forecasters look at."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from foretide.control.rate_history import RateHistory
from foretide.control.settings import LoopSettings
from foretide.errors import MetricsError, NotReadyError
from foretide.plan.load import measured_execution_s, measured_shares
from foretide.records import Floats, Measurement, Window, mean_cpu
from foretide.topology import Topology

__all__ = ["Monitor"]

# Two instants closer than this are the same: measurements carry rounding of clocks and durations.
_SAME_INSTANT_S = 1e-6


class Monitor:
    """Keeps the measurements of the last interval and a history of rates.

    Parameters
    ----------
    topology : Topology
        What is being measured.
    settings : LoopSettings
        Interval, sample time, length of the history, staleness.
    """

    def __init__(self, topology: Topology, settings: LoopSettings) -> None:
        self._topology, self._settings = topology, settings
        self._recent: deque[Measurement] = deque()
        self._sources = len(topology.sources)
        self._rates = RateHistory(self._sources + len(topology.operators), settings.history, settings.sample_s)
        self._share = topology.declared_share
        self._execution_s = topology.declared_execution_s
        self._settling_until_s = -np.inf
        self._last_end_s: float | None = None
        #: Measurements that came too late, twice or while a change settled, and were not used.
        self.ignored = 0

    def add(self, measurements: Iterable[Measurement]) -> None:
        """Take measurements, oldest first.

        Raises
        ------
        MetricsError
            When one does not fit the topology; all that do are taken nevertheless.
        """
        misfit: Measurement | None = None
        for measurement in measurements:
            if measurement.layout is self._topology.layout or measurement.layout == self._topology.layout:
                self._take(measurement)
            else:
                misfit = misfit or measurement
        if misfit is not None:
            raise MetricsError(
                f"{misfit.id}: expected the layout of topology {self._topology.name!r}, got operators "
                f"{list(misfit.layout.operators[:5])}; point the metric source at this topology"
            )

    def prime(self, measurements: Iterable[Measurement]) -> None:
        """Take measurements of an earlier run, oldest first, as history only: nothing is planned from them alone."""
        self.add(measurements)
        self._recent.clear()

    def learnt(self) -> dict[str, Any]:
        """Return what was measured of operators and edges, as plain data; None where nothing was."""
        layout = self._topology.layout
        return {
            "execution_s": dict(zip(layout.operators, self._execution_s.tolist(), strict=True)),
            "share": [[*edge, share] for edge, share in zip(layout.edges, self._share.tolist(), strict=True)],
        }

    def resume(self, learnt: Mapping[str, Any]) -> None:
        """Begin with what `learnt` returned in an earlier run, until something is measured.

        An execution time that is declared holds: it may be new.

        Raises
        ------
        MetricsError
            When it is not about these operators and edges, or not numbers.
        """
        layout = self._topology.layout
        try:
            seconds = np.array([learnt["execution_s"][operator] for operator in layout.operators], dtype=np.float64)
            by_edge = {tuple(edge): share for *edge, share in learnt["share"]}
            share = np.array([by_edge[edge] for edge in layout.edges], dtype=np.float64)
        except (KeyError, TypeError, ValueError) as error:
            raise MetricsError(f"expected times of all operators and shares of all edges, got {error!r}") from error
        if (seconds < 0).any() or (share < 0).any():
            raise MetricsError("expected times and shares of at least 0, got less")
        self._execution_s = np.where(np.isnan(self._execution_s), seconds, self._execution_s)
        self._share = np.where(np.isfinite(share), share, self._share)

    def settle(self, until_s: float) -> None:
        """Ignore measurements of the time before `until_s`, since a change is settling (SPEC D3)."""
        self._settling_until_s = until_s
        if until_s > -np.inf:
            self._recent.clear()

    def window(self, now_s: float, *, first: bool = False) -> Window:
        """Return the interval that ended with the last measurement, and the history up to it.

        For the `first` plan one sample is enough, whatever part of an interval is asked for otherwise.

        Raises
        ------
        NotReadyError
            When too little of an interval was measured yet.
        MetricsError
            When the last measurement is older than `stale_after_s`.
        """
        settings = self._settings
        if self._last_end_s is None:
            raise NotReadyError("no measurement has come yet")
        age_s = now_s - self._last_end_s
        if age_s > settings.stale_after_s:
            raise MetricsError(
                f"measurements are stale: expected one within {settings.stale_after_s:g} s, the last is "
                f"{age_s:g} s old; check that the metric source still runs"
            )
        covered_s = sum(measurement.duration_s for measurement in self._recent)
        # A sample is cut by the rhythm of a thread: half of it is there in any case.
        least_s = min(settings.coverage * settings.td_s, settings.sample_s / 2 if first else np.inf)
        if not self._recent or covered_s < least_s - _SAME_INSTANT_S:
            settling = "; a change is settling" if now_s < self._settling_until_s + settings.td_s else ""
            raise NotReadyError(f"{covered_s:g} s of an interval of {settings.td_s:g} s measured so far{settling}")
        return self._aggregate(covered_s)

    def _take(self, measurement: Measurement) -> None:
        began_s = measurement.ended_at_s - measurement.duration_s
        if self._last_end_s is not None:
            if measurement.ended_at_s < self._last_end_s - self._settings.td_s:
                self._start_over()
            elif self._is_known(measurement):
                self.ignored += 1
                return
            elif began_s > self._last_end_s + _SAME_INSTANT_S:
                self._rates.add(None, began_s - self._last_end_s)
        self._last_end_s = measurement.ended_at_s
        self._forget_before(measurement.ended_at_s - self._settings.td_s)
        if began_s < self._settling_until_s - _SAME_INSTANT_S:
            self.ignored += 1
            self._rates.add(None, measurement.duration_s)
            return
        self._rates.add(self._rates_of(measurement), measurement.duration_s)
        self._recent.append(measurement)

    def _is_known(self, measurement: Measurement) -> bool:
        """Return whether most of the measured stretch was covered already: it came twice, or too late."""
        assert self._last_end_s is not None
        new_s = measurement.ended_at_s - self._last_end_s
        return new_s <= max(_SAME_INSTANT_S, measurement.duration_s / 2)

    def _forget_before(self, horizon_s: float) -> None:
        while self._recent and self._recent[0].ended_at_s <= horizon_s + _SAME_INSTANT_S:
            self._recent.popleft()

    def _start_over(self) -> None:
        """Forget the history: the clock of the measurements has jumped back."""
        self._recent.clear()
        self._rates.clear()
        self._settling_until_s = -np.inf

    def _rates_of(self, measurement: Measurement) -> Floats:
        received = self._topology.flow.received(measurement.passed)
        rates: Floats = np.concatenate((measurement.arrived, received)) / measurement.duration_s
        return rates

    def _aggregate(self, covered_s: float) -> Window:
        recent, settings = self._recent, self._settings
        scale = settings.td_s / covered_s
        processed, passed = _total(recent, "processed"), _total(recent, "passed")
        busy_s = _total(recent, "busy_s")
        self._learn(processed, _total(recent, "failed"), passed, busy_s)
        rates = self._rates.latest()
        last = recent[-1]
        return Window(
            layout=self._topology.layout,
            ended_at_s=last.ended_at_s,
            duration_s=settings.td_s,
            sample_s=settings.sample_s,
            samples=self._rates.count,
            arrival_rates=rates[:, : self._sources],
            received_rates=rates[:, self._sources :],
            arrived=_total(recent, "arrived") * scale,
            received=self._topology.flow.received(passed) * scale,
            processed=processed * scale,
            queued=last.queued,
            share=self._share,
            execution_s=self._execution_s,
            utilisation=_utilisation(recent, busy_s),
            replicas=last.replicas,
            cpu=mean_cpu([(each.cpu, each.duration_s) for each in recent if each.cpu is not None]),
            measurement_ids=tuple(measurement.id for measurement in recent),
            batches=tuple(batch for measurement in recent for batch in measurement.batches),
        )

    def _learn(self, processed: Floats, failed: Floats, passed: Floats, busy_s: Floats) -> None:
        """Bring shares and execution times up to date where something was taken; elsewhere the last ones stay."""
        self._share = measured_shares(self._topology.flow, passed, processed + failed, self._share)
        self._execution_s = measured_execution_s(busy_s, processed, failed, self._execution_s)


def _total(measurements: Iterable[Measurement], name: str) -> Floats:
    """Return the sum of a column over measurements, without a table of all of them."""
    columns = (getattr(measurement, name) for measurement in measurements)
    total: Floats = next(columns).copy()
    for column in columns:
        total += column
    return total


def _utilisation(measurements: Iterable[Measurement], busy_s: Floats) -> Floats:
    replica_s = np.zeros_like(busy_s)
    for measurement in measurements:
        replica_s += measurement.replicas * measurement.duration_s
    # Busy for longer than there was time means that clocks disagree a little, not that a replica did more than all.
    busy_s = np.minimum(busy_s, replica_s)
    return np.divide(busy_s, replica_s, out=np.zeros_like(busy_s), where=replica_s > 0)
