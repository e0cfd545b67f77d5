"""The metrics of SPEC P8 over runs whose every number is set by hand."""

from __future__ import annotations

import numpy as np
import pytest
from topologies import line, step

from foretide.control import Decision
from foretide.control.score import leaving_events, score_run
from foretide.errors import MetricsError
from foretide.latency import LatencyHistogram
from foretide.records import Action, Forecast, Measurement, Window
from foretide.topology import flow

TD_S = 10.0


LINE = line(step("a", execution_s=0.1), step("b", execution_s=0.05), replicas=(1, 9))


def measured(ended_at_s: float, arrived: float, processed: float, replicas: tuple[int, int]) -> Measurement:
    return Measurement(
        layout=LINE.layout,
        ended_at_s=ended_at_s,
        duration_s=10.0,
        arrived=np.array([arrived]),
        passed=np.array([arrived, processed]),
        processed=np.array([processed, processed]),
        queued=np.zeros(2),
        busy_s=np.zeros(2),
        replicas=np.array(replicas),
    )


def decided(at_s: float, expected_rate: float, requested: tuple[int, int], queued: float = 0.0) -> Decision:
    window = Window(
        layout=LINE.layout,
        ended_at_s=at_s,
        duration_s=TD_S,
        sample_s=1.0,
        arrival_rates=np.zeros((1, 1)),
        received_rates=np.zeros((1, 2)),
        arrived=np.zeros(1),
        received=np.zeros(2),
        processed=np.zeros(2),
        queued=np.array([queued, 0.0]),
        share=np.ones(2),
        execution_s=np.array([0.1, 0.05]),
        utilisation=np.zeros(2),
        replicas=np.array([1, 1]),
    )
    forecast = Forecast(series="in", model="basic", made_at_s=at_s, step_s=1.0, mean=np.full(10, expected_rate))
    counts = np.array(requested)
    action = Action(plan_id="p", at_s=at_s, status="applied", planned=counts, requested=counts, observed=counts)
    return Decision(cycle=1, at_s=at_s, window=window, forecasts={"in": forecast}, action=action)


MEASURED = (
    measured(10.0, 100, 80, (1, 1)),
    measured(20.0, 200, 150, (2, 1)),
    measured(30.0, 0, 70, (3, 1)),
)


def latency() -> LatencyHistogram:
    found = LatencyHistogram()
    found.add([0.1, 1.0], [95, 5])
    return found


def test_p8_saved_resources_and_slot_seconds_go_by_time() -> None:
    score = score_run(LINE, MEASURED, (), latency(), overestimated=5, td_s=TD_S)
    # 2, 3 and 4 replicas for 10 s each.
    assert score.slot_seconds == 90.0
    assert score.saved == pytest.approx(1 - 3 / 5)
    assert score.changes == 2


def test_p8_degradation_and_processed_while_something_came() -> None:
    score = score_run(LINE, MEASURED, (), latency(), overestimated=5, td_s=TD_S)
    # |100 − 80|/100 and |200 − 150|/200; in the last interval nothing came.
    assert score.degradation == pytest.approx((0.2 + 0.25) / 2)
    assert score.processed == pytest.approx(230 / 300)


def test_p8_error_of_the_input_is_that_of_the_interval_after_the_decision() -> None:
    decisions = (decided(10.0, 25.0, (1, 1)), decided(20.0, 3.0, (1, 1)), decided(30.0, 9.0, (1, 1)))
    score = score_run(LINE, MEASURED, decisions, latency(), overestimated=5, td_s=TD_S)
    # 250 were expected and 200 came; an interval without events has no percentage; the last was not seen.
    assert score.error_input == pytest.approx(0.25)


def test_p8_error_of_replicas_is_against_what_the_input_needed() -> None:
    # 200 events need 200·0.1/10 = 2 and 200·0.05/10 = 1 replicas; with 50 that wait, 3 and 2.
    exact = score_run(LINE, MEASURED, (decided(10.0, 0.0, (2, 1)),), latency(), overestimated=5, td_s=TD_S)
    waiting = score_run(LINE, MEASURED, (decided(10.0, 0.0, (2, 1), 50.0),), latency(), overestimated=5, td_s=TD_S)
    assert exact.error_replica == 0.0
    assert waiting.error_replica == pytest.approx(2 / 5)


def test_latencies_are_in_milliseconds() -> None:
    score = score_run(LINE, MEASURED, (), latency(), overestimated=5, td_s=TD_S)
    assert score.latency_mean_ms == pytest.approx(145.0)
    assert score.latency_p95_ms == pytest.approx(100.0, rel=0.03)
    assert score.latency_p99_ms == pytest.approx(1000.0, rel=0.03)
    assert np.isnan(score.error_input) and np.isnan(score.error_replica)


def test_what_leaves_is_told_in_events_that_came() -> None:
    job = flow("half")
    job.source("in").operator("a", selectivity=0.5).operator("b")
    processed = np.array([[100.0, 50.0], [60.0, 30.0], [0.0, 0.0]])
    assert leaving_events(job.build(), processed).tolist() == [100.0, 60.0, 0.0]


def test_nothing_measured_nothing_scored() -> None:
    with pytest.raises(MetricsError, match="expected at least one measurement"):
        score_run(LINE, (), (), latency(), overestimated=5, td_s=TD_S)
