from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.plan.cost import Costs, timetable_cost
from foretide.plan.guards import share_slots
from foretide.plan.planners.cba import cancel_restarts, capacity_timetable, cba_timetable, merge_actions
from foretide.plan.planners.optimal import optimal_timetable
from foretide.plan.planners.spea import spea_timetable
from foretide.plan.planners.srea import srea_timetable

PRICES = st.integers(0, 40)
COSTS = st.builds(Costs, running=st.integers(1, 40), start=PRICES, stop=PRICES, reroute=PRICES)
FRACTIONS = st.floats(0.0, 1e6, allow_subnormal=False)
ANY_COSTS = st.builds(Costs, running=st.floats(1e-3, 1e6), start=FRACTIONS, stop=FRACTIONS, reroute=FRACTIONS)
NEEDS = st.lists(st.integers(0, 12), min_size=1, max_size=24)
INITIAL = st.none() | st.integers(0, 15)


def at_most(cost, other):
    return cost <= other * (1 + 1e-9) + 1e-9


@given(needs=NEEDS, costs=COSTS | ANY_COSTS, initial=INITIAL)
def test_optimal_never_costs_more_than_any_other_planner(needs, costs, initial):
    best = optimal_timetable(needs, costs, initial=initial)

    assert (best >= needs).all()
    for timetable in (cba_timetable(needs, costs, initial), spea_timetable(needs), srea_timetable(needs)):
        assert at_most(timetable_cost(best, costs, initial), timetable_cost(timetable, costs, initial))


@given(
    needs=st.lists(st.integers(0, 3), min_size=1, max_size=4),
    costs=COSTS,
    initial=st.none() | st.integers(0, 4),
    maximum=st.none() | st.integers(3, 5),
)
def test_optimal_equals_the_best_of_all_timetables(needs, costs, initial, maximum):
    counts = range((5 if maximum is None else maximum) + 1)
    allowed = (table for table in product(counts, repeat=len(needs)) if all(np.greater_equal(table, needs)))
    least = min(timetable_cost(table, costs, initial) for table in allowed)

    best = optimal_timetable(needs, costs, maximum, initial)

    assert timetable_cost(best, costs, initial) == pytest.approx(least)
    assert maximum is None or best.max() <= maximum


@given(needs=NEEDS, costs=COSTS | ANY_COSTS, initial=INITIAL)
def test_no_step_of_cba_falls_below_the_needs_or_costs_more(needs, costs, initial):
    first = capacity_timetable(needs)
    second = merge_actions(first, costs, initial)
    third = cancel_restarts(second, costs, initial)

    assert (first == needs).all()
    assert (second >= needs).all()
    assert (third >= second).all()
    assert at_most(timetable_cost(second, costs, initial), timetable_cost(first, costs, initial))
    assert at_most(timetable_cost(third, costs, initial), timetable_cost(second, costs, initial))


@given(needs=NEEDS, costs=COSTS, initial=INITIAL)
def test_cba_leaves_no_restart_that_is_worth_cancelling(needs, costs, initial):
    done = cba_timetable(needs, costs, initial)

    assert (cancel_restarts(done, costs, initial) == done).all()
    assert done.max() <= max(*needs, initial or 0, 0)


@st.composite
def budgets(draw):
    minimum = draw(st.lists(st.integers(1, 6), min_size=1, max_size=20))
    wanted = [low + draw(st.integers(0, 40)) for low in minimum]
    return np.array(wanted), np.array(minimum), draw(st.integers(sum(minimum), sum(wanted) + 3))


@given(budgets())
def test_a_slot_budget_is_used_up_and_shared_fairly(budget):
    wanted, minimum, slots = budget

    granted = share_slots(wanted, minimum, slots)

    assert (granted >= minimum).all() and (granted <= wanted).all()
    assert granted.sum() == min(slots, wanted.sum())
    # Nobody is a whole replica better off than the factor that another did not even reach.
    above, short = granted > minimum, granted < wanted
    if above.any() and short.any():
        assert ((granted - 1) / wanted)[above].max() < ((granted + 1) / wanted)[short].min()
