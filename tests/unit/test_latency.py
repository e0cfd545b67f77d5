from __future__ import annotations

import numpy as np
import pytest

from foretide.latency import LatencyHistogram


def test_bins_carry_everything_that_was_counted() -> None:
    counted, again = LatencyHistogram(), LatencyHistogram()
    counted.add([0.0, 1e-4, 0.02, 3.0, 1e6], [1, 2, 3, 4, 5])
    places, counts, sum_s = counted.to_bins()
    assert counts.tolist() == [3, 3, 4, 5] and places[0] == 0
    again.add_bins(places, counts, sum_s)
    again.add_bins(places, counts, sum_s)
    assert again.count == 30 and again.mean_s == pytest.approx(counted.mean_s)
    for level in (0.1, 0.5, 0.9):
        assert again.quantile_s(level) == counted.quantile_s(level)


def test_no_bins_change_nothing() -> None:
    counted = LatencyHistogram()
    counted.add_bins(*LatencyHistogram().to_bins())
    assert counted.count == 0 and np.isnan(counted.mean_s)


def test_quantiles_lie_within_a_bin_where_its_events_do() -> None:
    counted = LatencyHistogram()
    counted.add(np.linspace(0.4, 0.6, 10_001), np.ones(10_001, dtype=int))
    for level in (0.1, 0.5, 0.9):
        assert counted.quantile_s(level) == pytest.approx(0.4 + 0.2 * level, rel=0.005)
