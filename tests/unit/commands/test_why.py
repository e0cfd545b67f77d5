"""``foretide why``, on recorded simulated runs: slots per stage with a promise, replicas per operator, no decision."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from simulated_recording import Recording, record_simulation
from topologies import line
from typer.testing import CliRunner

from foretide.cli import app
from foretide.commands.reasons import change_of, has_changed, reason_of
from foretide.commands.runs_view import decision_entry, decisions_table
from foretide.plan import Foretide
from foretide.records import Action, Hiring, Layout, Plan, SharedSlots, Window
from foretide.sim.options import SimulationOptions
from foretide.sim.settings import MicroBatch, SimulationSettings
from foretide.store import RunInfo, RunSpec, RunStore, StoredDecision
from foretide.store.decisions import StoredFailure
from foretide.topology import Topology, flow
from foretide.traces import RateTrace

LINE = line("a", execution_s=0.01, replicas=(1, 8))


def chain() -> Topology:
    job = flow("chain")
    first = job.source("in").operator("parse", execution_s=0.0001, replicas=(1, 4))
    first.operator("classify", execution_s=0.004, replicas=(1, 16))
    return job.build()


@pytest.fixture(scope="module")
def store_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with three runs: slots per stage, replicas per operator, and one without decisions."""
    path = tmp_path_factory.mktemp("why") / "runs.db"
    batches = MicroBatch(fixed_s=0.15, per_task_s=0.002, trigger_s=0.25)
    slots = SimulationOptions.of(
        {
            "planner": Foretide(slo="p95<600ms"),
            "forecaster": "basic",
            "td_s": 3.0,
            "settings": SimulationSettings(micro_batch=batches, step_s=0.25),
        }
    )
    replicas = SimulationOptions.of({"planner": "pasps", "forecaster": "basic", "td_s": 5.0, "warm_up_s": 0.0})
    waves = RateTrace("waves", bin_s=1.0, rates=900 + 700 * np.sin(np.arange(60) / 12.0))
    steps = RateTrace("steps", bin_s=10, rates=[100, 300, 300])
    with RunStore(path, threaded=False) as store:
        record_simulation(store, chain(), waves, slots, Recording(name="staged", seconds=40.0))
        record_simulation(store, LINE, steps, replicas, Recording(name="replicated"))
        with store.begin_run(RunSpec(topology=LINE, name="idle", policy="static")):
            pass
    return path


@pytest.fixture
def runner(runner: CliRunner, monkeypatch: pytest.MonkeyPatch, store_path: Path) -> CliRunner:
    monkeypatch.setenv("FORETIDE_STORE", str(store_path))
    return runner


def printed(runner: CliRunner, *arguments: str) -> str:
    result = runner.invoke(app, ["why", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def data(runner: CliRunner, *arguments: str) -> Any:
    return json.loads(printed(runner, *arguments, "--json"))


def test_slots_are_explained_by_stage_with_parts_latency_and_promise(runner: CliRunner, store_path: Path) -> None:
    account = data(runner, "staged", "8")
    stored = RunStore(store_path).run("staged").decision_of_cycle(8)
    assert stored is not None and stored.plan is not None and stored.window is not None and stored.action is not None
    [stage] = account["counts"]
    rule = stored.plan.hiring["in"]
    assert (stage["name"], account["unit"]) == ("in", "slots")
    assert (stage["now"], stage["planned"]) == (int(stored.action.observed.sum()), int(stored.plan.replicas.sum()))
    assert stage["parts"] == stored.plan.by_operator()
    assert stage["hiring"]["share_s"] == rule.share_s and stage["hiring"]["most"] == 20
    terms = {term.symbol: term.values for term in stored.plan.terms}
    assert account["latency"]["promise"] == "p95<600ms" and account["latency"]["promised_s"] == 0.6
    assert (account["latency"]["p95_s"], account["latency"]["broken"]) == (terms["p95"], terms["ε"])
    assert account["input"]["seen_per_s"] == pytest.approx(stored.window.arrived.sum() / 3.0)
    assert account["input"]["low_per_s"] <= account["input"]["expected_per_s"] <= account["input"]["high_per_s"]

    text = printed(runner, "staged", "8")
    for words in (
        "staged",
        account["run"],
        "cycle 8 at 00:24",
        "decided by foretide, basic",
        f"{stage['now']} → {stage['planned']}",
        f"classify {stage['parts']['classify']}",
        f"{account['input']['expected_per_s']:,.0f}/s expected (",
        f"a slot for {1e3 * rule.share_s:.0f} ms of work",
        f"p95 {1e3 * terms['p95']:.0f} ms expected",
        "p95<600ms: planned for ",
    ):
        assert words in text
    assert "[argmin J]" not in text and "ΔJ⁺" not in text, "equations are for one operator at a time"


def test_one_operator_is_explained_with_every_equation(runner: CliRunner) -> None:
    text = printed(runner, "staged", "8", "classify")
    assert "of the slots of its stage" in text
    assert re.search(r"ε = \S+ +likelihood that the promise is broken", text)
    assert [one["operator"] for one in data(runner, "staged", "8", "classify")["explanations"]] == ["classify"]


def test_an_operator_may_stand_in_the_place_of_the_cycle(runner: CliRunner) -> None:
    assert data(runner, "staged", "classify") == data(
        runner, "staged", str(data(runner, "staged")["cycle"]), "classify"
    )


def test_planners_of_replicas_are_explained_by_their_equations(runner: CliRunner) -> None:
    account, text = data(runner, "replicated"), printed(runner, "replicated")
    assert account["unit"] == "replicas" and account["latency"] is None
    assert account["counts"][0]["parts"] == {"a": account["counts"][0]["planned"]}
    assert f"a: {account['counts'][0]['planned']} replicas" in text
    symbols = [step["symbol"] for step in account["explanations"][0]["steps"]]
    assert {"λ_G", "U"} < set(symbols)
    for symbol in symbols:
        assert f"  {symbol} = " in text


def test_without_a_cycle_it_is_the_last_one_that_changed_something(runner: CliRunner, store_path: Path) -> None:
    stored = RunStore(store_path).run("replicated").decisions()
    assert stored[-1].status == "unchanged", "the run must end with decisions that change nothing"
    expected = max(one.cycle for one in stored if one.status == "applied")
    account = data(runner, "replicated")
    assert (account["cycle"], account["status"]) == (expected, "applied")
    assert account["change"].startswith("a ") and " → " in account["change"]


def test_all_cycles_are_listed_with_a_line_for_each(runner: CliRunner, store_path: Path) -> None:
    stored = RunStore(store_path).run("replicated").decisions()
    entries = data(runner, "replicated", "--all")
    assert [entry["cycle"] for entry in entries] == [one.cycle for one in stored]
    lines = printed(runner, "replicated", "--all").splitlines()
    assert len(lines) == 2 + len(stored)
    assert all(entry["reason"] for entry in entries)


def test_a_line_stays_a_line_in_a_narrow_terminal(runner: CliRunner, store_path: Path) -> None:
    run = RunStore(store_path).run("staged")
    console = Console(width=60, file=io.StringIO())
    console.print(decisions_table([decision_entry(one, run.info) for one in run.decisions()], brief=True))
    assert len(console.file.getvalue().splitlines()) == 2 + len(run.decisions())  # type: ignore[attr-defined]


def test_runs_show_says_why_in_its_column(runner: CliRunner) -> None:
    details = json.loads(runner.invoke(app, ["runs", "show", "replicated", "--json"]).stdout)
    shown = runner.invoke(app, ["runs", "show", "replicated"]).stdout
    reasons = [entry["reason"] for entry in details["decisions"]]
    assert all(reasons) and all(reason in shown for reason in reasons)
    assert any("→" in entry["change"] for entry in details["decisions"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["stagd"], "or the name 'stagd', got none; did you mean 'staged'?"),
        (["last"], "did you mean 'latest'?"),
        (["replicated", "99"], "from 1 to 6, got 99; the nearest: 5 and 6"),
        (["staged", "8", "clasify"], "expected one of parse, classify, got 'clasify'; did you mean 'classify'?"),
        (["staged", "clasify"], "did you mean 'classify'?"),
        (["staged", "eight", "classify"], "setting 'CYCLE': expected the number of a cycle, got 'eight'"),
        (["idle"], "expected a run with decisions"),
        (["idle", "1"], "expected a run with decisions"),
        (["staged", "8", "--all"], "setting '--all'"),
    ],
)
def test_errors_name_the_nearest(runner: CliRunner, arguments: list[str], message: str) -> None:
    result = runner.invoke(app, ["why", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr.replace("\n", " ")


def info() -> RunInfo:
    return RunInfo(
        id="1",
        name="n",
        status="finished",
        created_at_s=0.0,
        seen_at_s=0.0,
        clock_offset_s=0.0,
        started_at_s=0.0,
        ended_at_s=None,
        policy="p",
        forecaster="",
        trace="",
        td_s=10.0,
        topology_document={},
        layout=LAYOUT,
        settings={},
    )


LAYOUT = Layout(("in",), ("a", "b"), ())


def decided(status: Any = "applied", *, queued: float = 0.0, detail: str = "", **plan: Any) -> StoredDecision:
    """Return a decision over two operators that had 2 and 1 replicas, after 1,000 events in 10 seconds."""
    made = Plan(**{"layout": LAYOUT, "planner": "p", "made_at_s": 10.0, "replicas": np.array([3, 1])} | plan)
    observed = np.array([2, 1])
    requested = made.replicas if status == "applied" else observed
    columns = {name: np.zeros(2) for name in ("received", "processed", "execution_s", "utilisation")}
    window = Window(
        layout=LAYOUT,
        ended_at_s=10.0,
        duration_s=10.0,
        sample_s=1.0,
        samples=10,
        arrival_rates=np.empty((0, 1)),
        received_rates=np.empty((0, 2)),
        arrived=np.array([1000.0]),
        queued=np.array([queued, 0.0]),
        share=np.empty(0),
        replicas=observed,
        measurement_ids=(),
        **columns,
    )
    action = Action(
        plan_id="x",
        at_s=10.0,
        status=status,
        planned=made.replicas,
        requested=requested,
        observed=observed,
        detail=detail,
    )
    return StoredDecision(seq=1, cycle=1, at_s=10.0, status=status, window=window, plan=made, action=action)


@pytest.mark.parametrize(
    ("decision", "reason"),
    [
        (decided(), "input of 100/s"),
        (decided(queued=100.0), "input of 100/s"),
        (decided(queued=101.0), "backlog of 101 events"),
        (decided(notes=("bounds: a 9 -> 3; raise them",), queued=500.0), "bounds: a 9 -> 3"),
        (decided(notes=("w", "n"), warnings=("w",)), "w"),
        (decided("refused", detail="quota"), "quota"),
    ],
)
def test_the_reason_is_what_weighs_most(decision: StoredDecision, reason: str) -> None:
    assert reason_of(decision, info()) == reason


def test_the_reason_for_no_plan_is_the_failure() -> None:
    failure = StoredFailure("monitor", "NotReadyError", "too early", ready=False)
    decision = StoredDecision(seq=1, cycle=1, at_s=1.0, status="skipped", failure=failure)
    assert (reason_of(decision, info()), change_of(decision), has_changed(decision)) == (
        "monitor: too early",
        "",
        False,
    )


@pytest.mark.parametrize("status", ["applied", "refused", "advised"])
def test_a_plan_that_was_not_taken_is_told_as_what_it_would_have_changed(status: str) -> None:
    assert change_of(decided(status)) == "a 2 → 3"
    assert has_changed(decided(status))


def test_nothing_changed_where_the_plan_is_what_there_was() -> None:
    same = decided("advised", replicas=np.array([2, 1]))
    assert (change_of(same), has_changed(same)) == ("", False)


def test_another_rule_of_hiring_is_a_change() -> None:
    stages = SharedSlots(("in",), ((0, 1),), minimum=(1, 1), maximum=(8, 8))
    rule = {"in": Hiring(event_s=0.01, share_s=0.2, least=1, most=16)}
    assert change_of(decided(replicas=np.array([3, 0]), stages=stages, hiring=rule)) == "work for each slot"
    assert change_of(decided(replicas=np.array([5, 0]), stages=stages, hiring=rule)) == "in 3 → 5"
