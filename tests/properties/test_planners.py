"""What holds for every planner whatever it is shown: bounds, determinism, and more load never means fewer replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from foretide.plan import PLANNERS, Autoscale, AutoscalePlus, Situation, make_planner
from foretide.records import CpuUse
from foretide.topology import Edge, Operator, ReplicaBounds, Source, Topology

MakeSituation = Callable[..., Situation]
Facts = Mapping[str, Any]

#: Sized by a formula of arrivals, queues and forecasts. The lag rule is one of them once its cool-down is over.
BY_FORMULA = {name: make_planner(name) for name in ("srea", "spea", "presps", "pasps", "ds2")} | {
    "threshold": make_planner("threshold", cooldown_s=0),
    "keda": make_planner("keda", tolerance=0, scale_down_window_s=0, scale_up_replicas=1000),
}
KEEP_STATE = ("rlearning", "threshold", "foretide", "flink", "keda")

amounts = st.floats(0.0, 1e7)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    sources = [f"S{number}" for number in range(draw(st.integers(1, 2)))]
    operators, edges = [], []
    for number in range(draw(st.integers(1, 5))):
        lowest = draw(st.integers(1, 4))
        highest = draw(st.integers(lowest, 40))
        operators.append(Operator(f"O{number}", replicas=ReplicaBounds(lowest, highest, lowest)))
        before = [*sources, *(operator.id for operator in operators[:-1])]
        parents = draw(st.sets(st.sampled_from(before), min_size=1, max_size=3))
        edges += [Edge(parent, f"O{number}") for parent in sorted(parents)]
    read = {edge.start for edge in edges}
    edges += [Edge(source, "O0") for source in sources if source not in read]
    return Topology("any", tuple(Source(id) for id in sources), tuple(operators), edges=tuple(edges))


def columns(size: int, elements: st.SearchStrategy[float]) -> st.SearchStrategy[np.ndarray]:
    return arrays.arrays(np.float64, size, elements=elements)


@st.composite
def facts(draw: st.DrawFn) -> dict[str, Any]:
    """Draw what a situation is made of, as arguments of `make_situation`."""
    topology = draw(topologies())
    sources, operators = len(topology.sources), len(topology.operators)
    samples = draw(st.integers(0, 8))
    rate = st.one_of(st.just(np.nan), amounts)
    return {
        "topology": topology,
        "td_s": draw(st.sampled_from([1.0, 30.0])),
        "arrived": draw(columns(sources, amounts)),
        "share": draw(columns(len(topology.layout.edges), st.floats(0.0, 4.0))),
        "queued": draw(columns(operators, amounts)),
        "execution_s": draw(columns(operators, st.one_of(st.just(np.nan), st.floats(1e-7, 10.0)))),
        "processed": draw(columns(operators, amounts)),
        "utilisation": draw(columns(operators, st.floats(0.0, 1.0))),
        "replicas": np.array(
            [draw(st.integers(op.replicas.minimum, op.replicas.maximum)) for op in topology.operators]
        ),
        "forecast": {source.id: draw(st.lists(amounts, min_size=1, max_size=3)) for source in topology.sources},
        "history": draw(arrays.arrays(np.float64, (samples, sources), elements=rate)),
        "received_history": draw(arrays.arrays(np.float64, (samples, operators), elements=rate)),
        "cpu": draw(st.one_of(st.none(), cpu_of(operators))),
    }


@st.composite
def cpu_of(draw: st.DrawFn, operators: int) -> CpuUse:
    replicas = draw(st.integers(0, 6))
    whole = arrays.arrays(np.int64, replicas, elements=st.integers(0, operators - 1))
    shares = columns(replicas, st.floats(0.0, 2.0))
    return CpuUse(operator=draw(whole), core=draw(whole), used=draw(shares), reserved=draw(shares))


def contents(situation: Situation) -> dict[str, np.ndarray]:
    found = {field.name: getattr(situation.window, field.name) for field in fields(situation.window)}
    found |= {"planned": situation.replicas, "changed_at_s": situation.changed_at_s}
    return {name: np.array(value) for name, value in found.items() if isinstance(value, np.ndarray)}


# All planners look at the same situation: drawing one takes far longer than planning for it.
@examples(1)
@given(facts=facts())
def test_plans_stay_in_bounds_and_leave_the_situation_alone(make_situation: MakeSituation, facts: Facts) -> None:
    situation = make_situation(**facts)
    before = contents(situation)
    lowest, highest = situation.topology.minimum_replicas, situation.topology.maximum_replicas
    for name in PLANNERS:
        plan = make_planner(name).plan(situation)
        assert ((plan.replicas >= lowest) & (plan.replicas <= highest)).all(), name
        shapes = {np.shape(term.values) for term in plan.terms}
        assert shapes <= {(), plan.replicas.shape}, name
        assert plan.demand is not None and plan.demand.shape == plan.replicas.shape, name
        for field, array in contents(situation).items():
            np.testing.assert_array_equal(array, before[field], err_msg=f"{name} wrote into {field}")


@examples(0.5)
@given(facts=facts())
def test_the_same_situation_gives_the_same_plan(make_situation: MakeSituation, facts: Facts) -> None:
    situation = make_situation(**facts)
    for name in PLANNERS:
        planner = make_planner(name)
        first = planner.plan(situation)
        again = (make_planner(name) if name in KEEP_STATE else planner).plan(situation)
        np.testing.assert_array_equal(first.replicas, again.replicas, err_msg=name)
        for one, other in zip(first.terms, again.terms, strict=True):
            np.testing.assert_array_equal(one.values, other.values, err_msg=f"{name}: {one.symbol}")


@examples(1)
@given(facts=facts(), data=st.data())
def test_more_load_never_means_fewer_replicas(make_situation: MakeSituation, facts: Facts, data: st.DataObject) -> None:
    more = dict(facts)
    more["arrived"] = facts["arrived"] + data.draw(columns(len(facts["arrived"]), amounts), "more arrivals")
    more["queued"] = facts["queued"] + data.draw(columns(len(facts["queued"]), amounts), "more queued")
    extra = data.draw(amounts, "more forecast")
    more["forecast"] = {source: [rate + extra for rate in rates] for source, rates in facts["forecast"].items()}
    before, after = make_situation(**facts), make_situation(**more)
    for name, planner in BY_FORMULA.items():
        assert (planner.plan(after).replicas >= planner.plan(before).replicas).all(), name


@pytest.mark.parametrize("planner", [Autoscale(), Autoscale(combine="min")], ids=["max", "min"])
@examples(0.6)
@given(facts=facts(), factor=st.floats(1.0, 100.0), data=st.data())
def test_d1_a_steeper_history_and_a_longer_queue_never_lower_the_estimate(
    make_situation: MakeSituation, planner: Autoscale, facts: Facts, factor: float, data: st.DataObject
) -> None:
    more = dict(facts)
    for name in ("arrived", "history", "received_history"):
        more[name] = facts[name] * factor
    more["queued"] = facts["queued"] + data.draw(columns(len(facts["queued"]), amounts), "more queued")
    less_estimate, more_estimate = (planner.estimate(make_situation(**given)).total for given in (facts, more))
    assert (more_estimate >= less_estimate * (1 - 1e-9)).all()


@examples(0.6)
@given(facts=facts())
def test_d1_max_is_never_below_min(make_situation: MakeSituation, facts: Facts) -> None:
    situation = make_situation(**facts)
    cautious, frugal = (AutoscalePlus(combine=combine).estimate(situation).total for combine in ("max", "min"))
    assert (cautious >= frugal).all()
