"""Metrics for Prometheus: what the service does, and what live runs do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import lru_cache

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from foretide.latency import LatencyHistogram
from foretide.plan.promise import LatencyOutlook, latency_outlook
from foretide.records import Measurement
from foretide.service.views import promise_kept
from foretide.store import RecordedRun, RunStore, StoreError

__all__ = ["RunCollector", "ServiceMetrics"]

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0)
_LEVELS = (0.5, 0.95, 0.99)
# A scrape reports the latencies of the last minute: single batches would be too noisy.
_RECENT_S = 60.0


class ServiceMetrics:
    """Counts what the service does.

    Parameters
    ----------
    store : RunStore
        The runs.
    now : callable
        Gives Unix time.
    """

    def __init__(self, store: RunStore, now: Callable[[], float] = time.time) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "foretide_http_requests", "Requests answered.", ["method", "path", "status"], registry=self._registry
        )
        self._duration = Histogram(
            "foretide_http_request_seconds",
            "From request to the first byte of its answer.",
            ["path"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._forecasts = Histogram(
            "foretide_forecast_seconds",
            "What forecasts took to compute.",
            ["model"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._registry.register(RunCollector(store, now))
        # Looking a metric up by its labels takes longer than counting.
        self._of = lru_cache(1024)(self._labelled)
        self._of_model = lru_cache(256)(lambda model: self._forecasts.labels(model))

    def answered(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count an answer."""
        counter, duration = self._of(method if method in _METHODS else "other", path, status)
        counter.inc()
        duration.observe(seconds)

    def _labelled(self, method: str, path: str, status: int) -> tuple[Counter, Histogram]:
        return self._requests.labels(method, path, str(status)), self._duration.labels(path)

    def forecast(self, model: str, seconds: float) -> None:
        """Count a forecast."""
        self._of_model(model).observe(seconds)

    def to_text(self) -> bytes:
        """Return all metrics as Prometheus reads them."""
        return generate_latest(self._registry)


class RunCollector(Collector):
    """Reads the runs that are alive at the moment of a scrape.

    Parameters
    ----------
    store : RunStore
        The runs.
    now : callable
        Gives Unix time.
    """

    def __init__(self, store: RunStore, now: Callable[[], float] = time.time) -> None:
        self._store, self._now = store, now

    def describe(self) -> list[GaugeMetricFamily]:
        """Describe no metrics in advance: that would read the store."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield what the last measurement, the last decision and the latencies of the last minute say."""
        families = _Families()
        up = GaugeMetricFamily("foretide_store_up", "Whether the store of runs can be read.")
        try:
            for info in self._store.runs():
                if info.is_alive(self._now()):
                    families.add(self._store.run(info.id))
            up.add_metric([], 1.0)
        except StoreError:
            up.add_metric([], 0.0)
        yield up
        yield from families.all()


class _Families:
    """The gauges of runs, filled one run after another."""

    def __init__(self) -> None:
        run, operator = ["run", "topology"], ["run", "topology", "operator"]
        self.input = GaugeMetricFamily(
            "foretide_input_events_per_second", "Events that arrive at a source.", labels=[*run, "source"]
        )
        self.forecast = GaugeMetricFamily(
            "foretide_forecast_events_per_second",
            "Rate that the last forecast expects, its mean over the horizon.",
            labels=[*run, "source"],
        )
        self.processed = GaugeMetricFamily(
            "foretide_processed_events_per_second", "Events that an operator finishes.", labels=operator
        )
        self.dropped = GaugeMetricFamily(
            "foretide_dropped_events_per_second",
            "Events that waited for an operator and were dropped, by a bound or for their age.",
            labels=operator,
        )
        self.state_keys = GaugeMetricFamily(
            "foretide_state_keys", "Keys that an operator keeps a state of.", labels=operator
        )
        self.state_bytes = GaugeMetricFamily(
            "foretide_state_bytes", "Bytes that the state of an operator takes.", labels=operator
        )
        self.queued = GaugeMetricFamily("foretide_queued_events", "Events that wait for an operator.", labels=operator)
        self.utilisation = GaugeMetricFamily(
            "foretide_utilisation_ratio", "Part of their time that the replicas are busy.", labels=operator
        )
        self.replicas = GaugeMetricFamily(
            "foretide_replicas", "Replicas: planned, requested, observed.", labels=[*operator, "kind"]
        )
        self.latency = GaugeMetricFamily(
            "foretide_latency_seconds", "Latency of the events of the last minute.", labels=[*run, "quantile"]
        )
        self.expected_latency = GaugeMetricFamily(
            "foretide_expected_latency_seconds", "Latency that the last plan expects.", labels=[*run, "quantile"]
        )
        self.promised = GaugeMetricFamily(
            "foretide_promised_latency_seconds", "Latency that is promised.", labels=[*run, "quantile"]
        )
        self.kept = GaugeMetricFamily(
            "foretide_promise_kept_ratio", "Part of the intervals that kept the promise so far.", labels=run
        )
        self.cycle = GaugeMetricFamily("foretide_last_cycle", "The number of the last decision.", labels=run)

    def all(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges."""
        yield from vars(self).values()

    def add(self, run: RecordedRun) -> None:
        """Add what is known of a run."""
        names = [run.id, run.info.name]
        for measurement in run.measurements(last=1):
            self._measured(names, measurement)
            self._latency(names, run, measurement.ended_at_s)
        for decision in run.decisions(last=1):
            self.cycle.add_metric(names, decision.cycle)
            self._promise(names, run, latency_outlook(decision.plan))
            for source, forecast in decision.forecasts.items():
                self.forecast.add_metric([*names, source], float(forecast.mean.mean()))
            action = decision.action
            for kind in ("planned", "requested") if action is not None else ():
                for operator, count in zip(run.info.layout.operators, getattr(action, kind).tolist(), strict=True):
                    self.replicas.add_metric([*names, operator, kind], count)

    def _measured(self, names: list[str], measurement: Measurement) -> None:
        layout, duration_s = measurement.layout, measurement.duration_s
        for source, arrived in zip(layout.sources, measurement.arrived.tolist(), strict=True):
            self.input.add_metric([*names, source], arrived / duration_s)
        for column, operator in enumerate(layout.operators):
            labels = [*names, operator]
            replicas = int(measurement.replicas[column])
            busy = float(measurement.busy_s[column]) / max(replicas * duration_s, 1e-9)
            self.processed.add_metric(labels, float(measurement.processed[column]) / duration_s)
            self.dropped.add_metric(labels, float(measurement.dropped[column]) / duration_s)
            self.queued.add_metric(labels, float(measurement.queued[column]))
            self.state_keys.add_metric(labels, float(measurement.state_keys[column]))
            self.state_bytes.add_metric(labels, float(measurement.state_bytes[column]))
            self.utilisation.add_metric(labels, min(busy, 1.0))
            self.replicas.add_metric([*labels, "observed"], replicas)

    def _promise(self, names: list[str], run: RecordedRun, outlook: LatencyOutlook | None) -> None:
        if outlook is None:
            return
        for level, value_s in (("0.5", outlook.p50_s), ("0.95", outlook.p95_s)):
            self.expected_latency.add_metric([*names, level], value_s)
        if outlook.promise is not None:
            self.promised.add_metric([*names, f"{outlook.promise.quantile:g}"], outlook.promise.target_s)
            kept = promise_kept(run, run.latencies())
            if kept is not None and kept.intervals:
                self.kept.add_metric(names, kept.kept / kept.intervals)

    def _latency(self, names: list[str], run: RecordedRun, ended_at_s: float) -> None:
        histogram: LatencyHistogram = run.latency(ended_at_s - _RECENT_S)
        for level in _LEVELS if histogram.count else ():
            self.latency.add_metric([*names, f"{level:g}"], histogram.quantile_s(level))
