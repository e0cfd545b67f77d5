"""Several rows of one minute as one: what was counted adds up, what was seen is the last, the rest is a mean."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from foretide.errors import ForetideError
from foretide.latency import LatencyHistogram
from foretide.records import Layout, Measurement, mean_cpu
from foretide.store.databases.codec import pack, unpack
from foretide.store.databases.database import Row
from foretide.store.rows import TableRow, latency_of, latency_row, measurement_of_row, measurement_row
from foretide.store.samples import LatencySample

__all__ = ["RESOLUTION_S", "joined", "merge_features", "merge_latencies", "merge_measurements", "minute_of"]

#: Seconds that a row stands for once it is merged.
RESOLUTION_S = 60.0
# Stretches less than this far apart count as consecutive.
_GAP_S = 1e-3
_SUMS = ("arrived", "passed", "processed", "busy_s", "failed", "dropped")


def merge_measurements(run_id: str, layout: Layout, rows: Sequence[Row]) -> list[TableRow]:
    """Return one row for each minute and each unbroken stretch in it."""
    groups: list[list[tuple[int, Measurement]]] = []
    for row in rows:
        try:
            measurement = measurement_of_row(row, layout)
        except ForetideError:
            continue  # it can never be read; the others of its minute can
        if groups and _follows(groups[-1][-1][1], measurement):
            groups[-1].append((row[1], measurement))
        else:
            groups.append([(row[1], measurement)])
    return [
        measurement_row(run_id, max(seq for seq, _ in group), layout, joined([one for _, one in group]), RESOLUTION_S)
        for group in groups
    ]


def joined(measurements: Sequence[Measurement]) -> Measurement:
    """Return stretches that follow one another as one long one.

    Amounts and busy times add up; queues, replicas and states are those of the end; the CPU of each replica is its
    mean, and latency the mean by events that the last operators finished, or by time if there were none.
    """
    last = measurements[-1]
    sums = {name: np.sum([getattr(one, name) for one in measurements], axis=0) for name in _SUMS}
    return replace(
        last,
        duration_s=sum(one.duration_s for one in measurements),
        **sums,
        latency_s=_latency(measurements),
        batches=(),
        slot_s=None if last.slot_s is None else sum(one.held_s for one in measurements),
        cpu=mean_cpu([(one.cpu, one.duration_s) for one in measurements if one.cpu is not None]),
    )


def _latency(measurements: Iterable[Measurement]) -> float | None:
    known = [one for one in measurements if one.latency_s is not None]
    if not known:
        return None
    weights = np.array([one.processed[-1:].sum() for one in known])
    if not weights.sum():
        weights = np.array([one.duration_s for one in known])
    return float(np.average([float(one.latency_s or 0.0) for one in known], weights=weights))


def _follows(before: Measurement, after: Measurement) -> bool:
    began_s = after.ended_at_s - after.duration_s
    return abs(began_s - before.ended_at_s) < _GAP_S and minute_of(before.ended_at_s) == minute_of(after.ended_at_s)


def merge_features(run_id: str, layout: Layout, rows: Sequence[Row]) -> list[TableRow]:
    """Return the mean of each worker's and machine's features over each minute."""

    def key(row: Row) -> tuple[Any, ...]:
        return (minute_of(row[2]), *row[4:8])

    merged: list[TableRow] = []
    for (_, level, owner, machine, set_id), group in groupby(sorted(rows, key=key), key):
        found = list(group)
        with warnings.catch_warnings():
            # A feature that was never known stays unknown.
            warnings.simplefilter("ignore", RuntimeWarning)
            mean = np.nanmean([unpack(row[8]) for row in found], axis=0)
        seq, at_s = max((row[1], row[2]) for row in found)
        merged.append(("features", (run_id, seq, at_s, RESOLUTION_S, level, owner, machine, set_id, pack(mean))))
    return merged


def merge_latencies(run_id: str, layout: Layout, rows: Sequence[Row]) -> list[TableRow]:
    """Return the latencies of each minute in one histogram."""
    merged: list[TableRow] = []
    for _, group in groupby(rows, lambda row: minute_of(row[2])):
        found = list(group)
        histogram, samples = LatencyHistogram(), [latency_of(row) for row in found]
        for sample in samples:
            histogram.merge(sample.histogram)
        whole = LatencySample(samples[-1].ended_at_s, sum(sample.duration_s for sample in samples), histogram)
        merged.append(latency_row(run_id, max(row[1] for row in found), whole, RESOLUTION_S))
    return merged


def minute_of(instant_s: float) -> int:
    """Return the minute in which an instant is; its last one belongs to it."""
    return math.ceil(instant_s / RESOLUTION_S)
