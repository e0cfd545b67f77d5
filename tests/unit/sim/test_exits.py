from __future__ import annotations

import numpy as np
import pytest

from foretide.latency import LatencyHistogram
from foretide.sim.stations.exits import Exit


def leaving(latencies_s: np.ndarray) -> np.ndarray:
    return np.array([1000.0 + latencies_s, np.full(latencies_s.size, 1000.0)])


def test_bins_are_those_of_the_histogram() -> None:
    rng = np.random.default_rng(11)
    latencies_s = np.concatenate([10.0 ** rng.uniform(-4.5, 5.5, 50_000), [0.0, 0.001, 1e9]])
    way_out = Exit(0.0)
    way_out.leave(leaving(latencies_s))
    expected = LatencyHistogram()
    # What is subtracted again has lost its last bits.
    expected.add((1000.0 + latencies_s) - 1000.0, np.ones(latencies_s.size, dtype=np.int64))
    found = way_out.latency
    assert found.count == expected.count == latencies_s.size
    assert found.mean_s == pytest.approx(expected.mean_s)
    for level in np.linspace(0.0, 1.0, 201):
        assert found.quantile_s(float(level)) == expected.quantile_s(float(level))


def test_the_base_is_added_to_each() -> None:
    way_out = Exit(0.153)
    way_out.leave(leaving(np.array([0.0, 0.1])))
    assert way_out.latency.mean_s == pytest.approx(0.203)


def test_what_was_taken_is_counted_but_once() -> None:
    way_out = Exit(0.0)
    way_out.leave(leaving(np.full(3, 0.5)))
    assert way_out.take_latency().count == 3
    way_out.leave(leaving(np.full(2, 1.5)))
    assert way_out.latency.count == 5
    recent = way_out.take_latency()
    assert (recent.count, recent.mean_s) == (2, pytest.approx(1.5))
    assert way_out.take_latency().count == 0
    assert way_out.latency.mean_s == pytest.approx(0.9)


def test_copies_count_as_latencies_but_not_as_events() -> None:
    way_out = Exit(0.0)
    way_out.leave(np.array([[3.0, 4.0], [2.0, -2.0]]))
    assert way_out.events == 1
    assert way_out.latency.mean_s == pytest.approx(1.5)
