from __future__ import annotations

import json
import math

import pytest

from foretide.errors import ConfigError
from foretide.experiments.reproduce import to_report
from foretide.experiments.reproduce.contract import Check, Comparison, Experiment, Metric, Printed, Result, Scope, Trial
from foretide.experiments.reproduce.orderings import ascending, below, each_seed, lowest, within
from foretide.experiments.reproduce.published import (
    ERROR_INPUT,
    LATENCY,
    PASPS,
    PRESPS_TABLE_3,
    PROCESSED,
    PSPS_BY_TD,
    SAVED,
)
from foretide.experiments.reproduce.trials import compare_run, with_spoilt

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
        (PART, 0.4751, 0.475, "0.475", "+0%"),
        (PART, 0.003, 0.0, "0.003", "+0.003"),
        (MS, 1234.5, 1000.0, "1,234", "+23%"),
        (MS, 12.34, None, "12.3", "–"),
        (MS, 3.0, 0.0, "3", "–"),
        (MS, 41711.0, 269.75, "41,711", "× 155"),
        (MS, 1e-6, None, "0", "–"),
        (PART, 0.9999, 1.0, "1.000", "+0%"),
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
    printed = Printed(0.4, "a table", contradiction="another")
    trials = (Trial("earlier", 0.41), Trial("later", math.nan))
    result = Result((Comparison("x", PART, (math.nan, 0.5), printed, trials),), (Check("c", 1, 2, "d"),), ())
    experiment = Experiment("x", "a table", "PASPS", 1.0, lambda scope: (), lambda scope, runs: result)
    data = json.loads(to_report(experiment, result, Scope(2)).numbers())
    assert data["comparisons"] == [
        {
            "subject": "x",
            "metric": "part",
            "ours": 0.5,
            "values": [None, 0.5],
            "paper": 0.4,
            "where": "a table",
            "no_evidence": "",
            "contradiction": "another",
            "verdict": "explained",
            "cause": "the paper contradicts itself: another",
            "trials": [
                {"assumption": "earlier", "value": 0.41, "within": True, "spoils": []},
                {"assumption": "later", "value": None, "within": False, "spoils": []},
            ],
        }
    ]
    assert data["tally"] == {"within 10 %": 0, "explained": 1, "unexplained": 0, "no evidence": 0}
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
        Comparison("near", PART, (0.5,), Printed(0.515, "a table")),
        Comparison("just not", PART, (0.5,), Printed(0.5154, "a table")),
        Comparison("far", PART, (0.5,), Printed(0.6, "a table")),
        Comparison("new", PART, (1,)),
    ]
    check = within("", rows, 0.015)
    assert (check.held, check.of, check.detail) == (1, 3, "largest deviation 0.1000 (far)")


def test_p10_the_tables_agree_with_the_percentages_in_the_papers_text() -> None:
    two, four, three = (
        {row: {metric: cell.value for metric, cell in cells.items()} for row, cells in table.items()}
        for table in (PASPS[2], PASPS[4], PRESPS_TABLE_3)
    )
    assert 1 - two["ANN"][LATENCY] / two["RF"][LATENCY] == pytest.approx(0.3912, abs=1e-4)
    assert 1 - two["ANN"][SAVED] / two["Basic"][SAVED] == pytest.approx(0.1517, abs=1e-4)
    assert 1 - two["LR"][ERROR_INPUT] / two["ANN"][ERROR_INPUT] == pytest.approx(0.5754, abs=1e-4)
    assert four["DABS"][LATENCY] / four["PA-SPS"][LATENCY] - 1 == pytest.approx(2.9136, abs=1e-4)
    assert four["PSPS"][LATENCY] / four["PA-SPS"][LATENCY] - 1 == pytest.approx(4.9042, abs=1e-4)
    assert 1 - four["DABS"][SAVED] / four["PA-SPS"][SAVED] == pytest.approx(0.1663, abs=1e-4)
    presps, dabs = three["PRESPS"], three["DABS"]
    assert presps[SAVED] / dabs[SAVED] - 1 == pytest.approx(0.4177, abs=1e-4)
    assert 1 - dabs[PROCESSED] / presps[PROCESSED] == pytest.approx(0.1706, abs=1e-4)
    assert 1 - dabs[LATENCY] / presps[LATENCY] == pytest.approx(0.3371, abs=1e-4)


def test_p10_tables_of_forecasters_have_five_rows_and_six_metrics() -> None:
    for table in (2, 6, 7, 8):
        assert list(PASPS[table]) == ["ANN", "FFT", "LR", "RF", "Basic"]
        assert all(len(row) == 6 for row in PASPS[table].values())
    assert list(PSPS_BY_TD) == [30, 60, 120, 180]


def test_what_is_printed_in_two_documents_is_counted_in_one() -> None:
    for row, other in (("PRESPS", "PSPS"), ("DABS", "DABS")):
        for metric, cell in PRESPS_TABLE_3[row].items():
            assert cell.value == pytest.approx(PASPS[4][other][metric].value, abs=1e-3)
            assert cell.no_evidence
    assert all(cell.no_evidence for cell in PSPS_BY_TD[30].values())
    assert not any(cell.no_evidence for td in (60, 120, 180) for cell in PSPS_BY_TD[td].values())


def test_the_study_of_td_is_credited_to_the_thesis() -> None:
    assert {cell.where.split(",")[0] for row in PSPS_BY_TD.values() for cell in row.values()} == {"Wladdimiro2024"}


def test_a_printed_number_says_where_it_is_printed() -> None:
    with pytest.raises(ConfigError, match="where"):
        Printed(0.5, "")


LATE = Printed(100.0, "a table")


@pytest.mark.parametrize(
    ("ours", "printed", "trials", "verdict", "cause"),
    [
        (109.0, LATE, (), "within 10 %", ""),
        (112.0, LATE, (), "unexplained", "nothing tried brings it nearer"),
        (112.0, LATE, (Trial("worse", 120.0), Trial("late", 111.0)), "unexplained", "nearest: late: 111 (+11%)"),
        (112.0, LATE, (Trial("without effect", 112.0),), "unexplained", "nothing tried brings it nearer"),
        (112.0, LATE, (Trial("far", 108.0), Trial("near", 99.0)), "explained", "near: 99 (-1%)"),
        (
            112.0,
            LATE,
            (Trial("near", 99.0, ("saved",)),),
            "unexplained",
            "nearest: near: 99 (-1%), but it moves saved away from print",
        ),
        (112.0, Printed(100.0, "t", contradiction="page 2"), (), "explained", "the paper contradicts itself: page 2"),
        (101.0, Printed(100.0, "t", contradiction="page 2"), (), "within 10 %", ""),
        (100.0, Printed(100.0, "t", no_evidence="calibrated"), (), "no evidence", "calibrated"),
        (500.0, Printed(100.0, "t", no_evidence="calibrated"), (), "no evidence", "calibrated"),
        (math.nan, LATE, (), "unexplained", "nothing tried brings it nearer"),
        (1.0, None, (), "not printed", ""),
    ],
)
def test_a_deviation_is_explained_by_an_experiment_or_a_contradiction_in_that_number_alone(
    ours: float, printed: Printed | None, trials: tuple[Trial, ...], verdict: str, cause: str
) -> None:
    each = Comparison("x", MS, (ours,), printed, trials)
    assert (each.verdict, each.cause) == (verdict, cause)


def rows(tried: dict[str, dict[str, tuple[float, float]]], **cell: str) -> tuple[Comparison, ...]:
    """Return a page of two rows: .6 for a printed .5, and 200 ms for a printed 100, with experiments by row."""
    printed = {PART: Printed(0.5, "t", **cell), MS: Printed(100.0, "t")}
    found: list[Comparison] = []
    for name, values in tried.items():
        runs = {title: {"part": part, "ms": ms} for title, (part, ms) in values.items()}
        found += compare_run(name, {PART: (0.6,), MS: (200.0,)}, printed, runs, {})
    return with_spoilt(found)


@pytest.mark.parametrize(
    ("part", "verdict"), [(0.9, "unexplained"), (0.62, "unexplained"), (0.604, "explained"), (0.5, "explained")]
)
def test_an_assumption_that_moves_another_number_of_the_row_away_from_print_is_no_cause(
    part: float, verdict: str
) -> None:
    # .6 is off already: a number need not have been within 10 % to be a witness. A hundredth of print is no move.
    _, ms = rows({"x": {"later": (part, 101.0)}})
    assert (ms.verdict, [trial.spoils for trial in ms.trials]) == (verdict, [("part",) if part > 0.61 else ()])


def test_an_assumption_that_moves_another_number_of_the_column_away_from_print_is_no_cause() -> None:
    _, near, _, far = rows({"x": {"later": (0.6, 101.0)}, "y": {"later": (0.6, 300.0)}})
    assert (near.verdict, near.trials[0].spoils) == ("unexplained", ("time (ms) of y",))
    assert far.trials[0].spoils == ()
    # What was tried of one row alone has no other row to answer for.
    _, near, _, _ = rows({"x": {"later": (0.6, 101.0)}, "y": {"sooner": (0.6, 300.0)}})
    assert near.verdict == "explained"


def test_a_number_that_is_no_evidence_is_no_witness_either() -> None:
    _, ms = rows({"x": {"later": (0.9, 101.0)}}, no_evidence="calibrated")
    assert ms.verdict == "explained"


def test_another_definition_answers_for_its_column_and_another_run_for_its_row_as_well() -> None:
    printed = {LATENCY: Printed(100.0, "t"), SAVED: Printed(0.5, "t")}
    read = {"read so": {"latency_mean_ms": 300.0, "latency_over_time_ms": 100.0, "saved": 0.9}}
    values = {LATENCY: (200.0,), SAVED: (0.5,)}
    one = compare_run("x", values, printed, read, {"latency_over_time_ms": 95.0}, ("read so",))
    two = compare_run("y", values, printed, {}, {"latency_over_time_ms": 900.0})
    [latency, _] = with_spoilt(one)
    title = "averaged over seconds, not over events"
    assert {trial.assumption: trial.spoils for trial in latency.trials} == {
        "read so": ("saved resources",),
        title: (),
        f"read so, {title}": ("saved resources",),
    }
    [latency, _, _, _] = with_spoilt([*one, *two])
    assert {trial.assumption: trial.spoils for trial in latency.trials}[title] == ("latency, mean (ms) of y",)


def test_another_definition_is_an_experiment_on_its_metric_alone() -> None:
    printed = {LATENCY: Printed(100.0, "t"), SAVED: Printed(0.5, "t")}
    values = {LATENCY: (200.0,), SAVED: (0.9,)}
    latency, saved = compare_run("x", values, printed, {}, {"latency_over_time_ms": 95.0})
    assert (latency.verdict, latency.cause) == ("explained", "averaged over seconds, not over events: 95 (-5%)")
    assert saved.verdict == "unexplained"


def test_another_reading_is_tried_with_other_definitions_too() -> None:
    tried = {"read so": {"latency_mean_ms": 130.0, "latency_over_time_ms": 105.0}, "slower": {"latency_mean_ms": 300.0}}
    [latency] = compare_run("x", {LATENCY: (200.0,)}, {LATENCY: Printed(100.0, "t")}, tried, {}, ("read so",))
    assert latency.cause == "read so, averaged over seconds, not over events: 105 (+5%)"
