from __future__ import annotations

import json
import math

import pytest

from foretide.errors import ConfigError
from foretide.experiments.reproduce import to_report
from foretide.experiments.reproduce.contract import Check, Comparison, Experiment, Metric, Result, Scope
from foretide.experiments.reproduce.orderings import ascending, below, each_seed, lowest, within
from foretide.experiments.reproduce.published import (
    CONTRADICTIONS,
    ERROR_INPUT,
    LATENCY,
    PASPS,
    PRESPS_TABLE_3,
    PROCESSED,
    PSPS_BY_TD,
    SAVED,
)

PART, MS = Metric("part", "part", "part"), Metric("ms", "time (ms)", "ms")


def test_a_scope_names_its_seeds_and_refuses_nonsense() -> None:
    assert Scope(3).numbers == (1, 2, 3)
    assert Scope().whole
    assert not Scope(first_s=100.0).whole
    with pytest.raises(ConfigError, match="--seeds"):
        Scope(0)
    with pytest.raises(ConfigError, match="--first"):
        Scope(first_s=5.0)


@pytest.mark.parametrize(
    ("metric", "ours", "paper", "shown", "deviation"),
    [
        (PART, 0.4751, 0.475, "0.475", "+0.000"),
        (MS, 1234.5, 1000.0, "1,234", "+23%"),
        (MS, 12.34, None, "12.3", "–"),
        (MS, 3.0, 0.0, "3", "–"),
        (MS, 41711.0, 269.75, "41,711", "× 155"),
        (MS, 1e-6, None, "0", "–"),
        (PART, 0.9999, 1.0, "1.000", "+0.000"),
        (PART, math.nan, 0.5, "–", "–"),
    ],
)
def test_numbers_are_written_and_compared_by_their_unit(
    metric: Metric, ours: float, paper: float | None, shown: str, deviation: str
) -> None:
    assert (metric.shown(ours), metric.deviation(ours, paper)) == (shown, deviation)


def test_ours_is_the_mean_over_seeds_and_nan_does_not_count() -> None:
    assert Comparison("x", PART, (0.2, 0.4, math.nan)).ours == pytest.approx(0.3)
    assert math.isnan(Comparison("x", PART, (math.nan,)).ours)
    assert Comparison("x", PART, (0.2, 0.4)).spread == pytest.approx(0.1)


def test_results_are_plain_data_without_nan() -> None:
    result = Result((Comparison("x", PART, (math.nan, 0.5), 0.4, "why"),), (Check("c", 1, 2, "d"),), ())
    experiment = Experiment("x", "a table", "PASPS", 1.0, lambda scope: (), lambda scope, runs: result)
    data = json.loads(to_report(experiment, result, Scope(2)).numbers())
    assert data["comparisons"] == [
        {"subject": "x", "metric": "part", "ours": 0.5, "values": [None, 0.5], "paper": 0.4, "remark": "why"}
    ]
    assert data["checks"] == [{"claim": "c", "holds": False, "held": 1, "of": 2, "detail": "d"}]


def test_orderings_are_counted_seed_by_seed() -> None:
    values = {"a": [1.0, 5.0], "b": [2.0, 4.0], "c": [3.0, 6.0]}
    assert lowest("", values, ["a"], PART).held == 1
    assert lowest("", values, ["a", "b"], PART).held == 2
    assert below("", values, "b", "c", PART).holds
    assert below("", values, "b", "c", PART, factor=0.5).held == 0
    assert ascending("", values, PART).held == 1
    assert each_seed("", 3, lambda n: n > 0).held == 2


def test_a_bound_is_checked_for_each_comparison_that_the_paper_has() -> None:
    rows = [
        Comparison("near", PART, (0.5,), 0.515),
        Comparison("just not", PART, (0.5,), 0.5154),
        Comparison("far", PART, (0.5,), 0.6),
        Comparison("new", PART, (1,)),
    ]
    check = within("", rows, 0.015)
    assert (check.held, check.of, check.detail) == (1, 3, "largest deviation 0.1000 (far)")


def test_p10_the_tables_agree_with_the_percentages_in_the_papers_text() -> None:
    two, four = PASPS[2], PASPS[4]
    assert 1 - two["ANN"][LATENCY] / two["RF"][LATENCY] == pytest.approx(0.3912, abs=1e-4)
    assert 1 - two["ANN"][SAVED] / two["Basic"][SAVED] == pytest.approx(0.1517, abs=1e-4)
    assert 1 - two["LR"][ERROR_INPUT] / two["ANN"][ERROR_INPUT] == pytest.approx(0.5754, abs=1e-4)
    assert four["DABS"][LATENCY] / four["PA-SPS"][LATENCY] - 1 == pytest.approx(2.9136, abs=1e-4)
    assert four["PSPS"][LATENCY] / four["PA-SPS"][LATENCY] - 1 == pytest.approx(4.9042, abs=1e-4)
    assert 1 - four["DABS"][SAVED] / four["PA-SPS"][SAVED] == pytest.approx(0.1663, abs=1e-4)
    presps, dabs = PRESPS_TABLE_3["PRESPS"], PRESPS_TABLE_3["DABS"]
    assert presps[SAVED] / dabs[SAVED] - 1 == pytest.approx(0.4177, abs=1e-4)
    assert 1 - dabs[PROCESSED] / presps[PROCESSED] == pytest.approx(0.1706, abs=1e-4)
    assert 1 - dabs[LATENCY] / presps[LATENCY] == pytest.approx(0.3371, abs=1e-4)


def test_p10_tables_of_forecasters_have_five_rows_and_six_metrics() -> None:
    for table in (2, 6, 7, 8):
        assert list(PASPS[table]) == ["ANN", "FFT", "LR", "RF", "Basic"]
        assert all(len(row) == 6 for row in PASPS[table].values())
    assert list(PSPS_BY_TD) == [30, 60, 120, 180]


def test_contradictions_name_rows_and_metrics_that_are_printed() -> None:
    for table, row, metric in CONTRADICTIONS:
        rows = PASPS[table].values() if row is None else [PASPS[table][row]]
        assert all(metric in each for each in rows)
