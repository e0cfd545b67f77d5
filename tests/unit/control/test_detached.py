"""What a controller in a process of its own reads of a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from stores import TOPOLOGY, measurement_at

from foretide.control.detached import StoredMetrics
from foretide.store import RunRecorder, RunSpec, RunStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore(tmp_path / "runs.db", threaded=False) as store:
        yield store


@pytest.fixture
def recorder(store: RunStore) -> Iterator[RunRecorder]:
    with store.begin_run(RunSpec(topology=TOPOLOGY)) as recorder:
        yield recorder


def collected(metrics: StoredMetrics) -> list[float]:
    return [one.ended_at_s for one in metrics.collect()]


def test_the_first_look_has_the_recent_past_and_later_ones_what_came_since(
    store: RunStore, recorder: RunRecorder
) -> None:
    metrics = StoredMetrics(store, recorder.id, history_s=3.0)
    recorder.measured([measurement_at(float(at)) for at in range(1, 9)])
    store.flush()
    assert collected(metrics) == [6.0, 7.0, 8.0]
    assert collected(metrics) == []
    recorder.measured([measurement_at(9.0)])
    store.flush()
    assert collected(metrics) == [9.0]


def test_a_clock_that_was_ahead_for_a_while_hides_nothing(store: RunStore, recorder: RunRecorder) -> None:
    metrics = StoredMetrics(store, recorder.id, history_s=60.0)
    recorder.measured([measurement_at(1.0)])
    store.flush()
    assert collected(metrics) == [1.0]
    recorder.measured([measurement_at(602.0)])
    store.flush()
    assert collected(metrics) == [602.0]
    recorder.measured([measurement_at(3.0), measurement_at(4.0)])
    store.flush()
    assert collected(metrics) == [3.0, 4.0]


def test_a_controller_that_starts_meanwhile_sees_what_comes_after(store: RunStore, recorder: RunRecorder) -> None:
    recorder.measured([measurement_at(1.0), measurement_at(602.0), measurement_at(3.0)])
    store.flush()
    metrics = StoredMetrics(store, recorder.id, history_s=60.0)
    assert collected(metrics)[:1] == [602.0]
    recorder.measured([measurement_at(4.0)])
    store.flush()
    assert collected(metrics)[-1] == 4.0
