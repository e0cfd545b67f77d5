"""The metrics of SPEC P8 over runs whose every number is set by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from topologies import line, step

from foretide.control import Decision
from foretide.control.course import RunCourse, while_it_ran
from foretide.control.score import RunScore, Yardstick, estimate_of, estimates_of, opening_of, score_run
from foretide.errors import MetricsError
from foretide.latency import LatencyHistogram
from foretide.records import Action, ActionStatus, Forecast, Measurement, Plan, Term, Window
from foretide.store.samples import LatencySample
from foretide.topology import Topology

TD_S = 10.0


LINE = line(step("a", execution_s=0.1), step("b", execution_s=0.05), replicas=(1, 9))


def measured(
    ended_at_s: float, arrived: float, processed: float, replicas: tuple[int, int], duration_s: float = 10.0
) -> Measurement:
    return Measurement(
        layout=LINE.layout,
        ended_at_s=ended_at_s,
        duration_s=duration_s,
        arrived=np.array([arrived]),
        passed=np.array([arrived, processed]),
        processed=np.array([processed, processed]),
        queued=np.zeros(2),
        busy_s=np.zeros(2),
        replicas=np.array(replicas),
    )


def decided(
    at_s: float,
    expected_rate: float,
    planned: tuple[int, int],
    queued: tuple[float, float] = (0.0, 0.0),
    *,
    td_s: float = TD_S,
    topology: Topology = LINE,
) -> Decision:
    window = Window(
        layout=topology.layout,
        ended_at_s=at_s,
        duration_s=td_s,
        sample_s=1.0,
        arrival_rates=np.zeros((1, 1)),
        received_rates=np.zeros((1, 2)),
        arrived=np.zeros(1),
        received=np.zeros(2),
        processed=np.zeros(2),
        queued=np.array(queued),
        share=np.ones(2),
        execution_s=np.array([9.0, 9.0]),  # what was believed then is not what the run is measured by
        utilisation=np.zeros(2),
        replicas=np.array([1, 1]),
    )
    forecast = Forecast(series="in", model="basic", made_at_s=at_s, step_s=1.0, mean=np.full(10, expected_rate))
    plan = Plan(layout=topology.layout, planner="x", made_at_s=at_s, replicas=np.array(planned))
    return Decision(cycle=1, at_s=at_s + 0.3, window=window, forecasts={"in": forecast}, plan=plan)


MEASURED = (
    measured(10.0, 100, 80, (1, 1)),
    measured(20.0, 200, 150, (2, 1)),
    measured(30.0, 0, 70, (3, 1)),
)


def latency() -> LatencyHistogram:
    found = LatencyHistogram()
    found.add([0.1, 1.0], [95, 5])
    return found


def scored(*decisions: Decision, measurements: Sequence[Measurement] = MEASURED) -> RunScore:
    course = RunCourse.of(LINE, measurements)
    return score_run(course, estimates_of(decisions, TD_S), latency(), Yardstick(r_over=5, td_s=TD_S))


def test_p8_saved_resources_and_slot_seconds_go_by_time() -> None:
    # 2, 3 and 4 replicas for 10 s each.
    score = scored()
    assert score.slot_seconds == 90.0
    assert (score.saved, score.r_over) == (pytest.approx(1 - 3 / 5), 5)
    assert score.changes == 2
    # 2 replicas for 10 s and 6 for 5 s are 50 of 75 replica-seconds.
    uneven = (measured(10.0, 100, 80, (1, 1)), measured(15.0, 100, 80, (3, 3), duration_s=5.0))
    assert scored(measurements=uneven).slot_seconds == 50.0
    assert scored(measurements=uneven).saved == pytest.approx(1 - 50 / 75)


def test_p8_degradation_and_processed_while_something_came() -> None:
    score = scored()
    # |100 − 80|/100 and |200 − 150|/200; in the last interval nothing came.
    assert score.degradation == pytest.approx((0.2 + 0.25) / 2)
    assert score.processed == pytest.approx(230 / 300)


def test_p8_what_leaves_after_the_last_event_does_not_degrade_the_sample_in_which_it_came() -> None:
    # Samples of 5 s: 100 in and 80 out; then 20 in and 10 out until the last event, not 20 in and 110 out.
    run = (
        measured(5.0, 100, 80, (1, 1), duration_s=5.0),
        measured(6.0, 20, 10, (1, 1), duration_s=1.0),
        measured(10.0, 0, 100, (1, 1), duration_s=4.0),
    )
    assert scored(measurements=run).degradation == pytest.approx((0.2 + 0.5) / 2)


def test_p8_what_queues_between_operators_has_not_been_processed() -> None:
    # a finished all 100, b only 40: the 60 between them are not through.
    half = replace(measured(10.0, 100, 100, (1, 1)), processed=np.array([100.0, 40.0]))
    assert scored(measurements=[half]).processed == pytest.approx(0.4)


def test_p8_events_that_fail_are_not_processed_and_need_no_replicas() -> None:
    # 50 of 100 fail at a, and the others go on: half of them are through.
    half = np.array([50.0, 50.0])
    failing = replace(measured(10.0, 100, 100, (1, 1)), processed=half, passed=half * [2, 1], failed=half * [1, 0])
    assert scored(measurements=[failing]).processed == pytest.approx(0.5)
    # The next 200 need, at 0.1 s for each event taken, 2 of a, and half of them, at 0.05 s, 1 of b.
    busy = [replace(failing, busy_s=np.array([10.0, 2.5])), replace(measured(20.0, 200, 0, (1, 1)))]
    assert scored(decided(10.0, 0.0, (2, 1)), measurements=busy).error_replica == 0.0


def test_p8_error_of_the_input_is_that_of_the_interval_after_the_decision() -> None:
    score = scored(decided(10.0, 25.0, (1, 1)), decided(20.0, 3.0, (1, 1)), decided(30.0, 9.0, (1, 1)))
    # 250 were expected and 200 came; an interval without events has no percentage; the last was not seen.
    assert score.error_input == pytest.approx(0.25)


def test_p8_error_of_replicas_is_against_what_the_input_needed() -> None:
    # 200 events need 200·0.1/10 = 2 and 200·0.05/10 = 1 replicas; with 50 that wait, 3 and 2.
    assert scored(decided(10.0, 0.0, (2, 1))).error_replica == 0.0
    assert scored(decided(10.0, 0.0, (2, 1), (50.0, 0.0))).error_replica == pytest.approx(2 / 5)


def test_p8_replicas_are_needed_by_the_times_and_shares_that_the_run_itself_measured() -> None:
    # An event took 0.2 s at a, and half of them went on to b, where the declared 0.05 s hold: nothing was timed there.
    busy = [replace(one, busy_s=0.2 * one.processed * [1, 0], passed=one.passed * [1, 0.5]) for one in MEASURED]
    # 200 events need 200·0.2/10 = 4 replicas of a, and half of them 100·0.05/10 = 1 of b.
    assert scored(decided(10.0, 0.0, (4, 1)), measurements=busy).error_replica == 0.0
    assert scored(decided(10.0, 0.0, (4, 2)), measurements=busy).error_replica == pytest.approx(1 / 5)


def test_an_operator_whose_time_is_not_known_is_left_out_of_the_replicas() -> None:
    topology = line(step("a", execution_s=0.1), step("b"), replicas=(1, 9))
    course = RunCourse.of(topology, [replace(one, layout=topology.layout) for one in MEASURED])
    made = estimates_of([decided(10.0, 0.0, (3, 7), topology=topology)], TD_S)
    assert score_run(course, made, latency(), Yardstick(r_over=5, td_s=TD_S)).error_replica == pytest.approx(1 / 2)


def test_latencies_are_in_milliseconds() -> None:
    score = scored()
    assert score.latency_mean_ms == pytest.approx(145.0)
    assert score.latency_p95_ms == pytest.approx(100.0, rel=0.05)
    assert score.latency_p99_ms == pytest.approx(1000.0, rel=0.03)
    assert np.isnan(score.error_input) and np.isnan(score.error_replica)


def test_what_leaves_is_told_in_events_that_came() -> None:
    topology = line(step("a", selectivity=0.5), step("b"))
    processed = ([100.0, 50.0], [60.0, 30.0], [0.0, 0.0])
    run = [
        replace(one, layout=topology.layout, processed=np.array(row), passed=np.array(row))
        for one, row in zip(MEASURED, processed, strict=True)
    ]
    assert RunCourse.of(topology, run).left.tolist() == [100.0, 60.0, 0.0]


def test_nothing_measured_nothing_scored() -> None:
    with pytest.raises(MetricsError, match="expected at least one measurement"):
        scored(measurements=())


class TestWhileItRan:
    @staticmethod
    def stretches(*amounts: tuple[float, float]) -> list[Measurement]:
        return [measured(10.0 * number, *each, (1, 1)) for number, each in enumerate(amounts, start=1)]

    def test_the_start_of_an_engine_and_the_time_after_the_last_event_do_not_count(self) -> None:
        run = self.stretches((0, 0), (5, 0), (0, 3), (0, 2), (0, 0), (0, 0))
        assert while_it_ran(run) == run[1:4]

    def test_input_that_is_not_worked_off_yet_counts(self) -> None:
        run = self.stretches((0, 0), (5, 0), (5, 0))
        assert while_it_ran(run) == run[1:]

    def test_work_that_only_failed_counts(self) -> None:
        run = self.stretches((5, 0), (0, 0), (0, 0))
        run[1] = replace(run[1], failed=np.array([5.0, 0.0]))
        assert while_it_ran(run) == run[:2]

    def test_without_input_all_of_it_counts(self) -> None:
        run = self.stretches((0, 0), (0, 0), (0, 0))
        assert while_it_ran(run) == run


SHORT = line(step("a", execution_s=0.01), step("b", execution_s=0.02), replicas=(1, 8))


def course(arrived: list[float], left: list[float], replicas: list[list[int]]) -> RunCourse:
    """Return the course of a run in steps of a second, whose times and shares are known."""
    steps = len(arrived)
    return RunCourse(
        topology=SHORT,
        ended_at_s=np.arange(1.0, steps + 1),
        duration_s=np.ones(steps),
        arrived=np.array(arrived)[:, None],
        processed=np.stack([np.zeros(steps), np.array(left)], axis=1),
        queued=np.zeros((steps, 2)),
        replicas=np.array(replicas),
        held_s=np.array(replicas).sum(axis=1).astype(float),
        execution_s=SHORT.declared_execution_s.copy(),
        share=SHORT.declared_share.copy(),
        yielded=SHORT.declared_share.copy(),
        latency_at_s=np.empty(0),
        latency_s={},
    )


def found(run: RunCourse, *decisions: Decision, **changes: float) -> RunScore:
    """Return the score of a run whose first second does not count."""
    waited = LatencyHistogram()
    waited.add([0.1, 0.3], [3, 1])
    by = Yardstick(**{"r_over": 10.0, "td_s": 1.0, "sample_s": 1.0, "from_s": 1.0, **changes})
    return score_run(run, estimates_of(decisions, 1.0), waited, by, processed=0.75)


def short(at_s: float, planned: tuple[int, int], queued: tuple[float, float], forecast: float) -> Decision:
    return decided(at_s, forecast, planned, queued, td_s=1.0, topology=SHORT)


def test_p8_metrics_of_a_run_by_hand() -> None:
    run = course([999.0, 100.0, 200.0], [0.0, 90.0, 220.0], [[9, 9], [1, 2], [2, 3]])
    metrics = found(run)
    assert metrics.saved == pytest.approx(1 - (3 + 5) / 2 / 10)
    assert metrics.slot_seconds == 8.0
    assert metrics.degradation == pytest.approx((10 / 100 + 20 / 200) / 2)
    assert metrics.processed == pytest.approx(0.75)
    assert metrics.latency_mean_ms == pytest.approx(150.0)
    assert metrics.latency_p99_ms == pytest.approx(300.0, rel=0.03)
    assert metrics.changes == 2


def test_p8_throughput_is_compared_over_samples() -> None:
    run = course([0.0, 100.0, 100.0, 100.0, 100.0], [0.0, 50.0, 150.0, 100.0, 80.0], [[1, 1]] * 5)
    assert found(run, sample_s=2.0).degradation == pytest.approx((0 / 200 + 20 / 200) / 2)


def test_p8_errors_of_input_and_replicas_by_hand() -> None:
    run = course([50.0, 100.0, 200.0, 80.0], [0.0] * 4, [[1, 1]] * 4)
    decisions = (
        short(1.0, (2, 3), (0.0, 0.0), 110.0),
        short(2.0, (2, 3), (100.0, 50.0), 150.0),
        short(4.0, (9, 9), (0.0, 0.0), 999.0),  # its interval is not over at the end of the run
    )
    metrics = found(run, *decisions)
    assert metrics.error_input == pytest.approx((10 / 100 + 50 / 200) / 2)
    # Needed: 100 events make 1 and 2; 200 with 100 queued at a and 50 at b make 3 and 7.
    assert metrics.error_replica == pytest.approx((abs(5 - 3) / 3 + abs(5 - 10) / 10) / 2)


def test_a_policy_without_forecasts_is_taken_at_what_its_plan_expects() -> None:
    run = course([50.0, 100.0, 100.0], [0.0] * 3, [[1, 1]] * 3)
    made = short(1.0, (2, 3), (0.0, 0.0), 0.0)
    assert made.plan is not None
    expects = made.plan.revised(made.plan.replicas, Term("λ̂_G", "input", "last", 80.0))
    implied = Decision(cycle=1, at_s=1.0, window=made.window, plan=expects)
    silent = Decision(cycle=1, at_s=1.0, window=made.window, plan=made.plan)
    assert found(run, implied).error_input == pytest.approx(0.2)
    assert np.isnan(found(run, silent).error_input)


def test_a_cycle_without_a_plan_counts_for_nothing() -> None:
    assert estimate_of(Decision(cycle=1, at_s=1.0), 1.0) is None
    assert estimates_of([Decision(cycle=1, at_s=1.0)], 1.0) == []


def test_what_does_not_apply_is_none_in_plain_data() -> None:
    metrics = scored()
    assert metrics.to_data()["error_input"] is None
    assert metrics.to_data()["changes"] == 2


def test_a_run_tells_when_its_first_plan_came_and_what_was_cold() -> None:
    # The first event comes in the stretch that begins at 10 s; what left by 40 s is cold.
    measurements = (measured(10.0, 0, 0, (1, 1)), measured(20.0, 100, 80, (1, 1)), measured(50.0, 100, 120, (1, 1)))
    slow, quick = LatencyHistogram(), LatencyHistogram()
    slow.add([2.0], [80])
    quick.add([0.2], [120])
    latencies = (LatencySample(20.0, 10.0, slow), LatencySample(50.0, 10.0, quick))
    skipped, made = decided(20.0, 10.0, (1, 1)), decided(23.0, 10.0, (2, 1))
    status: tuple[ActionStatus, ...] = ("refused", "applied")
    replicas = dict.fromkeys(("planned", "requested", "observed"), np.array([1, 1]))
    decisions = [
        replace(one, action=Action(plan_id="plan", at_s=one.at_s, status=of, **replicas))
        for one, of in zip((skipped, made), status, strict=True)
    ]
    opening = opening_of(measurements, latencies, decisions)
    course = RunCourse.of(LINE, measurements)
    score = score_run(course, (), latency(), Yardstick(r_over=5, td_s=TD_S), opening=opening)
    # The plan at 20.3 s was refused, the one at 23.3 s was not.
    assert score.first_plan_s == pytest.approx(13.3)
    assert score.cold_p95_ms == pytest.approx(2000.0, rel=0.03)
    assert score.warm_p95_ms == pytest.approx(200.0, rel=0.03)
    assert scored().to_data()["first_plan_s"] is None
