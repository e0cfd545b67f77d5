"""Promises in simulated time: how often they are kept, and what a plan that knows the input would need."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foretide.cli import app
from foretide.control.policies import parse_policy
from foretide.plan.promise import parse_promise
from foretide.sim.compare import Case, plain
from foretide.sim.fronts.clairvoyant import Future
from foretide.sim.fronts.promised import least_slot_seconds
from foretide.sim.options import SimulationOptions
from foretide.sim.settings import MicroBatch, SimulationSettings
from foretide.topology import Topology, flow
from foretide.traces import RateTrace

BATCHES = SimulationSettings(micro_batch=MicroBatch(fixed_s=0.1, per_task_s=0.0, trigger_s=0.5))


def count(most: int = 8) -> Topology:
    job = flow("words")
    job.source("in").operator("count", execution_s=0.01, replicas=(1, most))
    return job.build()


def least(
    rates: list[float], slo: str, settings: SimulationSettings = BATCHES, topology: Topology | None = None
) -> float | None:
    options = SimulationOptions.of({"planner": "static", "td_s": 5.0, "settings": settings, "warm_up_s": 0.0})
    future = Future(topology or count(), RateTrace("steps", bin_s=50, rates=rates), options)
    return least_slot_seconds(future, parse_promise(slo))


@pytest.mark.parametrize(
    ("slo", "slots"),
    [
        ("p95<1s", 2),  # half a second of work within 1 s - .475 s - .1 s
        ("p95<800ms", 3),
        ("p95<650ms", 7),
        ("p50<600ms", 2),  # half a period to wait: .25 s for the work
    ],
)
def test_slots_of_every_batch_by_hand(slo: str, slots: int) -> None:
    assert least([100.0, 100.0], slo) == pytest.approx(100 * slots, rel=0.02)


def test_each_batch_has_the_slots_that_it_needs() -> None:
    both, low, high = (
        least([40.0, 120.0], "p95<800ms"),
        least([40.0, 40.0], "p95<800ms"),
        least([120.0] * 2, "p95<800ms"),
    )
    assert None not in (both, low, high)
    assert both == pytest.approx((low + high) / 2, rel=0.02)  # type: ignore[operator]


def test_what_every_event_takes_besides_leaves_less_time() -> None:
    slower = BATCHES.model_copy(update={"base_latency_s": 0.2})
    assert least([100.0, 100.0], "p95<1s", slower) == least([100.0, 100.0], "p95<800ms")


@pytest.mark.parametrize("slo", ["p95<90ms", "p95<580ms"])  # below a batch; more slots than there are
def test_a_promise_that_no_plan_keeps_has_no_plan(slo: str) -> None:
    assert least([100.0, 100.0], slo) is None


def test_operators_with_replicas_of_their_own_and_several_stages_have_none() -> None:
    assert least([100.0, 100.0], "p95<1s", SimulationSettings()) is None
    job = flow("two")
    job.source("in").operator("a", execution_s=0.001).operator("b", execution_s=0.001, queued=True)
    assert least([100.0, 100.0], "p95<2s", BATCHES, job.build()) is None


@pytest.mark.slow
def test_a_promise_is_kept_for_little_more_than_a_plan_that_knew_the_input() -> None:
    """The surge is hired for at once: what runs until a plan is at work is not fixed at the slots of before."""
    trace = RateTrace("surge", bin_s=30, rates=[80.0, 80.0, 700.0, 700.0, 80.0, 700.0])
    settings = BATCHES.model_copy(update={"base_latency_s": 0.15})
    scenario = plain(trace, count(40), td_s=5.0, settings=settings, promise=parse_promise("p95<1s"), warm_up_s=20.0)
    row = Case(scenario, parse_policy("foretide:basic"), seed=0).row()
    assert row["slo"]["target_ms"] == 1000
    assert row["slo"]["kept"] >= 0.9 * row["slo"]["intervals"]
    assert row["over_clairvoyant"] == pytest.approx(row["slot_seconds"] / row["clairvoyant_slot_seconds"])
    assert row["over_clairvoyant"] < 1.15


class TestCommands:
    @pytest.fixture
    def trace(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.chdir(tmp_path)
        Path("monday.csv").write_text("second,events_per_second\n0,500\n20,900\n40,700\n60,700\n")
        return "monday.csv"

    def test_rows_say_how_often_it_was_kept_and_at_what_cost(self, runner: CliRunner, trace: str) -> None:
        batches = ("--slo", "p95<2s", "--set", "sim.micro_batch.fixed_s=0.2", "--td", "5", "--json", "out.json")
        found = runner.invoke(app, ["compare", "--traces", trace, "--policies", "static", "--jobs", "1", *batches])
        assert found.exit_code == 0, found.output
        assert "÷ clairv." in found.output
        [row] = json.loads(Path("out.json").read_text())["rows"]
        assert row["slo"] == {"target_ms": 2000, "quantile": 0.95, "kept": 10, "intervals": 10}
        found = runner.invoke(app, ["simulate", "pasps", "--trace", trace, "--policy", "static", *batches])
        assert found.exit_code == 0, found.output
        [again] = json.loads(Path("out.json").read_text())["rows"]
        assert again["slo"] == row["slo"]
        assert again["over_clairvoyant"] == row["over_clairvoyant"]

    def test_it_needs_batches(self, runner: CliRunner, trace: str) -> None:
        found = runner.invoke(app, ["simulate", "pasps", "--trace", trace, "--slo", "p95<2s"])
        assert found.exit_code != 0
        assert "sim.micro_batch" in str(found.output) + str(found.exception)

    def test_it_is_read_before_anything_runs(self, runner: CliRunner, trace: str) -> None:
        batches = ["--set", "sim.micro_batch.fixed_s=0.2"]
        found = runner.invoke(app, ["simulate", "pasps", "--trace", trace, "--slo", "fast", *batches])
        assert found.exit_code != 0
        assert "such as 'p95<500ms'" in str(found.output) + str(found.exception)
