"""Loads and replicas of PA-SPS and PRESPS (SPEC P4, P5), against the papers' worked examples."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from topologies import line

from foretide.errors import ConfigError, PlanError
from foretide.plan.base import Situation
from foretide.plan.load import (
    busy_replicas,
    edge_shares,
    needed_replicas,
    operator_shares,
    queue_load,
    required_replicas,
    source_mix,
    whole_replicas,
)
from foretide.plan.planners.pasps import PaSps
from foretide.plan.planners.presps import Presps
from foretide.plan.planners.static import Static
from foretide.records import Plan
from foretide.topology import Topology, flow

MakeSituation = Callable[..., Situation]
FIG_6 = {("O1", "O2"): 0.7, ("O1", "O3"): 0.3, ("O2", "O4"): 0.4, ("O3", "O4"): 1.0}


def diamond() -> Topology:
    """Return Fig. 6 of PA-SPS: O1 splits into O2 and O3, which meet in O4."""
    job = flow("figure 6")
    first = job.source("in").operator("O1")
    left, right = first.operator("O2"), first.operator("O3")
    job.operator("O4", inputs=[left, right])
    return job.build()


def values(plan: Plan, symbol: str) -> list[float]:
    term = next(term for term in plan.terms if term.symbol == symbol)
    return [term.value(column) for column in range(len(plan.layout.operators))]


def test_p5_eq5_figure_6(make_situation: MakeSituation) -> None:
    plan = PaSps().plan(make_situation(diamond(), share=FIG_6, forecast=100.0))
    assert values(plan, "θ") == pytest.approx([1.0, 0.7, 0.3, 0.58])
    assert values(plan, "λ̂ʳ") == pytest.approx([100.0, 70.0, 30.0, 58.0])


def test_p5_eq7_queues_on_a_diamond(make_situation: MakeSituation) -> None:
    """10; 5 + 10·.7 = 12; 2 + 10·.3 = 5; 1 + 12·.4 + 5·1 = 10.8."""
    queued = {"O1": 10.0, "O2": 5.0, "O3": 2.0, "O4": 1.0}
    plan = PaSps().plan(make_situation(diamond(), share=FIG_6, forecast=100.0, queued=queued))
    assert values(plan, "λ̂^q") == pytest.approx([10.0, 12.0, 5.0, 10.8])
    assert values(plan, "λ̂") == pytest.approx([110.0, 82.0, 35.0, 68.8])


def test_p5_presps_counts_its_own_queue_alone(make_situation: MakeSituation) -> None:
    queued = {"O1": 10.0, "O2": 5.0, "O3": 2.0, "O4": 1.0}
    plan = Presps().plan(make_situation(diamond(), share=FIG_6, arrived=100.0, queued=queued))
    assert values(plan, "λ̂") == pytest.approx([110.0, 75.0, 32.0, 59.0])


def test_p4_p5_presps_table_4(make_situation: MakeSituation) -> None:
    """θ 1/.833/.625 with λ̂_G = 100 and queues 0/7/20 gives λ̂ 100/≈91/≈83 and r = 2/3/9."""
    situation = make_situation(
        arrived=100.0,
        share={("O1", "O2"): 0.833, ("O2", "O3"): 0.625 / 0.833},
        queued={"O2": 7.0, "O3": 20.0},
        execution_s={"O1": 0.0166, "O2": 0.025, "O3": 0.1},
    )
    plan = Presps().plan(situation)
    assert values(plan, "λ̂") == pytest.approx([100.0, 90.3, 82.5])
    assert plan.replicas.tolist() == [2, 3, 9]


def test_p4_eq2_rounds_up_and_needs_at_least_one() -> None:
    np.testing.assert_array_equal(required_replicas([0.0, 1.0, 100.0, 101.0], 0.01, 1.0), [1.0, 1.0, 1.0, 2.0])
    np.testing.assert_allclose(busy_replicas([300.0], [0.2], 30.0), [2.0])


def test_p4_rounding_noise_is_no_replica() -> None:
    assert sum([0.1] * 3) * 10 > 3
    np.testing.assert_array_equal(whole_replicas([sum([0.1] * 3) * 10]), [3.0])
    np.testing.assert_array_equal(whole_replicas([np.nan]), [np.nan])


def test_p5_eq6_a_start_that_processed_nothing_keeps_the_share_known_before() -> None:
    shares = edge_shares(np.array([70.0, 0.0]), np.array([100.0, 0.0]), np.array([0.1, 0.4]))
    np.testing.assert_allclose(shares, [0.7, 0.4])


def test_p5_eq6_leaves_its_argument_alone() -> None:
    otherwise = np.array([0.1, 0.4])
    edge_shares(np.array([70.0, 0.0]), np.array([100.0, 0.0]), otherwise)
    np.testing.assert_array_equal(otherwise, [0.1, 0.4])


def test_p5_sources_share_the_input_by_what_arrives(make_situation: MakeSituation) -> None:
    job = flow("two sources")
    left, right = job.source("a").operator("left"), job.source("b").operator("right")
    job.operator("both", inputs=[left, right])
    plan = PaSps().plan(make_situation(job.build(), forecast={"a": 30.0, "b": 10.0}))
    assert values(plan, "θ") == pytest.approx([0.75, 0.25, 1.0])
    assert values(plan, "λ̂ʳ") == pytest.approx([30.0, 10.0, 40.0])


def test_p5_without_input_sources_share_evenly() -> None:
    np.testing.assert_array_equal(source_mix(np.zeros(4)), [0.25] * 4)


def test_p5_eq5_and_7_by_their_functions() -> None:
    graph = diamond().flow
    share = np.array([1.0, 0.7, 0.3, 0.4, 1.0])
    np.testing.assert_allclose(operator_shares(graph, np.ones(1), share), [1.0, 0.7, 0.3, 0.58])
    np.testing.assert_allclose(queue_load(graph, np.array([10.0, 0.0, 0.0, 0.0]), share), [10.0, 7.0, 3.0, 5.8])


@pytest.mark.parametrize("planner", [PaSps(), Presps()])
def test_p7_an_unknown_execution_time_holds_the_replicas(
    make_situation: MakeSituation, planner: PaSps | Presps
) -> None:
    situation = make_situation(
        arrived=200.0, forecast=200.0, execution_s={"O2": np.nan}, replicas={"O1": 7, "O2": 7, "O3": 7}
    )
    plan = planner.plan(situation)
    assert plan.replicas.tolist() == [2, 7, 2]
    assert plan.notes == ("execution time of O2 not known yet: replicas stay as they are",)


def test_pasps_without_a_forecast_says_so(make_situation: MakeSituation) -> None:
    with pytest.raises(PlanError, match="'in': expected a forecast"):
        PaSps().plan(make_situation())


def test_a_plan_knows_what_it_came_from(make_situation: MakeSituation) -> None:
    plan = PaSps().plan(make_situation(forecast=100.0, now_s=60.0))
    assert plan.came_from == ("window@60.000", "forecast:in@60.000")
    assert (plan.planner, plan.made_at_s) == ("pasps", 60.0)


def test_p10_static_keeps_what_the_user_set(make_situation: MakeSituation) -> None:
    situation = make_situation(arrived=1e6, queued=1e6)
    assert Static(replicas=4, by_operator={"O2": 8}).plan(situation).replicas.tolist() == [4, 8, 4]
    assert Static().plan(situation).replicas.tolist() == [1, 1, 1]
    assert Static(replicas=99).plan(situation).replicas.tolist() == [32, 32, 32]


def test_static_for_an_operator_that_is_not_there(make_situation: MakeSituation) -> None:
    with pytest.raises(ConfigError, match="O1, O2, O3"):
        Static(by_operator={"O9": 2}).plan(make_situation())


def test_p4_replicas_that_an_input_needs_stay_within_bounds() -> None:
    topology = line(0.01, 0.02)
    assert needed_replicas(topology, 0.0).tolist() == [1, 1]
    assert needed_replicas(topology, 150.0).tolist() == [2, 3]
    assert needed_replicas(topology, 1e6).tolist() == [8, 8]
    assert needed_replicas(topology, {"in": 100.0}, np.array([0.02, np.nan])).tolist() == [2, 1]


def test_p5_what_waits_upstream_is_needed_for_downstream_too() -> None:
    # In 2 s: 200 come and 100 wait at a, half of which reach b, where 30 wait: 300·.01/2 and (150 + 30)·.02/2.
    needed = needed_replicas(
        line(0.01, 0.02), np.array([200.0]), interval_s=2.0, share=np.array([1.0, 0.5]), queued=np.array([100.0, 30.0])
    )
    assert needed.tolist() == [2, 2]
