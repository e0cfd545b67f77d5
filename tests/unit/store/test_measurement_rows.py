"""Measurements as rows of the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from foretide.records import Measurement
from foretide.store.merging import joined
from foretide.store.rows import measurement_of_row, measurement_row


def back(measurement: Measurement) -> tuple[int, Measurement]:
    """Return the size of a measurement as a row, and what comes back of it."""
    _, row = measurement_row("run", 1, measurement.layout, measurement)
    return len(row[6]), measurement_of_row(row, measurement.layout)


def test_events_that_failed_come_back_and_cost_nothing_where_there_are_none(
    measured: Callable[..., Measurement],
) -> None:
    good = measured(1.0)
    small, found = back(good)
    assert found.failed.tolist() == [0.0, 0.0] and found.processed.tolist() == good.processed.tolist()
    larger, found = back(replace(good, failed=np.array([0.0, 7.0])))
    assert found.failed.tolist() == [0.0, 7.0] and found.replicas.tolist() == [1, 1]
    assert small < larger
    largest, found = back(replace(good, dropped=np.array([5.0, 0.0])))
    assert (found.failed.tolist(), found.dropped.tolist()) == ([0.0, 0.0], [5.0, 0.0])
    assert larger < largest
    _, found = back(replace(good, state_bytes=np.array([0.0, 1e9])))
    assert (found.dropped.tolist(), found.state_keys.tolist(), found.state_bytes.tolist()) == (
        [0.0, 0.0],
        [0.0, 0.0],
        [0.0, 1e9],
    )


def test_they_add_up_where_stretches_are_joined(measured: Callable[..., Measurement]) -> None:
    parts = [
        replace(measured(end_s), failed=np.array([end_s, 0.0]), dropped=np.array([0.0, end_s])) for end_s in (1.0, 2.0)
    ]
    assert (joined(parts).failed.tolist(), joined(parts).dropped.tolist()) == ([3.0, 0.0], [0.0, 3.0])


def test_of_states_the_last_size_counts(measured: Callable[..., Measurement]) -> None:
    parts = [replace(measured(end_s), state_keys=np.array([end_s, 0.0])) for end_s in (1.0, 2.0)]
    assert joined(parts).state_keys.tolist() == [2.0, 0.0]
