"""The product's own planner: what it costs, what it learns, what it chooses, by hand-computed cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from foretide.clock import ManualClock
from foretide.control import ControlLoop, FluidSystem, Parts
from foretide.control.settings import LoopSettings
from foretide.errors import PlanError
from foretide.forecast import Auto, Basic
from foretide.plan import Foretide, PaSps, Situation
from foretide.plan.planners.foretide import surprise_wait_s
from foretide.records import Forecast, Plan
from foretide.topology import Topology, flow

MakeSituation = Callable[..., Situation]


def chain(*execution_s: float, most: int = 40) -> Topology:
    job = flow("chain")
    stream = job.source("in")
    for number, seconds in enumerate(execution_s):
        stream = stream.operator(f"O{number + 1}", execution_s=seconds, replicas=(1, most))
    return job.build()


def values(plan: Plan) -> dict[str, np.ndarray | float]:
    return {term.symbol: term.values for term in plan.terms}


def run(planner: Foretide | PaSps, rates: list[float], *, activation_s: float = 0.0, td_s: float = 5.0) -> list[Plan]:
    """Return the plans that a loop makes on a chain of two operators."""
    topology, clock, plans = chain(0.01, 0.02), ManualClock(), []
    system = FluidSystem(topology, np.repeat(rates, 5).tolist(), clock=clock, activation_s=activation_s)
    parts = Parts(
        metrics=system,
        actuator=system,
        planner=planner,
        forecaster=Basic(),
        clock=clock,
        on_decision=lambda decision: plans.append(decision.plan),
    )
    loop = ControlLoop(topology, parts, LoopSettings(td_s=td_s, sample_s=td_s))
    loop.run(cycles=len(rates))
    assert loop.failures == {}
    return plans


def test_surprise_wait_is_the_mean_residual_of_an_even_delay() -> None:
    """L even on [A, A + td]: E[L²]/(2 E[L]), here by summing over many delays."""
    delays = np.linspace(4.0, 10.0, 200_001)
    assert surprise_wait_s(6.0, 4.0) == pytest.approx((delays**2).mean() / (2 * delays.mean()), rel=1e-6)
    assert surprise_wait_s(3.0, 0.0) == 1.0


def test_a_steady_input_gets_what_it_keeps_busy_and_the_margin(make_situation: MakeSituation) -> None:
    """1000/s at 10 ms keep 10 replicas busy; 10.6 % heavier they are 11.06, and a twelfth is cheaper than a queue."""
    situation = make_situation(arrived=1000.0, execution_s=0.01, forecast=1000.0)
    plan = Foretide().plan(situation)
    assert plan.replicas.tolist() == [12, 12, 12]
    assert plan.demand == pytest.approx([11.06] * 3)
    assert Foretide(margin=0.0).plan(situation).replicas.tolist() == [10, 10, 10]


def test_patience_saves(make_situation: MakeSituation) -> None:
    """What is 5 % more than nine replicas can do gets a tenth, unless waiting costs next to nothing."""
    situation = make_situation(arrived=950.0, forecast=950.0)
    assert Foretide(margin=0.0).plan(situation).replicas.tolist() == [10, 10, 10]
    assert Foretide(margin=0.0, patience=100.0).plan(situation).replicas.tolist() == [9, 9, 9]


def test_operators_are_rounded_together(make_situation: MakeSituation) -> None:
    """What one operator cannot pass on needs no replica behind it: none of the three waits for another."""
    situation = make_situation(
        chain(0.01, 0.0101, 0.0102), arrived=100.0, execution_s=[0.01, 0.0101, 0.0102], forecast=100.0
    )
    planner = Foretide(margin=0.0, lateness=0.0, persistence=0.0, patience=3.0)
    assert planner.plan(situation).replicas.tolist() == [1, 1, 1]
    assert PaSps().plan(situation).replicas.tolist() == [1, 2, 2]


def test_the_cost_by_hand(make_situation: MakeSituation) -> None:
    """1 operator, 200/s at 10 ms, td 6 s, 1 replica: a queue grows at 100/s. R = 2 s, so P = 2.43 s.

    With steps of 1 s and queues of 50, 150, ... 550 in their middles, Σ Q² = 715 000 over λP² = 200·2.43² = 1180.98.
    Late: (0.25·6/2.43)² = .38104 for each of 1 200 events. Left over are 600: drained at
    x = √(600³/(3·1180.98)/6) = 100.80/s, more than 600/6, at a cost of 2·6·100.80.
    J = 6·1 + .01·(605.43 + 457.25 + 1209.6).
    """
    topology = chain(0.01, most=1)
    situation = make_situation(
        topology, td_s=6.0, arrived=1200.0, execution_s=0.01, replicas=1, forecast=200.0, utilisation=1.0
    )
    found = values(Foretide(margin=0.0).plan(situation))
    assert found["P"] == pytest.approx(2.43)
    assert found["a"] == pytest.approx((1.5 / 2.43) ** 2)
    scale = 200.0 * 2.43**2
    drain = np.sqrt(600.0**3 / (3 * scale) / 6.0)
    waiting = 715_000.0 / scale + (1.5 / 2.43) ** 2 * 1200.0 + 6.0 * drain + 600.0**3 / (3 * scale) / drain
    assert found["J"] == pytest.approx(6.0 + 0.01 * waiting)


def test_a_backlog_is_drained_the_faster_the_longer_it_is(make_situation: MakeSituation) -> None:
    """Spare capacity for 500 events and for ten times as many: x grows faster than in proportion, as √Q³ does."""
    spare = {}
    for queued in (0.0, 500.0, 5000.0):
        situation = make_situation(td_s=5.0, arrived=5000.0, queued={"O1": queued}, forecast=1000.0)
        spare[queued] = Foretide().plan(situation).replicas[0] - 12
    assert spare[0.0] == 0
    assert spare[5000.0] > 10 * spare[500.0] > 0


def test_the_plan_says_how_it_came_about(make_situation: MakeSituation) -> None:
    plan = Foretide().plan(make_situation(arrived=250.0, forecast=[250.0, 300.0], queued={"O2": 40.0}))
    found = values(plan)
    assert set(found) >= {
        "A",
        "λ",
        "λ̂",
        "λ̂⁺",
        "β",
        "|q|",
        "q̂",
        "et",
        "κ",
        "et*",
        "P",
        "a",
        "b",
        "J",
        "ΔJ⁺",
        "ΔJ⁻",
        "r*",
        "r",
    }
    assert found["q̂"].tolist() == [0.0, 40.0, 40.0]
    # Where the plan is at its best, neither one more nor one fewer would be cheaper.
    assert (np.nan_to_num(found["ΔJ⁺"]) >= 0).all() and (np.nan_to_num(found["ΔJ⁻"]) >= 0).all()


def test_an_unknown_execution_time_holds_the_replicas(make_situation: MakeSituation) -> None:
    plan = Foretide().plan(
        make_situation(arrived=200.0, forecast=200.0, execution_s={"O2": np.nan}, replicas={"O2": 9})
    )
    assert plan.replicas.tolist() == [3, 9, 3]
    assert "O2" in plan.notes[0]


def test_a_source_without_forecast_is_refused(make_situation: MakeSituation) -> None:
    with pytest.raises(PlanError, match="source 'in': expected a forecast"):
        Foretide().plan(make_situation())


def test_it_reckons_with_the_queue_that_will_be_there(make_situation: MakeSituation) -> None:
    """With 4 s until it is active and 3 replicas at work, 100 of 400 queued are left by then: 75/s are spare."""
    situation = make_situation(
        chain(0.01), td_s=4.0, arrived=900.0, execution_s=0.01, queued=400.0, replicas=3, forecast=225.0
    )
    found = values(Foretide(margin=0.0, activation_s=4.0).plan(situation))
    assert found["A"] == 4.0
    assert found["q̂"] == pytest.approx([100.0])


def test_persistence_fades_with_the_delay(make_situation: MakeSituation) -> None:
    situation = make_situation(arrived=100.0, forecast=300.0)
    for delay_s, weight in ((0.0, 0.66), (1.0, 0.66**3)):
        found = values(Foretide(activation_s=delay_s).plan(situation))
        assert found["λ̂"] == pytest.approx(300.0 - 200.0 * weight)


@pytest.mark.parametrize("activation_s", [0.0, 2.0, 5.0, 10.0])
def test_it_learns_how_long_a_plan_takes(activation_s: float) -> None:
    rates = [300.0, 900.0, 500.0, 1200.0, 200.0, 800.0, 400.0, 1000.0, 300.0, 700.0]
    plans = run(Foretide(), rates, activation_s=activation_s)
    assert values(plans[-1])["A"] == activation_s


def test_it_asks_for_forecasts_up_to_the_end_of_its_plan(make_situation: MakeSituation) -> None:
    planner = Foretide(activation_s=12.0)
    assert planner.intervals_ahead == 1
    planner.plan(make_situation(td_s=5.0, forecast=100.0))
    assert planner.intervals_ahead == 4


def test_it_learns_time_that_replicas_do_not_measure(make_situation: MakeSituation) -> None:
    """Busy for .9 of the time with a queue at both ends: an event takes 1/.9 of what is measured, and no margin."""
    planner = Foretide()
    state = {"queued": {"O1": 500.0}, "utilisation": {"O1": 0.9}, "forecast": 100.0}
    first = values(planner.plan(make_situation(now_s=1000.0, **state)))
    assert first["κ"].tolist() == [1.0, 1.0, 1.0]
    assert first["et*"] == pytest.approx([0.01106] * 3)
    then = values(planner.plan(make_situation(now_s=1001.0, **state)))
    assert then["κ"] == pytest.approx([1 / 0.9] * 3)
    assert then["et*"] == pytest.approx([0.01 / 0.9 * (1 + 0.106 / 4)] * 3)


def test_operators_that_take_turns_are_not_taken_for_slow(make_situation: MakeSituation) -> None:
    planner = Foretide()
    state = {"queued": 500.0, "utilisation": 0.5, "forecast": 100.0}
    for now_s in (1000.0, 1001.0):
        plan = planner.plan(make_situation(now_s=now_s, **state))
    assert values(plan)["κ"].tolist() == [1.0, 1.0, 1.0]


def test_a_clock_that_jumps_back_starts_it_anew(make_situation: MakeSituation) -> None:
    planner = Foretide()
    state = {"queued": 500.0, "utilisation": 0.9, "forecast": 100.0}
    for now_s in (1000.0, 1001.0, 10.0):
        plan = planner.plan(make_situation(now_s=now_s, **state))
    assert values(plan)["κ"].tolist() == [1.0, 1.0, 1.0]


def test_what_it_learnt_is_forgotten_after_its_memory(make_situation: MakeSituation) -> None:
    planner = Foretide(memory_s=60.0)
    state = {"utilisation": 0.9, "forecast": 100.0}
    for now_s, queued in ((1000.0, 500.0), (1001.0, 500.0), (1062.0, 0.0)):
        plan = planner.plan(make_situation(now_s=now_s, queued=queued, **state))
    assert values(plan)["κ"].tolist() == [1.0, 1.0, 1.0]


def test_errors_of_a_forecast_are_taken_in_proportion(make_situation: MakeSituation) -> None:
    """A forecaster that errs by ±30 around 100 is reckoned with ±60 where it says 200."""
    situation = make_situation(arrived=100.0, forecast=200.0)
    sure = situation.forecasts["in"]
    vague = replace(sure, quantiles={0.1: sure.mean - 30.0, 0.5: sure.mean, 0.9: sure.mean + 30.0})
    plan = Foretide(persistence=0.0).plan(replace(situation, forecasts={"in": vague}))
    # The highest of seven scenarios lies at the 13/14 quantile: 1.465 standard deviations, .9 being 1.2816.
    assert values(plan)["λ̂⁺"] == pytest.approx(200.0 + 60.0 * 1.4652 / 1.2816, rel=1e-4)


def test_fine_samples_are_averaged_before_they_are_feared() -> None:
    """Quantiles of single steps lie ±40, those of the mean over all four ±20: of two steps, ±40/√2."""
    from foretide.plan.possibilities import middle_and_sides

    mean = np.full(4, 100.0)
    forecast = Forecast(
        series="in",
        model="given",
        made_at_s=0.0,
        step_s=1.0,
        mean=mean,
        quantiles={0.1: mean - 40.0, 0.5: mean, 0.9: mean + 40.0},
        mean_quantiles={0.1: 80.0, 0.5: 100.0, 0.9: 120.0},
    )
    assert middle_and_sides(forecast, 0.0, 4.0) == pytest.approx((100.0, 20.0, 20.0))
    assert middle_and_sides(forecast, 2.0, 4.0) == pytest.approx((100.0, 40.0 / np.sqrt(2), 40.0 / np.sqrt(2)))
    assert middle_and_sides(forecast, 3.0, 4.0) == pytest.approx((100.0, 40.0, 40.0))


def test_replicas_that_come_late_are_not_asked_for_twice() -> None:
    """The input doubles, and replicas take 5 s: once they are on their way, the queue before them is theirs already."""
    rates = [300.0] * 6 + [600.0] * 8
    ours, paper = (run(planner, rates, activation_s=5.0) for planner in (Foretide(), PaSps()))
    assert (ours[6].replicas > ours[7].replicas).all()
    assert ours[7].replicas.tolist() == [6, 12]
    assert (paper[7].replicas > paper[6].replicas).all()


def test_it_plans_with_the_default_forecaster() -> None:
    topology, clock = chain(0.01, 0.02), ManualClock()
    system = FluidSystem(topology, [200.0 + 10.0 * second for second in range(60)], clock=clock)
    parts = Parts(metrics=system, actuator=system, planner=Foretide(), forecaster=Auto(background=False), clock=clock)
    loop = ControlLoop(topology, parts, LoopSettings(td_s=5.0))
    loop.run(cycles=12)
    assert loop.failures == {}
    assert system.queued.sum() < 40.0
    assert system.replicas.tolist() == pytest.approx([9, 18], abs=1)
