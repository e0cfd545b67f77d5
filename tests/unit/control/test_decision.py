from __future__ import annotations

import json

import numpy as np
import pytest

from foretide.clock import ManualClock
from foretide.control import ControlLoop, Decision, Failure, FluidSystem, LoopSettings, Parts
from foretide.errors import ConfigError, MetricsError, NotReadyError
from foretide.forecast import Basic
from foretide.plan import PaSps
from foretide.records import Term
from foretide.topology import Topology, flow


def branching_topology(execution_s: float | None = 0.01) -> Topology:
    job = flow("branches")
    first = job.source("in").operator(
        "O1", outputs=("news", "rest"), selectivity={"news": 0.7, "rest": 0.3}, execution_s=execution_s, replicas=(1, 8)
    )
    news = first["news"].operator("O2", execution_s=0.01, replicas=(1, 8))
    job.operator("O3", inputs=[news, first["rest"]], execution_s=0.01)
    return job.build()


def decided(advisory: bool = False) -> Decision:
    """Return the decision after 30 s at 300 events/s with one replica of 100 events/s everywhere."""
    topology, clock = branching_topology(), ManualClock()
    system = FluidSystem(topology, [300.0], clock=clock)
    parts = Parts(metrics=system, actuator=system, planner=PaSps(), forecaster=Basic(), clock=clock)
    loop = ControlLoop(topology, parts, LoopSettings(advisory=advisory))
    loop.run(cycles=1)
    assert loop.last_decision is not None
    return loop.last_decision


def test_explanation_leads_from_measurements_to_replicas() -> None:
    (why,) = decided().explain("O2")
    steps = {step["symbol"]: step for step in why.steps}
    assert why.operator == "O2"
    assert steps["λ_G"]["value"] == 9000.0
    assert steps["λ"]["value"] == pytest.approx(0.7 * 3000)
    assert steps["θ(O1[news])"]["value"] == pytest.approx(0.7)
    assert steps["λ̂(in)"]["value"] == 300.0
    assert steps["λ̂_G"]["value"] == 9000.0
    assert steps["θ"]["value"] == pytest.approx(0.7)
    # 0.7 · 9000 new events and 0.7 of the 6000 that wait at O1: 10 500 events of 10 ms in 30 s are 3.5 replicas.
    assert steps["λ̂^q"]["value"] == pytest.approx(4200.0)
    assert steps["λ̂"]["value"] == pytest.approx(10_500.0)
    assert steps["λ̂·et/td"]["value"] == pytest.approx(3.5)
    assert why.replicas == steps["r"]["value"] == 4
    assert [step["symbol"] for step in why.steps][-1] == "r"
    assert why.sources[:2] == ("window@30.000", "forecast:in@30.000")
    assert "measurement@1.000" in why.sources
    assert why.outcome == "applied"


def test_explanation_as_text_and_as_data() -> None:
    (why,) = decided(advisory=True).explain("O2")
    text = str(why)
    assert text.startswith("O2: 4 replicas (advised)\n")
    assert "λ̂^q = 4200 events" in text
    assert "[P5 Eq. 7: λ̂^q_i = |q_i| + Σ_p λ̂^q_p·θ_i^p]" in text
    assert text.splitlines()[-1].startswith("  from window@30.000, forecast:in@30.000, measurement@")
    data = json.loads(json.dumps(why.to_data(), allow_nan=False))
    assert (data["operator"], data["replicas"], data["outcome"]) == ("O2", 4, "advised")
    assert data["steps"][0]["symbol"] == "λ_G"


def test_without_a_name_every_operator_is_explained() -> None:
    assert [why.operator for why in decided().explain()] == ["O1", "O2", "O3"]


def test_every_edge_into_an_operator_is_explained() -> None:
    (why,) = decided().explain("O3")
    shares = {step["symbol"]: step["value"] for step in why.steps if step["symbol"].startswith("θ(")}
    assert shares == {"θ(O2)": pytest.approx(1.0), "θ(O1[rest])": pytest.approx(0.3)}


@pytest.mark.parametrize("operator", ["O9", ""])
def test_an_unknown_operator_is_refused(operator: str) -> None:
    with pytest.raises(ConfigError, match=rf"expected one of O1, O2, O3, got '{operator}'"):
        decided().explain(operator)


def test_a_cycle_without_a_plan_explains_nothing() -> None:
    failure = Failure("monitor", MetricsError("stale"))
    assert Decision(cycle=1, at_s=30.0, failure=failure).explain() == ()
    assert str(failure) == "monitor: stale"
    assert Failure("monitor", NotReadyError("too early"), ready=False).ready is False


def test_what_is_not_known_is_none_in_data() -> None:
    decision = decided()
    assert decision.plan is not None
    term = Term("et", "execution time", "measured", np.full(3, np.nan), "s")
    unknown = decision.plan.revised(decision.plan.replicas, term, "not measured yet")
    (why,) = Decision(cycle=1, at_s=30.0, window=decision.window, plan=unknown).explain("O1")
    assert why.to_data()["steps"][-1]["value"] is None
    assert why.notes[-1] == "not measured yet"
    assert "  note: not measured yet" in str(why)
    assert "(not acted upon)" in str(why)
