from __future__ import annotations

import numpy as np
import pytest
from topologies import line, step

from foretide.control.decision import Decision
from foretide.latency import LatencyHistogram
from foretide.records import Forecast, Plan, Term, Window
from foretide.sim.outcome import RunMetrics, Yardstick, estimate_of, measure
from foretide.sim.trail import RunSeries
from foretide.topology import Topology

LINE = line(step("a", execution_s=0.01), step("b", execution_s=0.02), replicas=(1, 8))


def series(arrived: list[float], left: list[float], replicas: list[list[int]]) -> RunSeries:
    steps = len(arrived)
    nothing = np.zeros((steps, 2))
    return RunSeries(
        ended_at_s=np.arange(1.0, steps + 1),
        step_s=1.0,
        arrived=np.array(arrived)[:, None],
        processed=nothing,
        queued=nothing.copy(),
        left=np.array(left),
        replicas=np.array(replicas),
        latency_at_s=np.arange(1.0, steps + 1),
        latency_mean_s=np.zeros(steps),
        latency_p50_s=np.zeros(steps),
        latency_p95_s=np.zeros(steps),
        latency_p99_s=np.zeros(steps),
    )


def decision(topology: Topology, at_s: float, replicas: list[int], queued: list[float], forecast: float) -> Decision:
    none = np.zeros(2)
    window = Window(
        layout=topology.layout,
        ended_at_s=at_s,
        duration_s=1.0,
        sample_s=1.0,
        arrival_rates=np.zeros((1, 1)),
        received_rates=np.zeros((1, 2)),
        arrived=np.zeros(1),
        received=none,
        processed=none,
        queued=np.array(queued),
        share=np.ones(2),
        execution_s=np.array([0.01, 0.02]),
        utilisation=none,
        replicas=np.array([1, 1]),
    )
    plan = Plan(layout=topology.layout, planner="x", made_at_s=at_s, replicas=np.array(replicas))
    made = Forecast(series="in", model="x", made_at_s=at_s, step_s=1.0, mean=np.array([forecast]))
    return Decision(cycle=1, at_s=at_s, window=window, forecasts={"in": made}, plan=plan)


def by(topology: Topology, **changes: float) -> Yardstick:
    values = {"r_over": 10.0, "td_s": 1.0, "sample_s": 1.0, "from_s": 1.0, **changes}
    return Yardstick(topology=topology, execution_s=topology.declared_execution_s, **values)


def found(run: RunSeries, *decisions: Decision, **changes: float) -> RunMetrics:
    latency = LatencyHistogram()
    latency.add([0.1, 0.3], [3, 1])
    totals = {"received": 400.0, "processed": 300.0}
    estimates = [made for made in (estimate_of(one, 1.0) for one in decisions) if made is not None]
    return measure(run, latency, estimates, totals, by(LINE, **changes))


def test_p8_metrics_of_a_run_by_hand() -> None:
    run = series([999.0, 100.0, 200.0], [0.0, 90.0, 220.0], [[9, 9], [1, 2], [2, 3]])
    metrics = found(run)
    assert metrics.saved == pytest.approx(1 - (3 + 5) / 2 / 10)
    assert metrics.degradation == pytest.approx((10 / 100 + 20 / 200) / 2)
    assert metrics.processed == pytest.approx(0.75)
    assert metrics.latency_mean_ms == pytest.approx(150.0)
    assert metrics.latency_p99_ms == pytest.approx(300.0, rel=0.03)
    assert metrics.changes == 2


def test_p8_throughput_is_compared_over_samples() -> None:
    run = series([0.0, 100.0, 100.0, 100.0, 100.0], [0.0, 50.0, 150.0, 100.0, 80.0], [[1, 1]] * 5)
    assert found(run, sample_s=2.0).degradation == pytest.approx((0 / 200 + 20 / 200) / 2)


def test_p8_errors_of_input_and_replicas_by_hand() -> None:
    topology = LINE
    run = series([50.0, 100.0, 200.0, 80.0], [0.0] * 4, [[1, 1]] * 4)
    decisions = (
        decision(topology, 1.0, [2, 3], [0.0, 0.0], 110.0),
        decision(topology, 2.0, [2, 3], [100.0, 50.0], 150.0),
        decision(topology, 4.0, [9, 9], [0.0, 0.0], 999.0),  # its interval is not over at the end of the run
    )
    metrics = found(run, *decisions)
    assert metrics.error_input == pytest.approx((10 / 100 + 50 / 200) / 2)
    # Needed: 100 events make 1 and 2; 200 with 100 queued at a and 50 at b make 3 and 7.
    assert metrics.error_replica == pytest.approx((abs(5 - 3) / 3 + abs(5 - 10) / 10) / 2)


def test_a_policy_without_forecasts_is_taken_at_what_its_plan_expects() -> None:
    topology = LINE
    run = series([50.0, 100.0, 100.0], [0.0] * 3, [[1, 1]] * 3)
    made = decision(topology, 1.0, [2, 3], [0.0, 0.0], 0.0)
    assert made.plan is not None
    expects = made.plan.revised(made.plan.replicas, Term("λ̂_G", "input", "last", 80.0))
    implied = Decision(cycle=1, at_s=1.0, window=made.window, plan=expects)
    silent = Decision(cycle=1, at_s=1.0, window=made.window, plan=made.plan)
    assert found(run, implied).error_input == pytest.approx(0.2)
    assert np.isnan(found(run, silent).error_input)


def test_a_cycle_without_a_plan_counts_for_nothing() -> None:
    assert estimate_of(Decision(cycle=1, at_s=1.0), 1.0) is None


def test_what_does_not_apply_is_none_in_plain_data() -> None:
    metrics = RunMetrics(0.5, 1.0, 2.0, 3.0, 1.0, 0.0, float("nan"), 0.1, 4)
    assert metrics.to_data()["error_input"] is None
    assert metrics.to_data()["changes"] == 4
