"""Records to rows and back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeAlias

import numpy as np

from foretide.errors import ForetideError
from foretide.events import Event
from foretide.latency import LatencyHistogram
from foretide.records import CpuUse, Floats, Forecast, Layout, Measurement
from foretide.records.measured import OPTIONAL_AMOUNTS
from foretide.store.databases.codec import ArrayPack, ArrayShelf, from_json, pack, to_json, unpack
from foretide.store.databases.database import Row
from foretide.store.databases.schema import COLUMNS
from foretide.store.errors import StoreError
from foretide.store.samples import FeatureSample, LatencySample, RunInfo

__all__ = [
    "TableRow",
    "event_of",
    "event_row",
    "feature_rows",
    "feature_sample_of",
    "forecast_of",
    "forecast_row",
    "latency_of",
    "latency_row",
    "measurement_of_row",
    "measurement_row",
    "run_info_of",
    "run_row",
]

#: A table's name, and a row of it.
TableRow: TypeAlias = tuple[str, tuple[Any, ...]]

_RUN_DOCUMENTS = ("topology", "layout", "settings", "outcome", "dropped")
_COLUMNS = ("arrived", "passed", "processed", "queued", "busy_s", "replicas")


def measurement_row(
    run_id: str, seq: int, layout: Layout, measurement: Measurement, resolution_s: float = 0.0
) -> TableRow:
    """Return a measurement as a row: all its columns, one behind the other, in one array."""
    if measurement.layout is not layout and measurement.layout != layout:
        raise StoreError(
            f"run {run_id}, {measurement.id}: expected the layout of the run's topology, got operators "
            f"{list(measurement.layout.operators[:5])}; record each topology as a run of its own"
        )
    # The optional ones come last, each only if it tells something or the next one is there.
    present = [place for place, name in enumerate(OPTIONAL_AMOUNTS, 1) if getattr(measurement, name).any()]
    names = (*_COLUMNS, *OPTIONAL_AMOUNTS[: max(present, default=0)])
    amounts = pack(np.concatenate([getattr(measurement, name) for name in names]))
    cpu = measurement.cpu
    used = None if cpu is None else pack(np.concatenate([cpu.operator, cpu.core, cpu.used, cpu.reserved]))
    instant = (measurement.ended_at_s, measurement.duration_s, resolution_s, measurement.latency_s)
    return "measurements", (run_id, seq, *instant, amounts, used)


def measurement_of_row(row: Row, layout: Layout) -> Measurement:
    """Return the measurement of a row."""
    _, _, ended_at_s, duration_s, _, latency_s, amounts, cpu = row
    operators = len(layout.operators)
    sizes = [len(layout.sources), len(layout.edges), *(operators,) * 4]
    values, total = unpack(amounts), sum(sizes)
    fitting = [total + operators * more for more in range(len(OPTIONAL_AMOUNTS) + 1)]
    if values.size not in fitting:
        expected = " or ".join(map(str, fitting))
        raise ForetideError(f"stored measurement: expected {expected} amounts, got {values.size}")
    columns = np.split(values, np.cumsum([*sizes, *(operators,) * (len(OPTIONAL_AMOUNTS) - 1)]))
    return Measurement(
        layout=layout,
        ended_at_s=ended_at_s,
        duration_s=duration_s,
        latency_s=latency_s,
        cpu=None if cpu is None else _cpu_of(unpack(cpu)),
        **dict(zip((*_COLUMNS, *OPTIONAL_AMOUNTS), columns, strict=True)),  # type: ignore[arg-type]
    )


def _cpu_of(values: Floats) -> CpuUse:
    operator, core, used, reserved = values.reshape(4, -1)
    return CpuUse(operator.astype(np.int64), core.astype(np.int64), used, reserved)


def forecast_row(run_id: str, seq: int, forecast: Forecast) -> TableRow:
    """Return a forecast as a row, with its quantiles."""
    arrays = ArrayPack()
    document = {
        "mean": arrays.add(forecast.mean),
        "quantiles": [[level, arrays.add(values)] for level, values in forecast.quantiles.items()],
        "mean_quantiles": [[level, value] for level, value in forecast.mean_quantiles.items()],
        "weights": forecast.weights,
        "cost_ms": forecast.cost_ms,
        "fallback": forecast.fallback,
        "came_from": forecast.came_from,
    }
    head = (run_id, seq, forecast.series, forecast.model, forecast.made_at_s, forecast.step_s)
    return "forecasts", (*head, to_json(document), arrays.to_bytes())


def forecast_of(row: Row) -> Forecast:
    """Return the forecast of a row."""
    _, _, series, model, made_at_s, step_s, text, blob = row
    document, arrays = from_json(text), ArrayShelf(blob)
    return Forecast(
        series=series,
        model=model,
        made_at_s=made_at_s,
        step_s=step_s,
        mean=arrays.get(document["mean"]),
        quantiles={level: arrays.get(place) for level, place in document["quantiles"]},
        mean_quantiles={level: value for level, value in document["mean_quantiles"]},
        weights=document["weights"],
        cost_ms=document["cost_ms"],
        fallback=document["fallback"],
        came_from=tuple(document["came_from"]),
    )


def event_row(run_id: str, seq: int, event: Event) -> TableRow:
    """Return an event as a row."""
    values = (event.at_s, event.kind, event.severity, event.message, to_json(event.data))
    return "events", (run_id, seq, *values)


def event_of(row: Row) -> Event:
    """Return the event of a row."""
    _, _, at_s, kind, severity, message, data = row
    return Event(at_s, kind, message, severity, from_json(data))


def feature_rows(run_id: str, seq: int, sample: FeatureSample, resolution_s: float = 0.0) -> list[TableRow]:
    """Return a sample as a row of values, and its names as one that all samples with these names share."""
    names = to_json(sample.names)
    set_id = hashlib.sha256(names.encode()).hexdigest()[:12]
    owner = (sample.level, sample.owner, sample.machine)
    values = (run_id, seq, sample.at_s, resolution_s, *owner, set_id, pack(sample.values))
    return [("feature_sets", (run_id, set_id, names)), ("features", values)]


def feature_sample_of(row: Row, names: Mapping[str, tuple[str, ...]]) -> FeatureSample:
    """Return the sample of a row, given the sets of names."""
    _, _, at_s, _, level, owner, machine, set_id, amounts = row
    return FeatureSample(at_s, level, owner, machine, names[set_id], unpack(amounts))


def latency_row(run_id: str, seq: int, sample: LatencySample, resolution_s: float = 0.0) -> TableRow:
    """Return latencies as a row: the bins that hold something, and what they hold."""
    places, counts, sum_s = sample.histogram.to_bins()
    stretch = (sample.ended_at_s, sample.duration_s, resolution_s)
    return "latencies", (run_id, seq, *stretch, int(counts.sum()), sum_s, pack(np.concatenate([places, counts])))


def latency_of(row: Row) -> LatencySample:
    """Return the latencies of a row."""
    _, _, ended_at_s, duration_s, _, _, sum_s, bins = row
    places, counts = unpack(bins).reshape(2, -1).astype(np.int64)
    histogram = LatencyHistogram()
    histogram.add_bins(places, counts, sum_s)
    return LatencySample(ended_at_s, duration_s, histogram)


def run_row(info: RunInfo) -> tuple[Any, ...]:
    """Return a run as a row."""
    values = vars(info) | {"topology": info.topology_document, "layout": asdict(info.layout)}
    return tuple(to_json(values[name]) if name in _RUN_DOCUMENTS else values[name] for name in COLUMNS["runs"])


def run_info_of(row: Row) -> RunInfo:
    """Return the run of a row."""
    values = dict(zip(COLUMNS["runs"], row, strict=True))
    values |= {name: from_json(values[name]) for name in _RUN_DOCUMENTS}
    layout = values.pop("layout")
    names = Layout(tuple(layout["sources"]), tuple(layout["operators"]), tuple(tuple(edge) for edge in layout["edges"]))
    return RunInfo(topology_document=values.pop("topology"), layout=names, **values)
