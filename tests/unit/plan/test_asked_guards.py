"""Guards that people ask for: the largest step, the budget of an hour, and a stop where adding did not help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from foretide.clock import ManualClock
from foretide.compile.stages import compile_stages
from foretide.control import ControlLoop, FluidSystem, Parts
from foretide.errors import ConfigError
from foretide.forecast import Basic
from foretide.plan.base import Situation
from foretide.plan.guards import Effectiveness, Guarded, GuardSettings, HourlyBudget, SlotBudget, StepLimit
from foretide.plan.guards.standard import standard_guards
from foretide.plan.planners.static import Static
from foretide.records import Plan
from foretide.topology import flow

Make = Callable[..., Situation]


def two_stages() -> Any:
    made = flow("job")
    first = made.source("in").operator("parse", replicas=(1, 20)).operator("classify", replicas=(1, 20))
    first.operator("store", replicas=(1, 20), queued=True)
    return made.build()


SHARED = two_stages()
STAGES = compile_stages(SHARED).shared_slots


def plan_of(situation: Situation, counts: list[int]) -> Plan:
    """Return a plan of replicas by operator, or of slots by stage where operators share them."""
    if situation.stages is not None:
        return Static(replicas=1).decide_slots(situation, counts, (), demand=np.array([0.1, 5.0, 1.0]))
    layout, now_s = situation.window.layout, situation.now_s
    return Plan(layout=layout, planner="given", made_at_s=now_s, replicas=np.array(counts))


def shared(make: Make, replicas: list[int], **more: Any) -> Situation:
    """Return a situation of two stages that share slots: in (parse and classify) and store."""
    return replace(make(SHARED, **more), replicas=np.array(replicas), stages=STAGES)


class TestStepLimit:
    @pytest.mark.parametrize(
        ("limit", "wanted", "got"),
        [
            (StepLimit(out=2), 9, 6),
            (StepLimit(out_factor=1.5), 9, 6),
            (StepLimit(out_factor=1.1), 9, 5),  # 4.4 would be no step at all
            (StepLimit(out=5, out_factor=1.5), 20, 6),  # the smaller of the two
            (StepLimit(in_=1), 1, 3),
            (StepLimit(in_factor=2), 1, 2),
            (StepLimit(in_factor=1.1), 1, 3),
            (StepLimit(in_=3, in_factor=2), 1, 2),
            (StepLimit(out=2), 1, 1),
            (StepLimit(in_=2), 9, 9),
        ],
    )
    def test_a_decision_goes_from_four_replicas_no_further_than_a_step(
        self, make_situation: Make, limit: StepLimit, wanted: int, got: int
    ) -> None:
        situation = make_situation(replicas=4)
        assert limit.apply(plan_of(situation, [wanted, 4, 4]), situation).replicas.tolist() == [got, 4, 4]

    def test_it_says_what_it_cut(self, make_situation: Make) -> None:
        situation = make_situation(replicas=4)
        plan = StepLimit(out=2, in_factor=2.0).apply(plan_of(situation, [9, 1, 4]), situation)
        assert plan.notes == ("largest step of +2, ÷2: O1 9 -> 6, O2 1 -> 2",)
        assert (plan.terms[-1].symbol, plan.terms[-1].values.tolist()) == ("step-limit", [6.0, 2.0, 4.0])

    def test_steps_count_the_slots_of_a_stage(self, make_situation: Make) -> None:
        situation = shared(make_situation, [2, 4, 3])
        plan = StepLimit(out=2, in_=1).apply(plan_of(situation, [12, 1]), situation)
        assert plan.counts.tolist() == [8, 2]
        assert plan.notes == ("largest step of +2, -1: in 12 -> 8, store 1 -> 2",)


class TestHourlyBudget:
    def test_the_plan_is_cut_to_what_is_left_of_the_hour(self, make_situation: Make) -> None:
        # 30 slots for 600 s are 18,000 slot-seconds. They lie in the hour that ends 3,000 s from now, too, and 2,400 s
        # of it go to the minima, 3 slots: 25,200 in all. Of 28,800 are left 3,600, 6 slots for the next 600 s.
        budget = HourlyBudget(slot_s=28_800)
        for now_s in (1000.0, 1600.0):
            situation = make_situation(td_s=600.0, now_s=now_s, replicas=10)
            plan = budget.apply(plan_of(situation, [10, 10, 10]), situation)
        assert plan.replicas.tolist() == [2, 2, 2]
        assert plan.notes == (
            "3600 of 28800 slot-seconds an hour left for the next 600 s: O1 10 -> 2, O2 10 -> 2, O3 10 -> 2",
        )

    def test_what_is_longer_ago_than_an_hour_counts_no_more(self, make_situation: Make) -> None:
        budget = HourlyBudget(slot_s=28_800)
        for now_s, replicas in ((0.0, 10), (600.0, 10), (3600.0, 1)):
            situation = make_situation(td_s=600.0, now_s=now_s, replicas=replicas)
            plan = budget.apply(plan_of(situation, [9, 9, 9]), situation)
        assert plan.replicas.tolist() == [9, 9, 9]  # every hour from now on has 9,000 of minima, and 19,800 are left

    def test_no_hour_of_a_long_run_exceeds_it(self, make_situation: Make) -> None:
        budget, td_s, asked = HourlyBudget(slot_s=36_000), 60.0, [1, 1, 1]
        spent: list[int] = []
        for step in range(300):
            replicas = dict(zip(("O1", "O2", "O3"), asked, strict=True))
            situation = make_situation(td_s=td_s, now_s=step * td_s, replicas=replicas)
            wish = [20, 20, 20] if step % 100 < 50 else [1, 1, 1]
            asked = budget.apply(plan_of(situation, wish), situation).replicas.tolist()
            spent.append(sum(asked))
        hours = [td_s * sum(spent[at : at + 60]) for at in range(240)]
        assert 0.98 * 36_000 <= max(hours) <= 36_000

    def test_minima_hold_against_it_and_it_says_so(self, make_situation: Make) -> None:
        budget = HourlyBudget(slot_s=10_800, minimum=2)
        for now_s in (0.0, 600.0):
            situation = make_situation(td_s=600.0, now_s=now_s, replicas=10)
            plan = budget.apply(plan_of(situation, [2, 2, 2]), situation)
        assert plan.replicas.tolist() == [2, 2, 2]
        assert plan.notes[-1].endswith("the minima, 6 in all, hold against the budget")

    def test_a_clock_that_is_set_back_keeps_what_was_spent(self, make_situation: Make) -> None:
        budget = HourlyBudget(slot_s=28_800)
        for now_s in (5000.0, 5600.0, 3000.0):
            situation = make_situation(td_s=600.0, now_s=now_s, replicas=10)
            plan = budget.apply(plan_of(situation, [10, 10, 10]), situation)
        assert plan.replicas.tolist() == [2, 2, 2]

    def test_slots_of_stages_are_counted(self, make_situation: Make) -> None:
        budget = HourlyBudget(slot_s=12_000)
        for now_s in (0.0, 600.0):
            situation = shared(make_situation, [1, 5, 2], td_s=600.0, now_s=now_s)
            plan = budget.apply(plan_of(situation, [6, 2]), situation)
        assert plan.counts.tolist() == [3, 1]  # 8 · 600 spent and 2 · 2400 of minima: 2,400 are left, 4 slots

    def test_a_budget_below_the_minima_is_refused_when_settings_are_read_or_the_topology_is_known(self) -> None:
        with pytest.raises(ValidationError, match="at least 7200, what the minima of 2 in all take, got 7199"):
            GuardSettings(slot_seconds_per_hour=7199, minimum_replicas=2)
        guarded = Guarded(Static(replicas=1), standard_guards(GuardSettings(slot_seconds_per_hour=7200)))
        with pytest.raises(ConfigError, match=r"guards.slot_seconds_per_hour.*at least 10800.*got 7200"):
            guarded.check(SHARED)

    def test_a_loop_refuses_guards_that_do_not_fit_its_topology(self) -> None:
        system = FluidSystem(
            SHARED.with_execution_times(dict.fromkeys(SHARED.layout.operators, 0.01)), [1.0], clock=ManualClock()
        )
        planner = Guarded(Static(replicas=1), (SlotBudget(slots=2),))
        with pytest.raises(ConfigError, match=r"setting 'guards\.slots': expected at least 3"):
            ControlLoop(SHARED, Parts(metrics=system, actuator=system, planner=planner, forecaster=Basic()))


class TestEffectiveness:
    """Ten seconds an interval; a scale-out is judged 60 s later and others are held for 300 s."""

    def feed(self, guard: Effectiveness, make: Make, course: list[tuple[float, int, float, float]]) -> list[Plan]:
        """Pass (instant, replicas of O1, events per second, queued at O1), with a wish for ten each time."""
        plans = []
        for now_s, replicas, rate, queued in course:
            situation = make(
                td_s=10.0,
                now_s=now_s,
                replicas={"O1": replicas, "O2": 1, "O3": 1},
                processed={"O1": 10 * rate, "O2": 1.0, "O3": 1.0},
                queued={"O1": queued},
            )
            plans.append(guard.apply(plan_of(situation, [10, 1, 1]), situation))
        return plans

    def test_scale_out_is_held_where_the_last_one_brought_nothing(self, make_situation: Make) -> None:
        guard = Effectiveness(share=0.5)
        plans = self.feed(
            guard, make_situation, [(0, 2, 100, 5000), (10, 4, 100, 5500), (60, 4, 105, 9000), (359, 4, 105, 9000)]
        )
        assert [plan.replicas[0] for plan in plans] == [10, 10, 4, 4]
        assert plans[2].notes == (
            "adding did not help (O1 2 -> 4 brought 5 of 100 events/s expected, backlog 5000 -> 9000, for another "
            "300 s), scale-out held: O1 10 -> 4",
        )
        assert plans[2].terms[-1].symbol == "effectiveness"
        assert self.feed(guard, make_situation, [(360, 4, 105, 9000)])[0].replicas[0] == 10

    @pytest.mark.parametrize(
        ("rate", "queued", "why"),
        [
            (150, 9000, "half of the gain expected came"),
            (100, 2500, "half of the backlog is gone"),
            (100, 1000, "what waits is done within an interval"),
        ],
    )
    def test_one_that_helped_holds_nothing(self, make_situation: Make, rate: float, queued: float, why: str) -> None:
        course = [(0.0, 2, 100.0, 5000.0), (10.0, 4, 100.0, 5500.0), (60.0, 4, rate, queued)]
        plans = self.feed(Effectiveness(share=0.5), make_situation, course)
        assert plans[-1].replicas[0] == 10, why

    def test_growing_ahead_of_load_is_not_taken_for_useless(self, make_situation: Make) -> None:
        plans = self.feed(Effectiveness(share=0.5), make_situation, [(0, 2, 100, 0), (10, 4, 100, 0), (60, 4, 100, 0)])
        assert plans[-1].replicas[0] == 10

    def test_a_scale_in_ends_the_hold(self, make_situation: Make) -> None:
        course = [(0.0, 2, 100.0, 5000.0), (10.0, 4, 100.0, 5500.0), (60.0, 4, 100.0, 9000.0), (70.0, 3, 100.0, 9000.0)]
        plans = self.feed(Effectiveness(share=0.5), make_situation, course)
        assert [plan.replicas[0] for plan in plans[-2:]] == [4, 10]

    def test_a_clock_that_is_set_back_starts_over(self, make_situation: Make) -> None:
        course = [(0.0, 2, 100.0, 5000.0), (10.0, 4, 100.0, 5500.0), (60.0, 4, 100.0, 9000.0), (5.0, 4, 100.0, 9000.0)]
        assert self.feed(Effectiveness(share=0.5), make_situation, course)[-1].replicas[0] == 10

    def test_stages_are_judged_by_all_that_their_operators_do(self, make_situation: Make) -> None:
        guard, plans = Effectiveness(share=0.5), []
        for now_s, parts, done in ((0.0, [0, 2, 1], 100), (10.0, [1, 3, 1], 100), (60.0, [0, 4, 1], 100)):
            situation = shared(make_situation, parts, td_s=10.0, now_s=now_s, processed=10.0 * done, queued=5000.0)
            plans.append(guard.apply(plan_of(situation, [9, 1]), situation))
        assert [plan.counts.tolist() for plan in plans] == [[9, 1], [9, 1], [4, 1]]
        assert "in 2 -> 4 brought 0 of 200 events/s" in plans[-1].notes[0]


def test_guards_hold_before_they_limit_and_every_setting_makes_one() -> None:
    settings = GuardSettings(
        step_out=2,
        effect_share=0.2,
        cooldown_in_s=5,
        slot_seconds_per_hour=36_000,
        slots=9,
        windows=({"hold": "changes", "dates": ["2026-12-24"]}, {"least": 2, "days": "mon", "end": "08:00"}),
    )
    assert [guard.name for guard in standard_guards(settings)] == [
        "cooldown",
        "effectiveness",
        "step-limit",
        "blackout",
        "calendar-minimum",
        "bounds",
        "hourly-budget",
        "slot-budget",
    ]
