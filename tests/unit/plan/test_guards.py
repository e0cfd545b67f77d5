import numpy as np
import pytest
from pydantic import ValidationError

from foretide.errors import PlanError
from foretide.plan.guards import (
    Bounds,
    CatchUp,
    Cooldown,
    DelayedScaleIn,
    Guarded,
    GuardSettings,
    SlotBudget,
    UtilisationTarget,
    share_slots,
    standard_guards,
    was_overridden,
)
from foretide.plan.planners.pasps import PaSps
from foretide.plan.planners.static import Static
from foretide.records import Plan
from foretide.topology import flow


def plan_of(situation, replicas, demand=None):
    return Plan(
        layout=situation.window.layout, planner="given", made_at_s=situation.now_s, replicas=replicas, demand=demand
    )


def bounded(*bounds):
    job = flow("bounded")
    stream = job.source("in")
    for number, replicas in enumerate(bounds, start=1):
        stream = stream.operator(f"O{number}", replicas=replicas)
    return job.build()


@pytest.mark.parametrize(
    "guard",
    [Bounds(), UtilisationTarget(), CatchUp(within_s=60), Cooldown(), DelayedScaleIn(), SlotBudget(slots=6)],
    ids=lambda guard: guard.name,
)
def test_a_plan_that_keeps_the_rule_passes_unchanged(make_situation, guard):
    situation = make_situation(replicas=2)
    plan = plan_of(situation, [2, 2, 2], demand=np.ones(3))

    assert guard.apply(plan, situation) is plan


def test_bounds_clip_to_the_operators_own(make_situation):
    situation = make_situation(bounded((2, 4), (1, 8)))

    wanted = plan_of(situation, [1, 9])
    plan = Bounds().apply(wanted, situation)

    assert plan.replicas.tolist() == [2, 8]
    assert (was_overridden(wanted), was_overridden(plan)) == (False, True)
    assert plan.terms[-1].symbol == "bounds"
    assert plan.notes == ("bounds of replicas: O1 1 -> 2, O2 9 -> 8",)


def test_bounds_common_to_all_give_way_to_the_operators_own(make_situation):
    situation = make_situation(bounded((2, 4), (1, 8), (12, 16)))

    assert Bounds(maximum=6).apply(plan_of(situation, [9, 9, 9]), situation).replicas.tolist() == [4, 6, 12]
    assert Bounds(minimum=5).apply(plan_of(situation, [1, 1, 1]), situation).replicas.tolist() == [4, 5, 12]


def test_bounds_out_of_order_are_refused():
    with pytest.raises(ValidationError, match="minimum <= maximum, got 5 > 4"):
        Bounds(minimum=5, maximum=4)


def test_utilisation_target_divides_the_demand(make_situation):
    situation = make_situation()
    plan = plan_of(situation, [2, 4, 1], demand=np.array([1.7, 1.0, 0.1]))

    # 1.7 / .8 = 2.125, 1 / .8 = 1.25, .1 / .8 = .125
    assert UtilisationTarget(target=0.8).apply(plan, situation).replicas.tolist() == [3, 4, 1]


def test_utilisation_target_without_a_demand_builds_on_the_replicas(make_situation):
    situation = make_situation()

    assert UtilisationTarget(target=0.5).apply(plan_of(situation, [1, 2, 3]), situation).replicas.tolist() == [2, 4, 6]


def test_utilisation_target_leaves_an_unknown_demand(make_situation):
    situation = make_situation()
    plan = plan_of(situation, [2, 2, 2], demand=np.array([np.nan, 4.0, 1.0]))

    assert UtilisationTarget().apply(plan, situation).replicas.tolist() == [2, 5, 2]


def test_catch_up_adds_the_backlog_of_the_operator_and_upstream(make_situation):
    # 100 events/s take 1 replica; 600 queued at O1 and half of them later at O2, within 10 s at 10 ms each.
    situation = make_situation(queued={"O1": 600.0}, share={("O1", "O2"): 0.5})

    plan = CatchUp(within_s=10).apply(plan_of(situation, [1, 1, 1]), situation)

    # O1: 1 + .6, O2: .5 + .3, O3: .5 + .3
    assert plan.replicas.tolist() == [2, 1, 1]
    assert plan.terms[-1].symbol == "catch-up"


def test_catch_up_takes_the_forecast_where_there_is_one(make_situation):
    situation = make_situation(td_s=2.0, arrived=200.0, forecast=450.0)

    assert CatchUp(within_s=10).apply(plan_of(situation, [1, 1, 1]), situation).replicas.tolist() == [5, 5, 5]
    without = make_situation(td_s=2.0, arrived=500.0)
    assert CatchUp(within_s=10).apply(plan_of(without, [1, 1, 1]), without).replicas.tolist() == [3, 3, 3]


def test_catch_up_leaves_an_operator_whose_execution_time_is_not_known(make_situation):
    situation = make_situation(queued=10_000.0, execution_s={"O2": np.nan})

    assert CatchUp(within_s=10).apply(plan_of(situation, [1, 2, 1]), situation).by_operator()["O2"] == 2


def test_cooldown_holds_changes_that_follow_too_soon(make_situation):
    situation = make_situation(replicas=4, now_s=1000.0, changed_at_s={"O1": 941.0, "O2": 940.0, "O3": 990.0})

    plan = Cooldown(out_s=10, in_s=60).apply(plan_of(situation, [2, 2, 6]), situation)

    # O1 changed 59 s ago, O2 60 s ago; O3 may grow again after 10 s.
    assert plan.by_operator() == {"O1": 4, "O2": 2, "O3": 6}
    assert plan.notes == ("cool-down of 10 s out, 60 s in, replicas held: O1 2 -> 4",)
    assert plan.terms[-1].symbol == "cooldown"


def test_cooldown_of_scale_out(make_situation):
    situation = make_situation(replicas=4, now_s=1000.0, changed_at_s=995.0)

    assert Cooldown(out_s=10, in_s=0).apply(plan_of(situation, [6, 2, 4]), situation).replicas.tolist() == [4, 2, 4]


def test_cooldown_ignores_a_change_in_the_future(make_situation):
    situation = make_situation(replicas=4, now_s=1000.0, changed_at_s=5000.0)
    plan = plan_of(situation, [1, 1, 1])

    assert Cooldown().apply(plan, situation) is plan


class Wishes:
    """Feeds a guard with wishes for O1, and lets the guard's answers take effect."""

    def __init__(self, make_situation, guard, running):
        self.make_situation, self.guard, self.running = make_situation, guard, running

    def at(self, now_s, wanted):
        situation = self.make_situation(replicas={"O1": self.running}, now_s=now_s)
        self.plan = self.guard.apply(plan_of(situation, [wanted, 1, 1]), situation)
        self.running = int(self.plan.replicas[0])
        return self.running


def test_delayed_scale_in_follows_the_largest_recent_wish(make_situation):
    wishes = Wishes(make_situation, DelayedScaleIn(hold_s=60), running=1)

    assert [wishes.at(0, 5), wishes.at(10, 3), wishes.at(60, 2)] == [5, 5, 5]
    assert [wishes.at(61, 2), wishes.at(70, 2), wishes.at(71, 1)] == [3, 3, 2]
    assert wishes.plan.notes == ("scale-in delayed by 60 s, replicas held: O1 1 -> 2",)


def test_delayed_scale_in_grows_at_once(make_situation):
    wishes = Wishes(make_situation, DelayedScaleIn(hold_s=60), running=2)

    assert [wishes.at(0, 2), wishes.at(1, 9)] == [2, 9]


def test_delayed_scale_in_counts_what_runs_at_first_as_wanted(make_situation):
    wishes = Wishes(make_situation, DelayedScaleIn(hold_s=60), running=6)

    assert [wishes.at(0, 1), wishes.at(60, 1), wishes.at(61, 1)] == [6, 6, 1]


def test_delayed_scale_in_never_grows_beyond_what_runs(make_situation):
    guard = DelayedScaleIn(hold_s=60)
    Wishes(make_situation, guard, running=8).at(0, 8)

    # A slot budget behind the guard granted 3 of the 8.
    assert Wishes(make_situation, guard, running=3).at(10, 1) == 3


def test_delayed_scale_in_survives_a_clock_set_back(make_situation):
    wishes = Wishes(make_situation, DelayedScaleIn(hold_s=60), running=5)

    assert [wishes.at(1000, 5), wishes.at(100, 2), wishes.at(160, 2), wishes.at(161, 2)] == [5, 5, 5, 2]


def test_delayed_scale_in_starts_anew_with_another_topology(make_situation):
    guard = DelayedScaleIn(hold_s=60)
    Wishes(make_situation, guard, running=9).at(0, 9)
    other = make_situation(bounded((1, 8), (1, 8)), replicas=4, now_s=1.0)

    assert guard.apply(plan_of(other, [2, 5]), other).replicas.tolist() == [4, 5]


def test_delayed_scale_in_keeps_a_bounded_history(make_situation):
    guard = DelayedScaleIn(hold_s=60)
    wishes = Wishes(make_situation, guard, running=3)

    for tick in range(1000):
        wishes.at(tick * 0.1, 3)

    assert len(guard._wishes.stretches) <= 66


def test_slot_budget_shares_in_proportion(make_situation):
    situation = make_situation()

    plan = SlotBudget(slots=8).apply(plan_of(situation, [10, 5, 1]), situation)

    # f just below .6: 5 + 2 + 1 fit, and 6 + 3 + 1 would not.
    assert plan.replicas.tolist() == [5, 2, 1]
    assert plan.notes == ("slot budget 8: O1 10 -> 5, O2 5 -> 2",)
    assert plan.terms[-1].symbol == "slot-budget"


def test_slot_budget_gives_leftovers_to_the_lowest_ratio():
    # All three step up together at f = 1/2: (1, 1, 1) fits in 4, (2, 2, 2) does not; one is left, the first gets it.
    assert share_slots(np.array([4, 4, 4]), np.array([1, 1, 1]), 4).tolist() == [2, 1, 1]
    # At f = 1/2 both step up, to 3 and 2; one fits, and 1/4 is less than 2/6.
    assert share_slots(np.array([6, 4]), np.array([1, 1]), 4).tolist() == [2, 2]


def test_slot_budget_keeps_minima(make_situation):
    situation = make_situation(bounded((4, 8), (1, 32)))

    assert SlotBudget(slots=8).apply(plan_of(situation, [4, 28]), situation).replicas.tolist() == [4, 4]


def test_slot_budget_below_the_minima_is_an_error(make_situation):
    situation = make_situation(bounded((4, 8), (5, 8)))

    with pytest.raises(PlanError, match="expected at least 9 slots, the minima of 2 operators together, got 8"):
        SlotBudget(slots=8).apply(plan_of(situation, [4, 5]), situation)


def test_a_note_names_the_first_operators_and_counts_the_rest(make_situation):
    situation = make_situation(bounded(*[(1, 8)] * 7))

    plan = Bounds(maximum=2).apply(plan_of(situation, [3] * 7), situation)

    assert plan.notes[0].endswith("O4 3 -> 2, O5 3 -> 2 and 2 more")


def test_guarded_is_a_planner(make_situation):
    guarded = Guarded(PaSps(), (UtilisationTarget(target=0.5), SlotBudget(slots=4)))

    plan = guarded.plan(make_situation(forecast=150.0))

    assert (guarded.name, guarded.summary, guarded.spec) == (PaSps.name, PaSps.summary, PaSps.spec)
    assert (guarded.needs_forecast, guarded.intervals_ahead) == (True, 1)
    assert [term.symbol for term in plan.terms[-2:]] == ["utilisation-target", "slot-budget"]
    assert plan.planner == "pasps"
    assert plan.replicas.tolist() == [2, 1, 1]


def test_guarded_planners_can_be_guarded_again(make_situation):
    guarded = Guarded(Guarded(Static(replicas=9), (Bounds(maximum=4),)), (SlotBudget(slots=6),))

    assert guarded.plan(make_situation()).replicas.tolist() == [2, 2, 2]


def test_standard_guards_are_just_the_bounds_unless_set():
    assert standard_guards(GuardSettings()) == (Bounds(),)


def test_standard_guards_raise_then_hold_then_cut():
    settings = GuardSettings(
        utilisation_target=0.7,
        catch_up_within_s=30,
        delay_scale_in_s=90,
        cooldown_in_s=45,
        minimum_replicas=2,
        maximum_replicas=9,
        slots=12,
    )

    target, catch_up, delay, cooldown, bounds, budget = standard_guards(settings)

    assert (target, catch_up) == (UtilisationTarget(target=0.7), CatchUp(within_s=30))
    assert isinstance(delay, DelayedScaleIn) and delay.hold_s == 90
    assert (cooldown, bounds) == (Cooldown(out_s=0, in_s=45), Bounds(minimum=2, maximum=9))
    assert budget == SlotBudget(slots=12)


@pytest.mark.parametrize(
    "setting", [{"utilisation_target": 0.0}, {"slots": 0}, {"minimum_replicas": 3, "maximum_replicas": 2}, {"other": 1}]
)
def test_guard_settings_out_of_range_are_refused(setting):
    with pytest.raises(ValidationError):
        GuardSettings(**setting)
