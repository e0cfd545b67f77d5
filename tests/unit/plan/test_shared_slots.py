"""Slots per stage: how operators share them, and how guards, bounds and the loop treat such a plan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.compile.stages import compile_stages
from foretide.control.ports import within_bounds
from foretide.errors import PlanError
from foretide.plan.base import Situation
from foretide.plan.guards import Bounds, Cooldown, DelayedScaleIn, SlotBudget, UtilisationTarget
from foretide.plan.guards.overrides import overridden
from foretide.plan.planners.static import Static
from foretide.records import Plan, SharedSlots, Window
from foretide.topology import Topology, flow


def job() -> Topology:
    """Two operators in a stage, a third behind a queued edge."""
    made = flow("job")
    first = made.source("in").operator("parse", replicas=(1, 4)).operator("classify", replicas=(2, 9))
    first.operator("store", replicas=(1, 4), queued=True)
    return made.build()


TOPOLOGY = job()
STAGES = compile_stages(TOPOLOGY).shared_slots


def situation(replicas: list[int], changed_at_s: float = -np.inf, now_s: float = 100.0) -> Situation:
    zeros = np.zeros(3)
    window = Window(
        layout=TOPOLOGY.layout,
        ended_at_s=now_s,
        duration_s=5.0,
        sample_s=1.0,
        arrival_rates=np.zeros((1, 1)),
        received_rates=np.zeros((1, 3)),
        arrived=np.zeros(1),
        received=zeros,
        processed=zeros,
        queued=zeros,
        share=np.ones(3),
        execution_s=np.array([0.001, 0.02, 0.01]),
        utilisation=zeros,
        replicas=np.array(replicas),
    )
    return Situation(
        topology=TOPOLOGY,
        window=window,
        forecasts={},
        replicas=np.array(replicas),
        changed_at_s=np.full(3, changed_at_s),
        stages=STAGES,
    )


def plan(slots: list[int], demand: list[float], at: Situation | None = None) -> Plan:
    return Static(replicas=1).decide_slots(at or situation([0, 2, 1]), slots, (), demand=np.array(demand))


class TestSharedSlots:
    def test_stages_are_those_of_the_compiler_with_the_bounds_of_their_operators(self) -> None:
        assert STAGES.members == ((0, 1), (2,))
        assert STAGES.least.tolist() == [2, 1]  # classify must have two replicas, so its stage two tasks
        assert STAGES.most.tolist() == [13, 4]

    def test_parts_follow_the_demand_and_leave_none_for_an_operator_with_little(self) -> None:
        assert plan([6, 1], [0.2, 5.0, 0.7]).replicas.tolist() == [0, 6, 1]

    def test_a_part_above_an_operators_maximum_goes_to_the_others(self) -> None:
        assert plan([12, 1], [0.2, 5.0, 0.7]).replicas.tolist() == [3, 9, 1]

    @given(
        most=st.lists(st.integers(1, 9), min_size=1, max_size=6),
        weights=st.lists(st.floats(0, 10) | st.just(float("nan")), min_size=6, max_size=6),
        share=st.floats(0, 1),
    )
    def test_parts_are_whole_within_bounds_and_add_up(
        self, most: list[int], weights: list[float], share: float
    ) -> None:
        size = len(most)
        stage = SharedSlots(("s",), (tuple(range(size)),), minimum=(1,) * size, maximum=tuple(most))
        slots = max(1, round(share * sum(most)))
        parts = stage.parts([slots], np.array(weights[:size]))
        assert parts.sum() == slots
        assert ((parts >= 0) & (parts <= most)).all()


class TestPlans:
    def test_a_plan_counts_stages_and_explains_each_operators_part(self) -> None:
        made = plan([6, 1], [1.0, 4.0, 0.7])
        assert (made.units, made.counts.tolist()) == (("in", "store"), [6, 1])
        terms = {term.symbol: term for term in made.terms}
        assert [terms["s"].value(column) for column in range(3)] == [6, 6, 1]
        assert [terms["s_i"].value(column) for column in range(3)] == pytest.approx([1.2, 4.8, 1.0])

    def test_slots_are_cut_to_the_bounds_of_the_stage(self) -> None:
        assert plan([1, 9], [0.1, 0.1, 0.1]).counts.tolist() == [2, 4]

    def test_a_stage_without_a_slot_is_refused(self) -> None:
        with pytest.raises(PlanError, match="stage 'store': expected at least 1 slot, got 0"):
            Plan(layout=TOPOLOGY.layout, planner="x", made_at_s=0.0, replicas=[2, 1, 0], stages=STAGES)

    def test_an_operator_without_a_replica_is_refused_where_it_has_replicas_of_its_own(self) -> None:
        with pytest.raises(PlanError, match="operator 'store': expected at least 1 replica, got 0"):
            Plan(layout=TOPOLOGY.layout, planner="x", made_at_s=0.0, replicas=[2, 1, 0])

    def test_an_actuator_takes_parts_as_they_are(self) -> None:
        assert within_bounds(TOPOLOGY, plan([6, 1], [0.2, 5.0, 0.7])).tolist() == [0, 6, 1]

    def test_an_override_by_hand_sets_the_part_of_its_operator(self) -> None:
        held = overridden(plan([6, 1], [0.2, 5.0, 0.7]), {"classify": 3}, TOPOLOGY)
        assert held.replicas.tolist() == [0, 3, 1]


class TestGuards:
    def test_bounds_count_slots(self) -> None:
        guarded = Bounds(maximum=5).apply(plan([8, 1], [1.0, 6.0, 0.5]), situation([0, 2, 1]))
        assert guarded.counts.tolist() == [5, 1]
        assert guarded.notes == ("bounds of replicas: in 8 -> 5",)

    def test_a_part_that_moves_between_operators_does_not_cool_a_stage_down(self) -> None:
        at = situation([3, 3, 1], changed_at_s=99.0)
        same = plan([6, 1], [0.2, 5.0, 0.7], at)
        assert Cooldown(in_s=60).apply(same, at) is same

    def test_a_cool_down_holds_the_slots_of_a_stage(self) -> None:
        at = situation([1, 5, 1], changed_at_s=99.0)
        held = Cooldown(in_s=60).apply(plan([4, 1], [0.2, 5.0, 0.7], at), at)
        assert held.counts.tolist() == [6, 1]

    def test_a_delayed_scale_in_holds_slots_and_not_the_largest_part_of_each_operator(self) -> None:
        guard = DelayedScaleIn(hold_s=60)
        first = situation([4, 2, 1], now_s=100.0)
        guard.apply(plan([6, 1], [4.0, 2.0, 0.7], first), first)
        later = situation([2, 4, 1], now_s=105.0)
        assert guard.apply(plan([6, 1], [2.0, 4.0, 0.7], later), later).counts.tolist() == [6, 1]

    def test_a_budget_is_shared_between_stages(self) -> None:
        cut = SlotBudget(slots=6).apply(plan([8, 4], [1.0, 7.0, 4.0]), situation([0, 2, 1]))
        assert cut.counts.tolist() == [4, 2]

    def test_a_utilisation_target_adds_up_what_operators_of_a_stage_need(self) -> None:
        raised = UtilisationTarget(target=0.5).apply(plan([2, 1], [0.4, 1.3, 0.4]), situation([0, 2, 1]))
        assert raised.counts.tolist() == [4, 1]  # ⌈(.4 + 1.3) / .5⌉, not ⌈.8⌉ + ⌈2.6⌉
