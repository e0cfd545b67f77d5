"""The lag rule with its cool-down."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from foretide.plan.base import Situation
from foretide.plan.planners.threshold import Threshold
from foretide.topology import Topology, flow

MakeSituation = Callable[..., Situation]


def single(minimum: int = 1, name: str = "work") -> Topology:
    job = flow("single")
    job.source("in").operator(name, replicas=(minimum, 20))
    return job.build()


@pytest.mark.parametrize("lag, wanted", [(0.0, 1), (1.0, 1), (100.0, 1), (101.0, 2), (1000.0, 10), (1e9, 20)])
def test_one_replica_per_hundred_waiting_events(make_situation: MakeSituation, lag: float, wanted: int) -> None:
    assert Threshold().plan(make_situation(single(), queued=lag)).replicas.tolist() == [wanted]


def test_never_below_the_minimum(make_situation: MakeSituation) -> None:
    situation = make_situation(single(minimum=3), queued=0.0, replicas=3)
    assert Threshold(cooldown_s=0.0).plan(situation).replicas.tolist() == [3]


def test_scale_in_waits_for_the_cool_down(make_situation: MakeSituation) -> None:
    planner = Threshold(cooldown_s=300.0)

    def replicas_at(now_s: float, lag: float) -> int:
        return int(planner.plan(make_situation(single(), queued=lag, replicas=5, now_s=now_s)).replicas[0])

    assert replicas_at(0.0, lag=500.0) == 5
    assert replicas_at(100.0, lag=50.0) == 5
    assert replicas_at(299.0, lag=50.0) == 5
    assert replicas_at(300.0, lag=150.0) == 2


def test_needing_all_it_has_starts_the_cool_down_again(make_situation: MakeSituation) -> None:
    planner = Threshold(cooldown_s=300.0)
    decided = []
    for now_s, lag in ((0.0, 500.0), (200.0, 450.0), (400.0, 50.0), (499.0, 50.0), (500.0, 50.0)):
        situation = make_situation(single(), queued=lag, replicas=5, now_s=now_s)
        decided.append(int(planner.plan(situation).replicas[0]))
    assert decided == [5, 5, 5, 5, 1]


def test_scale_out_never_waits(make_situation: MakeSituation) -> None:
    planner = Threshold()
    planner.plan(make_situation(single(), queued=500.0, replicas=5, now_s=0.0))
    assert planner.plan(make_situation(single(), queued=900.0, replicas=5, now_s=1.0)).replicas.tolist() == [9]


def test_the_cool_down_starts_when_an_operator_is_first_seen(make_situation: MakeSituation) -> None:
    planner = Threshold(cooldown_s=60.0)
    for now_s, expected in ((1000.0, 8), (1059.0, 8), (1060.0, 1)):
        situation = make_situation(single(), queued=0.0, replicas=8, now_s=now_s)
        assert planner.plan(situation).replicas.tolist() == [expected]


def test_a_clock_that_jumps_back_restarts_the_cool_down(make_situation: MakeSituation) -> None:
    planner = Threshold(cooldown_s=60.0)
    for now_s, expected in ((1000.0, 8), (10.0, 8), (69.0, 8), (70.0, 1)):
        situation = make_situation(single(), queued=0.0, replicas=8, now_s=now_s)
        assert planner.plan(situation).replicas.tolist() == [expected]


def test_another_topology_starts_afresh(make_situation: MakeSituation) -> None:
    planner = Threshold(cooldown_s=60.0)
    planner.plan(make_situation(single(), replicas=8, now_s=0.0))
    other = make_situation(single(name="other"), replicas=8, now_s=100.0)
    assert planner.plan(other).replicas.tolist() == [8]


def test_operators_cool_down_on_their_own(make_situation: MakeSituation) -> None:
    planner = Threshold(cooldown_s=60.0)
    planner.plan(make_situation(queued={"O1": 0.0, "O2": 800.0}, replicas=8, now_s=0.0))
    planner.plan(make_situation(queued={"O1": 0.0, "O2": 800.0}, replicas=8, now_s=50.0))
    plan = planner.plan(make_situation(queued=0.0, replicas=8, now_s=70.0))
    assert plan.replicas.tolist() == [1, 8, 1]
