from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pytest

from foretide.latency import LatencyHistogram
from foretide.spark.tasks.statistics import BatchStatistics, EventTimes, OperatorStatistics

BIN = 1.05  # bins are 5 % wide


def histogram_of(values: np.ndarray) -> LatencyHistogram:
    histogram = LatencyHistogram()
    histogram.add(values, np.ones(values.size, dtype=np.int64))
    return histogram


def instants(*microseconds: int | None) -> pa.Array:
    return pa.array(microseconds, pa.int64()).cast(pa.timestamp("us", tz="UTC"))


class TestHistogram:
    @pytest.mark.parametrize("level", [0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0])
    @pytest.mark.parametrize("sigma", [0.1, 1.5])
    def test_quantiles_agree_with_numpy_within_a_bin(self, level: float, sigma: float) -> None:
        values = np.random.default_rng(5).lognormal(mean=-1.0, sigma=sigma, size=5000)
        exact = np.quantile(values, level, method="inverted_cdf")
        assert 1 / BIN < histogram_of(values).quantile_s(level) / exact < BIN

    def test_merging_is_the_same_as_counting_all_in_one(self) -> None:
        values = np.random.default_rng(6).exponential(scale=0.3, size=3000)
        parts = [histogram_of(part) for part in np.array_split(values, 7)]
        total = LatencyHistogram()
        for part in parts:
            total.merge(part)
        whole = histogram_of(values)
        assert total.count == whole.count == 3000
        assert total.mean_s == pytest.approx(values.mean())
        levels = np.linspace(0.0, 1.0, 21)
        assert [total.quantile_s(level) for level in levels] == [whole.quantile_s(level) for level in levels]

    def test_counts_weigh(self) -> None:
        histogram = LatencyHistogram()
        histogram.add([0.1, 1.0], [99, 1])
        assert histogram.quantile_s(0.99) == pytest.approx(0.1, rel=0.05)
        assert histogram.quantile_s(0.995) == pytest.approx(1.0, rel=0.05)
        assert histogram.mean_s == pytest.approx(0.109)

    def test_extremes_are_kept_in_the_outer_bins(self) -> None:
        histogram = LatencyHistogram()
        histogram.add([-5.0, 0.0, 1e9], [1, 1, 1])
        assert histogram.count == 3
        assert histogram.quantile_s(0.5) == pytest.approx(0.001, rel=0.05)
        assert histogram.quantile_s(1.0) > 86_400

    def test_an_empty_one_knows_nothing(self) -> None:
        histogram = LatencyHistogram()
        assert histogram.count == 0
        assert math.isnan(histogram.mean_s)
        assert math.isnan(histogram.quantile_s(0.5))


class TestEventTimes:
    def test_events_are_counted_in_bins_of_ten_milliseconds(self) -> None:
        times = EventTimes()
        times.add(instants(0, 9_999, 10_000, 25_000))
        times.add(instants(5, None))
        assert sorted(times.to_json()) == [[0, 3], [1, 1], [2, 1]]

    def test_instants_far_apart_are_counted_too(self) -> None:
        times = EventTimes()
        day_us = 86_400_000_000
        times.add(instants(0, day_us, day_us, 2 * day_us))
        assert sorted(times.to_json()) == [[0, 1], [8_640_000, 2], [17_280_000, 1]]

    @pytest.mark.parametrize("column", [instants(), instants(None, None)])
    def test_nothing_is_counted_where_there_is_nothing(self, column: pa.Array) -> None:
        times = EventTimes()
        times.add(column)
        assert times.to_json() == []

    def test_other_units_are_understood(self) -> None:
        times = EventTimes()
        times.add(pa.array([1_500], pa.timestamp("ms", tz="UTC")))
        times.add(pa.chunked_array([instants(1_500_000)]))
        assert times.to_json() == [[150, 2]]


def result(replica: int, rows: int, due_us: int, operator: str = "count") -> dict[str, object]:
    times = EventTimes()
    times.add(instants(*[due_us] * rows))
    reported = {
        "replica": replica,
        "operators": {operator: (rows, 2 * rows, 0.5, 1.5, 1, 0.125, 0.375)},
        "edges": {"0": rows},
        "event_times": times.to_json(),
    }
    found: dict[str, object] = json.loads(json.dumps(reported))
    return found


class TestBatch:
    def test_what_tasks_report_adds_up(self) -> None:
        batch = BatchStatistics("in", 3, 1, 2, {"in": 30}, started_at_s=100.0)
        batch.take([result(0, 10, 99_000_000), result(1, 20, 99_000_000), result(0, 5, 99_000_000)], 102.0)
        assert batch.duration_s == 2.0
        assert batch.operators["count", 0] == OperatorStatistics(15, 30, 1.0, 3.0, 2, 0.25, 0.75)
        assert batch.by_operator() == {"count": OperatorStatistics(35, 70, 1.5, 4.5, 3, 0.375, 1.125)}
        assert batch.edges == {0: 35}

    def test_latency_runs_from_the_instant_due_to_the_commit(self) -> None:
        batch = BatchStatistics("in", 0, 1, 1, {}, started_at_s=100.0)
        batch.take([result(0, 9, 99_000_000), result(0, 1, 92_000_000)], 102.0)
        assert batch.latency.count == 10
        assert batch.latency.quantile_s(0.5) == pytest.approx(3.0, rel=0.05)
        assert batch.latency.quantile_s(1.0) == pytest.approx(10.0, rel=0.05)


class TestWaiting:
    def test_events_have_waited_since_they_were_due(self) -> None:
        assert EventTimes().waited_s(instants(1_000_000, 2_500_000), now_s=4.0) == pytest.approx(3.0 + 1.5)

    def test_events_without_an_instant_or_in_the_future_do_not_wait(self) -> None:
        times = EventTimes()
        assert times.waited_s(instants(None, 1_000_000), now_s=3.0) == pytest.approx(2.0)
        assert times.waited_s(instants(9_000_000), now_s=3.0) == 0.0
        assert times.waited_s(instants(), now_s=3.0) == 0.0

    def test_instants_of_today_add_up_to_a_microsecond(self) -> None:
        now_us = 1_800_000_000_000_000
        column = instants(*range(now_us - 100_000, now_us))
        assert EventTimes().waited_s(column, now_us / 1e6) == pytest.approx(100_000 * 50_000.5e-6, rel=1e-4)

    def test_a_slice_of_a_column_is_another_column(self) -> None:
        times, column = EventTimes(), instants(1_000_000, 2_000_000)
        waited = [times.waited_s(part, now_s=3.0) for part in (column, column.slice(0, 1), column.slice(1), column)]
        assert waited == pytest.approx([3.0, 2.0, 1.0, 3.0])

    def test_other_units_are_understood(self) -> None:
        column = pa.array([1_000], pa.timestamp("ms", tz="UTC"))
        assert EventTimes().waited_s(column, now_s=3.0) == pytest.approx(2.0)
