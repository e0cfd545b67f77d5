from __future__ import annotations

import numpy as np
import pytest

from foretide.control.decision import Decision, Failure
from foretide.errors import NotReadyError
from foretide.plan.planners.foretide import Foretide
from foretide.plan.promise import parse_promise
from foretide.report import record_of, to_html
from foretide.report.runs import decision_mark, expected_input
from foretide.sim.outcome import SimulationReport
from foretide.sim.run import simulate
from foretide.sim.settings import MicroBatch, SimulationSettings
from foretide.sim.stress import Stress
from foretide.topology import flow
from foretide.traces import RateTrace


@pytest.fixture(scope="module")
def report() -> SimulationReport:
    job = flow("words")
    job.source("in").operator("split", execution_s=0.002, replicas=(1, 8)).operator(
        "count", execution_s=0.01, replicas=(1, 8)
    )
    trace = RateTrace("steps", 30, np.array([50.0, 350.0, 100.0]))
    return simulate(job.build(), trace, planner="pasps", forecaster="lr", td_s=5.0, stress=Stress(), seed=2)


def test_a_simulated_run_becomes_a_record(report: SimulationReport) -> None:
    record = record_of(report)
    assert record.title == "words on steps"
    assert record.facts["policy"] == "pasps"
    assert record.facts["forecaster"] == "lr"
    assert record.facts["stress"].startswith("service × 1.1, noise CV 0.2 (service) and 0.2 (input)")
    assert len(record.figures) == 13
    assert record.replicas.shape == (90, 2)
    assert record.input_per_s[-10:].mean() == pytest.approx(100, rel=0.2)
    assert len(record.decisions) == 17
    assert "events received" in record.notes[0]
    assert len(to_html(record)) > 1_000_000


def test_the_forecast_of_the_next_interval_is_shown_with_its_band(report: SimulationReport) -> None:
    expected = expected_input(report.decisions, 5.0)
    assert expected is not None
    last = report.decisions[-1]
    assert expected.from_s[-1] == last.at_s
    assert expected.rate_per_s[-1] == pytest.approx(last.forecasts["in"].interval_events(5.0, 1)[0] / 5.0)
    assert expected.band == "10–90 %"
    assert expected.low_per_s is not None
    assert expected.high_per_s is not None
    assert (expected.low_per_s <= expected.high_per_s).all()
    assert expected_input([Decision(cycle=1, at_s=5.0)], 5.0) is None


def test_a_decision_says_what_changes_and_why(report: SimulationReport) -> None:
    changed = [mark for mark in map(decision_mark, report.decisions) if mark.changed]
    assert changed
    mark = changed[0]
    assert "replicas" in mark.headline
    assert any(reason.startswith("λ̂_G = ") for reason in mark.reasons)
    assert any(reason.startswith("count ") and "λ̂·et/td = " in reason for reason in mark.reasons)


def test_a_cycle_without_a_plan_says_so() -> None:
    failed = Decision(cycle=1, at_s=5.0, failure=Failure("monitor", NotReadyError("too early"), ready=False))
    mark = decision_mark(failed)
    assert (mark.headline, mark.reasons, mark.changed) == ("5 s: no plan", ("monitor: too early",), False)


def test_a_promise_is_drawn_with_what_was_expected_and_kept() -> None:
    job = flow("words")
    job.source("in").operator("count", execution_s=0.01, replicas=(1, 8))
    found = simulate(
        job.build(),
        RateTrace("flat", 60, np.array([100.0])),
        planner=Foretide(slo="p95<1s"),
        forecaster="basic",
        td_s=5.0,
        settings=SimulationSettings(micro_batch=MicroBatch(fixed_s=0.1, trigger_s=0.5)),
        promise=parse_promise("p95<1s"),
    )
    record = record_of(found)
    assert list(record.outlook_ms) == ["p50 expected", "p95 expected", "promised (p95)"]
    assert (record.outlook_ms["p50 expected"] < record.outlook_ms["p95 expected"]).all()
    assert set(record.outlook_ms["promised (p95)"].tolist()) == {1000.0}
    assert record.outlook_at_s.size == len(found.decisions)
    assert record.figures[-1].name == "promise p95<1000ms"
    assert record.figures[-1].meaning == "kept in 6 of 6 intervals"
    assert "latency promised (p95)" in to_html(record)
