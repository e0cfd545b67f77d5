import numpy as np
import pytest

from foretide.errors import PlanError
from foretide.plan.cost import Costs, timetable_cost
from foretide.plan.planners.optimal import Optimal, optimal_timetable

PRICES = Costs(running=8, start=5, stop=5, reroute=0)


def test_b2_optimum_idles_over_a_short_dip_and_lets_go_over_a_long_one():
    assert optimal_timetable([3, 1, 3], PRICES).tolist() == [3, 3, 3]
    assert optimal_timetable([3, 1, 1, 3], PRICES).tolist() == [3, 1, 1, 3]


def test_b2_optimum_counts_both_reroutings_of_a_restart():
    assert optimal_timetable([2, 1, 2], Costs(running=15, start=4, stop=4, reroute=5)).tolist() == [2, 2, 2]
    assert optimal_timetable([2, 1, 2], Costs(running=19, start=4, stop=4, reroute=5)).tolist() == [2, 1, 2]


def test_ties_go_to_fewer_instances():
    # Idling and restarting both cost 10.
    costs = Costs(running=10, start=5, stop=5, reroute=0)

    assert optimal_timetable([3, 1, 3], costs).tolist() == [3, 1, 3]


def test_ties_are_seen_through_rounding():
    # Idling costs 0.1 and a restart 0.1, but their sums over the horizon differ in the last digit.
    costs = Costs(running=0.1, start=0, stop=0.1, reroute=0)

    assert optimal_timetable([3, 1, 3], costs).tolist() == [3, 1, 3]


def test_initial_instances_are_kept_where_stopping_costs_more():
    costs = Costs(running=1, start=0, stop=10, reroute=0)

    assert optimal_timetable([1, 1], costs, initial=4).tolist() == [4, 4]
    assert optimal_timetable([1, 1], costs).tolist() == [1, 1]
    assert optimal_timetable([1, 1], costs, initial=4, maximum=2).tolist() == [2, 2]


def test_maximum_below_a_need_is_refused():
    with pytest.raises(PlanError, match="column 1: expected needs of at most 3 instances, got 4"):
        optimal_timetable([[1, 4], [2, 2]], PRICES, maximum=3)


def test_columns_are_planned_as_if_alone_also_across_blocks(monkeypatch):
    needs, initial = np.random.default_rng(1).integers(0, 9, (10, 30)), np.arange(30) % 12
    alone = [optimal_timetable(needs[:, at], PRICES, initial=initial[at]) for at in range(30)]

    monkeypatch.setattr("foretide.plan.planners.optimal._CELLS", 10 * 12 * 7)

    assert np.array_equal(optimal_timetable(needs, PRICES, initial=initial), np.stack(alone, axis=1))


def test_planner_follows_the_cheapest_timetable(make_situation):
    situation = make_situation(execution_s=0.01, replicas=2, forecast=[100.0, 200.0, 100.0, 100.0, 100.0])
    planner = Optimal(horizon=5, costs=Costs(running=15, start=4, stop=4, reroute=5))

    plan = planner.plan(situation)

    assert plan.schedule[:, 0].tolist() == [2, 2, 1, 1, 1]
    assert plan.replicas.tolist() == [2, 2, 2]
    cost = next(term for term in plan.terms if term.symbol == "W(n*)")
    assert cost.value(0) == timetable_cost([2, 2, 1, 1, 1], planner.costs, initial=2)


def test_planner_stays_within_bounds_when_more_runs_than_allowed(make_situation):
    situation = make_situation(replicas=40, forecast=100.0)

    plan = Optimal(horizon=3, costs=Costs(stop=10**9)).plan(situation)

    assert plan.schedule.tolist() == [[32, 32, 32]] * 3


def test_planner_holds_an_operator_whose_execution_time_is_not_known(make_situation):
    situation = make_situation(execution_s={"O3": np.nan}, replicas=5, forecast=[600.0, 600.0])

    plan = Optimal(horizon=2).plan(situation)

    assert plan.by_operator() == {"O1": 6, "O2": 6, "O3": 5}


def test_planner_without_a_forecast_says_what_is_missing(make_situation):
    with pytest.raises(PlanError, match="source 'in': expected a forecast"):
        Optimal().plan(make_situation())


def test_planner_asks_for_its_horizon():
    assert Optimal(horizon=7).intervals_ahead == 7
