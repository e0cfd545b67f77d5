"""AUTOSCALE and AUTOSCALE+ (SPEC D1-D3), against numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from pydantic import ValidationError

from foretide.plan.base import Situation
from foretide.plan.planners.autoscale import Autoscale
from foretide.plan.planners.autoscale_plus import AutoscalePlus
from foretide.records import CpuUse, Plan
from foretide.topology import Topology, flow

MakeSituation = Callable[..., Situation]


def values(plan: Plan, symbol: str) -> list[float]:
    term = next(term for term in plan.terms if term.symbol == symbol)
    return [term.value(column) for column in range(len(plan.layout.operators))]


def single(maximum: int = 32) -> Topology:
    job = flow("single")
    job.source("in").operator("work", replicas=(1, maximum))
    return job.build()


def two() -> Topology:
    job = flow("two")
    job.source("in").operator("a").operator("b")
    return job.build()


def diamond() -> Topology:
    job = flow("diamond")
    split = job.source("in").operator("split")
    left, right = split.operator("left"), split.operator("right")
    job.operator("merge", inputs=[left, right])
    return job.build()


def test_d1_eq3_linear_regression_over_the_next_interval(make_situation: MakeSituation) -> None:
    """100, 110, 120 events/s go on with 130 in an interval of 1 s."""
    situation = make_situation(single(), history=[[100.0], [110.0], [120.0]], received_history=[[0.0]] * 3)
    plan = Autoscale().plan(situation)
    assert values(plan, "EstimR") == pytest.approx([0.0])
    assert values(plan, "ΣEstimOutput") == pytest.approx([130.0])
    assert values(plan, "EstimInput") == pytest.approx([130.0])


def test_d1_eq4_5_down_a_line_takes_the_larger_and_adds_what_is_pending(make_situation: MakeSituation) -> None:
    """O1: max(80, 100) + 10 = 110; O2: max(70, 110·.5) + 4 = 74; O3: max(10, 74·1) + 0 = 74."""
    situation = make_situation(
        share={("O1", "O2"): 0.5}, received_history=[[80.0, 70.0, 10.0]] * 4, queued={"O1": 10.0, "O2": 4.0}
    )
    plan = Autoscale().plan(situation)
    assert values(plan, "EstimR") == pytest.approx([80.0, 70.0, 10.0])
    assert values(plan, "ΣEstimOutput") == pytest.approx([100.0, 55.0, 74.0])
    assert values(plan, "pending") == [10.0, 4.0, 0.0]
    assert values(plan, "EstimInput") == pytest.approx([110.0, 74.0, 74.0])


def test_d1_eq5_combine_min_is_frugal(make_situation: MakeSituation) -> None:
    """O1: min(80, 100) + 10 = 90; O2: min(70, 45) + 4 = 49; O3: min(10, 49) = 10."""
    situation = make_situation(
        share={("O1", "O2"): 0.5}, received_history=[[80.0, 70.0, 10.0]] * 4, queued={"O1": 10.0, "O2": 4.0}
    )
    assert values(Autoscale(combine="min").plan(situation), "EstimInput") == pytest.approx([90.0, 49.0, 10.0])


def test_d1_eq5_sums_over_parents(make_situation: MakeSituation) -> None:
    """Split 100 + 20; left 120·.7 = 84, right 120·.3 + 6 = 42; merge 84·.5 + 42·1 = 84."""
    shares = {("split", "left"): 0.7, ("split", "right"): 0.3, ("left", "merge"): 0.5}
    situation = make_situation(
        diamond(), share=shares, received_history=[[0.0] * 4] * 3, queued={"split": 20.0, "right": 6.0}
    )
    assert values(Autoscale().plan(situation), "EstimInput") == pytest.approx([120.0, 84.0, 42.0, 84.0])


def test_d1_samples_shorter_than_the_interval(make_situation: MakeSituation) -> None:
    """Intervals of 30 s, samples of 10 s: rates 1, 2, 3 go on with 4, 5, 6, so 10·(4 + 5 + 6) = 150 events come."""
    situation = make_situation(single(), td_s=30.0, history=[[1.0], [2.0], [3.0]], received_history=[[0.0]] * 3)
    object.__setattr__(situation.window, "sample_s", 10.0)
    assert values(Autoscale().plan(situation), "ΣEstimOutput") == pytest.approx([150.0])


def test_d1_only_the_window_is_looked_at(make_situation: MakeSituation) -> None:
    situation = make_situation(single(), history=[[1e6]] * 5 + [[10.0]] * 3, received_history=[[0.0]] * 8)
    assert values(Autoscale(window=3).plan(situation), "ΣEstimOutput") == pytest.approx([10.0])


def test_d1_without_samples_the_last_interval_stands_in(make_situation: MakeSituation) -> None:
    nothing = np.full((4, 1), np.nan)
    situation = make_situation(single(), arrived=120.0, history=nothing, received_history=nothing)
    plan = Autoscale().plan(situation)
    assert values(plan, "EstimR") == values(plan, "ΣEstimOutput") == pytest.approx([120.0])


def test_d1_autoscale_plus_takes_the_best_of_three_curves(make_situation: MakeSituation) -> None:
    """3, 6, 12, 24 double; a line through them goes on with 28.5."""
    doubling = [[3.0], [6.0], [12.0], [24.0]]
    situation = make_situation(single(), history=doubling, received_history=[[0.0]] * 4)
    assert values(AutoscalePlus().plan(situation), "EstimInput") == pytest.approx([48.0])
    assert values(Autoscale().plan(situation), "EstimInput") == pytest.approx([28.5])


@pytest.mark.parametrize(
    "arrived, replicas, ideal, decided",
    [
        (1000.0, 10, 10.0, 10),  # the upper end of the interval belongs to it
        (1010.0, 10, 10.1, 11),  # just above it
        (800.0, 10, 8.0, 10),  # the lower end, .8·10, belongs to it
        (790.0, 10, 7.9, 8),  # just below it
        (100.0, 10, 1.0, 1),
        (5000.0, 10, 50.0, 32),  # within bounds
        (0.0, 10, 0.0, 1),
    ],
)
def test_d3_eq10_12_autoscale_moves_outside_the_working_interval(
    make_situation: MakeSituation, arrived: float, replicas: int, ideal: float, decided: int
) -> None:
    situation = make_situation(single(), arrived=arrived, replicas=replicas, execution_s=0.01)
    plan = Autoscale().plan(situation)
    assert values(plan, "Capacity") == pytest.approx([100.0])
    assert values(plan, "idealK") == pytest.approx([ideal])
    assert values(plan, "β·k") == pytest.approx([8.0])
    assert plan.replicas.tolist() == [decided]
    assert plan.demand == pytest.approx([ideal])


def test_d3_beta_of_1_scales_in_as_soon_as_possible(make_situation: MakeSituation) -> None:
    situation = make_situation(single(), arrived=890.0, replicas=10)
    assert Autoscale(beta=1.0).plan(situation).replicas.tolist() == [9]
    assert Autoscale(beta=0.8).plan(situation).replicas.tolist() == [10]


def test_d3_eq12_13_taken_literally_asks_for_one_over_lambda_times_as_many(make_situation: MakeSituation) -> None:
    """100 events at Δ/Lat = 100: idealK 1; with k = 1 nothing; 300 events: idealK 3, k' = ⌈300/(100·1·.3)⌉ = 10."""
    assert AutoscalePlus().plan(make_situation(single(), arrived=100.0)).replicas.tolist() == [1]
    plan = AutoscalePlus().plan(make_situation(single(), arrived=300.0))
    assert values(plan, "idealK") == pytest.approx([3.0])
    assert values(plan, "ResCapacity") == pytest.approx([30.0])
    assert values(plan, "k'") == [10.0]
    assert plan.replicas.tolist() == [10]


def test_d3_a_scale_in_that_would_not_lower_k_leaves_it(make_situation: MakeSituation) -> None:
    """idealK 3 is below .8·8, but k' is 10; at k = 16 it is a step down."""
    assert AutoscalePlus().plan(make_situation(single(), arrived=300.0, replicas=8)).replicas.tolist() == [8]
    assert AutoscalePlus().plan(make_situation(single(), arrived=300.0, replicas=16)).replicas.tolist() == [10]


def test_d3_a_scale_out_that_would_not_raise_k_leaves_it(make_situation: MakeSituation) -> None:
    """A neighbour uses 1.1 cores: UtilCPU .3·.5 + (1 - 1.1)/2 = .1, idealK 12/10; but k' = ⌈12/(100·.5·.3)⌉ = 1."""
    cpu = CpuUse(operator=[0, 1], core=[0, 0], used=[0.1, 1.1], reserved=[0.5, 0.5])
    plan = AutoscalePlus().plan(make_situation(two(), arrived=12.0, cpu=cpu))
    assert values(plan, "idealK")[0] == pytest.approx(1.2)
    assert values(plan, "k'")[0] == 1.0
    assert plan.replicas[0] == 1


def test_d2_capacity_by_usable_cpu(make_situation: MakeSituation) -> None:
    """UtilCPU = .3·.5 + (1 - .3)/2 = .5, Δ/Lat = 100, 75 events: idealK = 75/50 = 1.5, k' = ⌈75/(100·.4·.3)⌉ = 7."""
    cpu = CpuUse(operator=[0, 1], core=[0, 0], used=[0.5, 0.3], reserved=[0.4, 0.4])
    plan = AutoscalePlus().plan(make_situation(two(), arrived=75.0, cpu=cpu))
    assert values(plan, "UtilCPU") == pytest.approx([0.5, 0.3 * 0.4 + 0.5 / 2])
    assert values(plan, "Capacity")[0] == pytest.approx(50.0)
    assert values(plan, "idealK")[0] == pytest.approx(1.5)
    assert values(plan, "ResCapacity")[0] == pytest.approx(12.0)
    assert plan.replicas[0] == 7


def test_autoscale_ignores_cpu(make_situation: MakeSituation) -> None:
    cpu = CpuUse(operator=[0, 0], core=[0, 0], used=[0.5, 0.5], reserved=[0.1, 0.1])
    with_cpu = Autoscale().plan(make_situation(single(), arrived=300.0, cpu=cpu))
    assert values(with_cpu, "UtilCPU") == [1.0]
    assert with_cpu.replicas.tolist() == [3]


@pytest.mark.parametrize("planner", [Autoscale(), AutoscalePlus()])
def test_every_equation_leaves_a_term(make_situation: MakeSituation, planner: Autoscale) -> None:
    symbols = [term.symbol for term in planner.plan(make_situation()).terms]
    expected = ["EstimR", "ΣEstimOutput", "pending", "EstimInput", "Lat", "UtilCPU", "Capacity", "idealK", "β·k"]
    assert symbols == [*expected, "ResCapacity", "k'", "k*", "r"]


def test_an_unknown_execution_time_holds_the_replicas(make_situation: MakeSituation) -> None:
    situation = make_situation(execution_s={"O2": np.nan}, replicas={"O2": 5}, arrived=300.0)
    plan = Autoscale().plan(situation)
    assert plan.replicas.tolist() == [3, 5, 3]
    assert "O2" in plan.notes[0]


def test_d3_an_operator_that_settles_is_left_alone(make_situation: MakeSituation) -> None:
    situation = make_situation(arrived=300.0, changed_at_s={"O1": 990.0, "O2": 900.0}, now_s=1000.0)
    plan = Autoscale(settle_s=60.0).plan(situation)
    assert plan.replicas.tolist() == [1, 3, 3]
    assert plan.notes == ("O1 left alone while a change settles",)


@pytest.mark.parametrize(
    "settings", [{"beta": 0.0}, {"beta": 1.1}, {"weight": 0.0}, {"window": 1}, {"combine": "mean"}]
)
def test_settings_out_of_range_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        AutoscalePlus(**settings)
