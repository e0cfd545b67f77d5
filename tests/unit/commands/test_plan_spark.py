from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from foretide.cli import app
from foretide.commands.running.plan_spark_view import render
from foretide.compile.explain import Explanation, explain
from foretide.topology import GroupingSpec, Topology, flow

ROOT = Path(__file__).parents[3]
WORDCOUNT = str(ROOT / "examples" / "wordcount.py")


@pytest.fixture
def runner(runner: CliRunner, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("COLUMNS", "80")
    return runner


def plan_of(runner: CliRunner, *arguments: str) -> dict[str, Any]:
    result = runner.invoke(app, ["plan-spark", *arguments, "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def identity(rows: Any) -> Any:
    return rows


def two_stages() -> Topology:
    job = flow("two")
    split = job.source("in").operator("split", identity, outputs=("news", "talk"), replicas=(1, 4, 2))
    news = split["news"].operator("score", identity, grouping="fields:user,lang")
    talk = split["talk"].operator("mood", identity)
    merge = job.operator(
        "merge", identity, inputs=[news, talk], grouping="fields:user", queued=True, replicas=(1, 8, 3)
    )
    merge.sink("store", "parquet", path="out")
    return job.build()


def text_of(plan: Explanation, width: int = 80) -> str:
    console = Console(width=width, force_terminal=False, color_system=None)
    with console.capture() as capture:
        console.print(render(plan))
    return capture.get()


def test_the_example_becomes_one_query_with_one_exchange(runner: CliRunner) -> None:
    plan = plan_of(runner, WORDCOUNT, "--replicas", "split=2,count=3")
    [stage] = plan["stages"]
    assert (plan["slots"], plan["exchanges"], plan["queued"]) == (5, 1, [])
    assert stage["replicas"] == {"split": 2, "count": 3}
    assert stage["chains"] == [["split"], ["count"]]
    assert [step["runs"] for step in stage["rounds"]] == [[["lines", "split"]], [["count", "counts"]]]
    assert stage["tasks_per_batch"] == 10
    [exchange] = [edge for edge in stage["edges"] if edge["exchanged"]]
    assert (exchange["edge"], exchange["grouping"]) == ("split -> count", "fields:word")
    assert exchange["why"] == "rows with equal word must meet in one task"


def test_tasks_per_slot_multiply_the_tasks_of_a_batch_not_its_slots(runner: CliRunner) -> None:
    plan = plan_of(runner, WORDCOUNT, "--tasks-per-slot", "3")
    assert (plan["slots"], plan["stages"][0]["tasks_per_batch"]) == (2, 12)


def test_stages_and_their_logs_are_told_apart() -> None:
    plan = explain(two_stages())
    up, down = plan.stages
    assert (up.id, up.slots, up.tasks_per_batch) == ("in", 4, 8)
    assert up.writes == ("score -> merge", "mood -> merge") == down.reads
    assert [step.runs for step in up.rounds] == [(("in", "split", "mood"),), (("score",),)]
    assert up.rounds[0].exchanges_after == ("split[news] -> score",)
    assert (down.slots, down.tasks_per_batch, down.sinks) == (3, 6, ("store",))
    # The rows of the logs are exchanged when they are read, so the first round runs no operator.
    assert [step.runs for step in down.rounds] == [(), (("merge", "store"),)]
    assert [edge.exchanged for edge in plan.queued] == [True, True]
    assert plan.exchanges == 3


@pytest.mark.parametrize(
    ("grouping", "why"),
    [
        ("fields:a,b", "rows with equal a and b must meet in one task"),
        ("global", "all rows must meet in one task"),
        ("all", "every task gets every row"),
        ("direct:to", "to says which task a row goes to"),
        ("partial-key:k", "rows with equal k go to the less loaded of two tasks"),
        ("load-aware", "a row goes to the task with the least work"),
        ("dynamic", "the shares of tasks are set while it runs"),
        ("osg:k", "rows go where the cost of their k weighs least"),
        (GroupingSpec("shuffle", options={"exchange": True}), "the edge asks for an exchange"),
    ],
)
def test_every_exchange_says_why(grouping: str | GroupingSpec, why: str) -> None:
    job = flow("why")
    job.source("in").operator("first").operator("second", grouping=grouping)
    [stage] = explain(job.build()).stages
    assert [(edge.exchanged, edge.why) for edge in stage.edges][1] == (True, why)


def test_an_operator_reached_by_two_ways_runs_in_both_rounds() -> None:
    job = flow("two ways")
    source = job.source("in")
    source.operator("a").into("both")
    source.operator("b").into("both", grouping="fields:k")
    job.operator("both")
    [stage] = explain(job.build()).stages
    assert [step.runs for step in stage.rounds] == [(("in", "a", "b", "both"),), (("both",),)]


def test_a_function_of_dataframes_gets_a_stage_of_its_own_and_a_reason() -> None:
    job = flow("frames")
    job.source("in").operator("clean", identity).operator("window", identity, mode="dataframe")
    plan = explain(job.build())
    assert [stage.id for stage in plan.stages] == ["in", "window"]
    assert plan.queued[0].why == "window works on DataFrames: Spark reads the rows for it, from a log"


def test_the_page_fits_eighty_columns_and_shows_what_matters() -> None:
    text = text_of(explain(two_stages()))
    assert max(map(len, text.splitlines())) <= 80
    for words in (
        "two  on Spark: 2 stages, 3 exchanges, 2 queued edges, 7 slots",
        "stage in",
        "stage merge",
        "split 2 + score 1 + mood 1 = 4 slots",
        "2 rounds of 4 tasks: 8 tasks",
        "merge → store",
        "With 7 cores",
    ):
        assert words in text


def test_operators_without_a_function_are_named() -> None:
    job = flow("planned")
    job.source("in").operator("a").operator("b", identity)
    assert "give a function to a." in text_of(explain(job.build()))
    assert "give a function" not in text_of(explain(two_stages()))


def test_a_topology_that_cannot_be_cut_is_one_message(runner: CliRunner, tmp_path: Path) -> None:
    file = tmp_path / "circle.yaml"
    file.write_text(
        "sources: [{id: in}]\n"
        "operators: [{id: a, inputs: [in]}, {id: b, inputs: [a]}]\n"
        "sinks: [{id: s, inputs: [b, {from: a, queued: true}]}]\n"
    )
    result = runner.invoke(app, ["plan-spark", str(file)])
    assert result.exit_code == 2
    assert "edge 'a -> s'" in result.stderr
    assert "its two ends are joined by inline edges too" in result.stderr


def test_no_java_is_started() -> None:
    code = (
        "import subprocess, sys\n"
        "subprocess.Popen = None\n"
        "from foretide.cli import app\n"
        f"app(['plan-spark', {WORDCOUNT!r}])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "one streaming query" in done.stdout


def test_live_stages_are_cut_where_rows_change_tasks(runner: CliRunner) -> None:
    job, where = flow("live"), {"kind": "kafka", "servers": "here:1"}
    rows = job.source("in", topic="orders", schema="id long", **where).operator("split", identity, replicas=(1, 4, 2))
    rows.operator("count", identity, grouping="fields:id").sink("out", topic="totals", **where)
    topology = job.build()
    assert len(explain(topology).stages) == 1
    plan = explain(topology, live=True)
    assert [(stage.id, stage.live, stage.slots, stage.tasks_per_batch) for stage in plan.stages] == [
        ("in", True, 2, 0),
        ("count", True, 1, 0),
    ]
    assert [edge.link for edge in plan.queued] == ["topic"] and plan.exchanges == 1
    page = text_of(plan)
    assert "the topic of split -> count" in page and "2 that stay" in page and "hold their cores" in page
    assert "a batch" not in page
    refused = runner.invoke(app, ["plan-spark", WORDCOUNT, "--live"])
    assert refused.exit_code == 2 and "setting 'live'" in refused.stderr
