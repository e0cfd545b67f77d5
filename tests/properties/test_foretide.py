"""What holds for the product's own planner and its fluid model, whatever they are shown."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from foretide.plan import Foretide, Situation
from foretide.plan.lookahead import Lookahead, Prices, Scenarios
from foretide.plan.planners.foretide import surprise_wait_s
from foretide.topology import FlowGraph

MakeSituation = Callable[..., Situation]

rates = st.floats(0.0, 1e5)
seconds = st.floats(0.1, 600.0)


@st.composite
def models(draw: st.DrawFn) -> tuple[Lookahead, Scenarios]:
    """Draw a chain of operators with queues, and what may arrive."""
    operators = draw(st.integers(1, 4))
    nodes = np.arange(operators)
    each = st.floats(1e-4, 0.1)
    model = Lookahead(
        flow=FlowGraph(1, operators, nodes, nodes + 1),
        share=np.ones(operators),
        execution_s=np.array(draw(st.lists(each, min_size=operators, max_size=operators))),
        parts=np.ones(operators),
        queued=np.array(draw(st.lists(rates, min_size=operators, max_size=operators))),
        running=np.array(draw(st.lists(st.integers(1, 30), min_size=operators, max_size=operators)), dtype=np.float64),
        activation_s=draw(st.sampled_from([0.0, 5.0])),
        interval_s=draw(st.sampled_from([1.0, 5.0, 30.0])),
    )
    cases = np.array(draw(st.lists(rates, min_size=1, max_size=4)))[:, None]
    return model, Scenarios(before=cases, during=cases, weight=np.full(len(cases), 1.0 / len(cases)))


@examples(0.8)
@given(drawn=models(), more=st.integers(1, 5))
@pytest.mark.slow
def test_more_replicas_never_make_anyone_wait_longer(drawn: tuple[Lookahead, Scenarios], more: int) -> None:
    model, scenarios = drawn
    prices = Prices(patience_s=2.0, lateness=0.3)
    few, many = model.running[None, :], model.running[None, :] + more
    waiting = [model.costs(plan, scenarios, prices)[0] - model.interval_s * plan.sum() for plan in (few, many)]
    assert waiting[0] >= waiting[1] - 1e-6 * abs(waiting[0]) - 1e-6
    assert waiting[1] >= -1e-6


@examples(0.8)
@given(drawn=models())
def test_no_event_is_lost_before_the_plan_is_active(drawn: tuple[Lookahead, Scenarios]) -> None:
    """What is queued then is at most what was queued and what came, and never less than none."""
    model, scenarios = drawn
    then = model.queued_then(scenarios.before)
    came = scenarios.before[:, 0] * model.activation_s
    assert (then >= 0).all()
    assert (then.sum(axis=1) <= model.queued.sum() + came + 1e-6 * (1 + came)).all()


@examples(0.5)
@given(rate=st.floats(10.0, 1e4), factor=st.floats(0.01, 100.0), queued=st.floats(0.0, 1e4))
def test_a_plan_depends_on_work_alone(make_situation: MakeSituation, rate: float, factor: float, queued: float) -> None:
    """Ten times the events that are ten times as light need the same replicas."""
    plans = [
        Foretide().plan(
            make_situation(
                td_s=5.0, arrived=5.0 * rate * k, forecast=1.2 * rate * k, queued=queued * k, execution_s=0.002 / k
            )
        )
        for k in (1.0, factor)
    ]
    np.testing.assert_array_equal(plans[0].replicas, plans[1].replicas)


@given(interval_s=seconds, delay_s=st.floats(0.0, 600.0))
def test_the_wait_after_a_surprise_lies_between_its_bounds(interval_s: float, delay_s: float) -> None:
    """At least half the delay that there always is, at most half of the longest, and growing with it."""
    wait_s = surprise_wait_s(interval_s, delay_s)
    assert delay_s / 2 <= wait_s * (1 + 1e-9) and wait_s <= (delay_s + interval_s) / 2
    assert surprise_wait_s(interval_s, delay_s + 1.0) > wait_s
