import numpy as np
import pytest

from foretide.plan.cost import Costs, timetable_cost
from foretide.plan.planners.cba import (
    Cba,
    cancel_restarts,
    capacity_timetable,
    cba_timetable,
    merge_actions,
)
from foretide.plan.planners.optimal import optimal_timetable


def optimality_gap(needs, costs):
    return (
        timetable_cost(cba_timetable(needs, costs), costs) / timetable_cost(optimal_timetable(needs, costs), costs) - 1
    )


def merging(reroute, running=8):
    return Costs(running=running, start=0, stop=0, reroute=reroute)


def restarting(running=8, start=5, stop=5, reroute=0):
    return Costs(running=running, start=start, stop=stop, reroute=reroute)


def test_b3_step_1_has_what_every_epoch_needs():
    assert capacity_timetable([2, 4, 4, 1]).tolist() == [2, 4, 4, 1]


def test_b3_step_2_moves_an_up_one_epoch_earlier_onto_another_up():
    # One instance runs an epoch longer for 8, and a re-routing of 10 is saved.
    before, after = [1, 2, 3, 3], merge_actions([1, 2, 3, 3], merging(10))

    assert after.tolist() == [1, 3, 3, 3]
    assert timetable_cost(before, merging(10)) - timetable_cost(after, merging(10)) == 10 - 8


def test_b3_step_2_leaves_an_up_that_saves_no_more_than_it_costs():
    assert merge_actions([1, 2, 3, 3], merging(8)).tolist() == [1, 2, 3, 3]
    assert merge_actions([1, 2, 4, 4], merging(10)).tolist() == [1, 2, 4, 4]


def test_b3_step_2_leaves_an_up_with_none_before_it_to_merge_with():
    assert merge_actions([1, 1, 2, 2], merging(1000)).tolist() == [1, 1, 2, 2]
    assert merge_actions([2, 1, 2, 2], merging(1000)).tolist() == [2, 1, 2, 2]


def test_b3_step_2_moves_what_it_merged_on_while_that_pays():
    # Two instances moved together cost 2 × 1, so the second move needs a re-routing above 2.
    assert merge_actions([1, 2, 3, 4], merging(10, running=1)).tolist() == [1, 4, 4, 4]
    assert merge_actions([1, 2, 3, 4], merging(1.5, running=1)).tolist() == [1, 2, 4, 4]


def test_b3_step_2_moves_a_down_one_epoch_later_onto_another_down():
    before, after = [3, 2, 1, 1], merge_actions([3, 2, 1, 1], merging(10))

    assert after.tolist() == [3, 3, 1, 1]
    assert timetable_cost(before, merging(10)) - timetable_cost(after, merging(10)) == 10 - 8


def test_b3_step_2_leaves_a_down_that_saves_no_more_than_it_costs():
    assert merge_actions([3, 2, 1, 1], merging(8)).tolist() == [3, 2, 1, 1]
    assert merge_actions([3, 2, 2, 1], merging(1000)).tolist() == [3, 2, 2, 1]


def test_b3_step_2_counts_the_step_from_the_initial_instances():
    assert merge_actions([2, 3], merging(10), initial=1).tolist() == [3, 3]
    assert merge_actions([2, 1], merging(10), initial=3).tolist() == [3, 1]
    assert merge_actions([2, 3], merging(10)).tolist() == [2, 3]


def test_b3_step_3_cancels_a_restart_that_costs_more_than_idling():
    # Stopping and starting 2 costs 20, idling for one epoch 16.
    assert cancel_restarts([3, 1, 3], restarting()).tolist() == [3, 3, 3]


def test_b3_step_3_leaves_a_restart_that_costs_less_than_idling():
    # Idling for two epochs costs 32.
    assert cancel_restarts([3, 1, 1, 3], restarting()).tolist() == [3, 1, 1, 3]


def test_b3_step_3_cancels_as_many_as_both_actions_have():
    assert cancel_restarts([3, 1, 2], restarting()).tolist() == [3, 2, 2]
    assert cancel_restarts([2, 1, 3], restarting()).tolist() == [2, 2, 3]


def test_b3_step_3_counts_the_rerouting_saved():
    assert cancel_restarts([3, 1, 3], restarting(start=4, stop=4, reroute=0)).tolist() == [3, 1, 3]
    assert cancel_restarts([3, 1, 3], restarting(start=4, stop=4, reroute=1)).tolist() == [3, 3, 3]


def test_b3_step_3_repeats_until_nothing_changes():
    # The inner pair goes first (10 > 3); then the outer pair is adjacent, three epochs apart (10 > 9).
    assert cancel_restarts([3, 2, 1, 2, 3], restarting(running=3)).tolist() == [3, 3, 3, 3, 3]
    assert cancel_restarts([3, 2, 1, 2, 3], restarting(running=4)).tolist() == [3, 2, 2, 2, 3]


def test_b3_step_3_keeps_initial_instances_that_are_wanted_again():
    assert cancel_restarts([1, 3], restarting(), initial=3).tolist() == [3, 3]
    assert cancel_restarts([1, 3], restarting()).tolist() == [1, 3]


def test_b3_steps_follow_each_other():
    costs = Costs(running=8, start=5, stop=5, reroute=10)
    # Step 2 merges both ups into epoch 1 and step 3 bridges the dip: stop and start 2 × 10 + 10 > 16.
    assert cba_timetable([1, 2, 3, 1, 3], costs).tolist() == [1, 3, 3, 3, 3]


def test_columns_are_planned_as_if_alone():
    costs, needs = Costs(running=3, start=5, stop=5, reroute=7), np.random.default_rng(5).integers(1, 6, (12, 40))
    initial = np.random.default_rng(6).integers(1, 6, 40)

    alone = [cba_timetable(needs[:, at], costs, initial[at]) for at in range(40)]

    assert np.array_equal(cba_timetable(needs, costs, initial), np.stack(alone, axis=1))


def test_arguments_are_left_as_they_are():
    needs = np.array([3, 1, 3])

    cba_timetable(needs, restarting(), initial=1)

    assert needs.tolist() == [3, 1, 3]


def test_optimality_gap_of_a_restart_that_cba_underrates():
    # CBA counts one re-routing (8 + 5 < 15) and lets go; the optimum counts both (8 + 10 > 15) and idles.
    costs = Costs(running=15, start=4, stop=4, reroute=5)

    assert cba_timetable([2, 1, 2], costs).tolist() == [2, 1, 2]
    assert optimality_gap([2, 1, 2], costs) == pytest.approx(93 / 90 - 1)
    assert timetable_cost(cba_timetable([0, 0], costs, 0), costs, 0) == 0.0


def test_planner_keeps_instances_over_a_dip_that_is_short(make_situation):
    situation = make_situation(execution_s=0.01, replicas=3, forecast=[100.0, 300.0, 300.0])

    plan = Cba(horizon=3).plan(situation)

    assert plan.by_operator() == {"O1": 3, "O2": 3, "O3": 3}
    assert plan.schedule.tolist() == [[3, 3, 3]] * 3
    assert plan.demand.tolist() == pytest.approx([1.0, 1.0, 1.0])


def test_planner_lets_go_over_a_dip_that_is_long(make_situation):
    situation = make_situation(execution_s=0.01, replicas=3, forecast=[100.0, 100.0, 300.0])

    plan = Cba(horizon=3).plan(situation)

    assert plan.replicas.tolist() == [1, 1, 1]
    assert plan.schedule[:, 0].tolist() == [1, 1, 3]


def test_planner_explains_needs_steps_and_costs(make_situation):
    situation = make_situation(execution_s=0.01, replicas=3, forecast=[100.0, 300.0])

    terms = {term.symbol: term.value(0) for term in Cba(horizon=2).plan(situation).terms}

    assert (terms["need_1"], terms["need_2"]) == (1.0, 3.0)
    assert (terms["n⁽¹⁾"], terms["n⁽²⁾"], terms["n⁽³⁾"]) == (1.0, 1.0, 3.0)
    assert terms["W(n)"] == terms["W(n*)"] == 6 * 8000.0
    assert terms["gap"] == 0.0


def test_planner_spreads_the_forecast_by_shares_and_keeps_bounds(make_situation):
    situation = make_situation(
        execution_s={"O1": 0.01, "O2": 0.1, "O3": 1.0}, share={("O1", "O2"): 0.5}, forecast=200.0
    )

    plan = Cba(horizon=2).plan(situation)

    assert plan.by_operator() == {"O1": 2, "O2": 10, "O3": 32}
    assert plan.demand.tolist() == pytest.approx([2.0, 10.0, 100.0])


def test_planner_holds_an_operator_whose_execution_time_is_not_known(make_situation):
    situation = make_situation(execution_s={"O2": np.nan}, replicas=4, forecast=[800.0] * 3)

    plan = Cba(horizon=3).plan(situation)

    assert plan.by_operator() == {"O1": 8, "O2": 4, "O3": 8}
    assert plan.schedule[:, 1].tolist() == [4, 4, 4]
    assert any("O2" in note for note in plan.notes)


def test_planner_stays_within_bounds_when_more_runs_than_allowed(make_situation):
    situation = make_situation(execution_s=0.01, replicas=40, forecast=[3100.0, 100.0])

    plan = Cba(horizon=2, costs=Costs(running=1, reroute=10**6)).plan(situation)

    assert plan.schedule.max() <= 32
    assert plan.replicas.tolist() == plan.schedule[0].tolist()
    assert next(term for term in plan.terms if term.symbol == "gap").value(0) >= 0


def test_planner_asks_for_its_horizon():
    assert Cba(horizon=7).intervals_ahead == 7
    assert Cba.needs_forecast
