from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from foretide import metrics
from foretide.errors import ConfigError
from foretide.latency import LatencyHistogram


def test_p8_saved_resources() -> None:
    # (1 - 8/32) = .75, (1 - 16/32) = .5, (1 - 24/32) = .25
    assert metrics.saved_resources([8, 16, 24], overestimated=32) == pytest.approx(0.5)
    assert metrics.saved_resources([48], overestimated=32) == pytest.approx(-0.5), "more than the overestimate ran"


@pytest.mark.parametrize("overestimated", [0, -1, math.nan])
def test_p8_saved_resources_needs_an_overestimate(overestimated: float) -> None:
    with pytest.raises(ConfigError, match="overestimated"):
        metrics.saved_resources([1], overestimated)


def test_p8_throughput_degradation() -> None:
    # |100 - 90|/100 = .1 and |200 - 260|/200 = .3; the interval without input has none.
    assert metrics.throughput_degradation([100, 200, 0], [90, 260, 50]) == pytest.approx(0.2)
    assert math.isnan(metrics.throughput_degradation([0, 0], [0, 5]))


def test_p8_processed_over_received() -> None:
    assert metrics.processed_ratio([100, 300], [80, 280]) == pytest.approx(0.9)
    assert metrics.processed_ratio([0], [0]) == 1.0


def test_p8_error_of_forecast_and_replicas() -> None:
    # |100 - 120|/100 = .2 and |50 - 45|/50 = .1; an actual 0 has no percentage.
    assert metrics.mean_absolute_percentage_error([100, 0, 50], [120, 7, 45]) == pytest.approx(0.15)
    assert math.isnan(metrics.mean_absolute_percentage_error([0], [1]))


def latencies(values_s: npt.ArrayLike, counts: npt.ArrayLike) -> LatencyHistogram:
    histogram = LatencyHistogram()
    histogram.add(values_s, counts)
    return histogram


def test_p8_latency_mean_and_percentiles() -> None:
    # 100 events: 90 at 1 s, 8 at 2 s, 2 at 10 s; the 95th is at 2 s, the 99th at 10 s, each within half a bin.
    found = latencies([10.0, 1.0, 2.0], [2, 90, 8])
    assert found.mean_s == pytest.approx((90 + 16 + 20) / 100)
    assert [found.quantile_s(level) for level in (0.95, 0.99)] == pytest.approx([2.0, 10.0], rel=0.025)


def test_p8_latency_percentile_at_the_very_share() -> None:
    # Exactly 95 of 100 at 1 s: the smallest latency that 95 % do not exceed is 1 s.
    assert latencies([1.0, 5.0], [95, 5]).quantile_s(0.95) == pytest.approx(1.0, rel=0.025)
    assert latencies(np.arange(1.0, 21.0), np.full(20, 3)).quantile_s(0.95) == pytest.approx(19.0, rel=0.025)
    hundred = latencies(np.arange(1.0, 101.0), np.ones(100))
    assert hundred.mean_s == pytest.approx(50.5)
    assert [hundred.quantile_s(level) for level in (0.95, 0.99)] == pytest.approx([95.0, 99.0], rel=0.025)


def test_latency_of_an_interval_without_events_does_not_count() -> None:
    assert latencies([1.0, 2.0, 3.0], [1, 0, 1]).mean_s == 2.0
    none = LatencyHistogram()
    assert math.isnan(none.mean_s) and math.isnan(none.quantile_s(0.95)) and math.isnan(none.quantile_s(0.99))


def test_changes_are_counted_by_operator() -> None:
    assert metrics.replica_changes([[1, 2], [1, 3], [2, 2]]) == 3
    assert metrics.replica_changes([1, 1, 2]) == 1
    assert metrics.replica_changes([[5, 5]]) == 0


@pytest.mark.parametrize(
    ("call", "setting"),
    [
        (lambda: metrics.saved_resources([], 4), "replicas"),
        (lambda: metrics.throughput_degradation([1, 2], [1]), "sent"),
        (lambda: metrics.processed_ratio([1], [1, 2]), "processed"),
    ],
)
def test_series_that_do_not_fit_are_refused(call: Any, setting: str) -> None:
    with pytest.raises(ConfigError) as caught:
        call()
    assert caught.value.setting == setting


def test_the_pareto_front_keeps_equals_and_drops_what_is_beaten() -> None:
    points = [[1.0, 2.0], [1.0, 2.0], [2.0, 1.0], [2.0, 2.0], [0.5, np.nan]]
    assert metrics.pareto_front(points).tolist() == [True, True, True, False, True]
    with pytest.raises(ConfigError, match="points"):
        metrics.pareto_front([1.0, 2.0])


@pytest.mark.parametrize(
    ("points", "area"),
    [
        ([], 0.0),
        ([[1.0, 1.0]], 9.0),
        ([[1.0, 3.0], [2.0, 1.0]], 3.0 + 2.0 * 2.0),
        ([[2.0, 1.0], [1.0, 3.0], [3.0, 2.0], [2.0, 1.0]], 7.0),  # one is beaten, one comes twice
        ([[1.0, 2.0], [1.0, 3.0]], 6.0),  # the same in one column
        ([[4.0, 1.0], [1.0, 5.0]], 0.0),  # on the edge, and outside
        ([[math.nan, 1.0], [1.0, math.nan]], 0.0),
    ],
)
def test_hypervolume_in_two_columns(points: list[list[float]], area: float) -> None:
    assert metrics.hypervolume(points, (4.0, 4.0)) == pytest.approx(area)
