from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from foretide.cli import app
from foretide.commands.simulating.compare_view import CompareView, comparison, means
from foretide.commands.simulating.scenarios import find_traces
from foretide.errors import ConfigError
from foretide.sim.compare import ROW
from foretide.traces import TraceError

HEAD = "second,events_per_second\n"


@pytest.fixture
def runner(runner: CliRunner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CliRunner:
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.chdir(tmp_path)
    Path("monday.csv").write_text(HEAD + "0,500\n20,2500\n40,1000\n60,1000\n")
    Path("friday.csv").write_text(HEAD + "0,500\n20,500\n40,4000\n60,1000\n")
    return runner


def compare(*more: str, traces: str = "monday.csv", policies: str = "ds2,static") -> list[str]:
    return ["compare", "--traces", traces, "--policies", policies, "--td", "5", "--jobs", "1", *more]


def row(policy: str, saved: float, mean: float, p99: float, **more: Any) -> dict[str, Any]:
    values = {name: 0.0 for name in ROW} | {"trace": "t", "forecaster": None, "processed": 1.0, "stress": False}
    return {**values, "policy": policy, "saved": saved, "latency_mean_ms": mean, "latency_p99_ms": p99, **more}


def printed(rows: list[dict[str, Any]]) -> str:
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(comparison(rows))
    return console.export_text()


def test_every_trace_policy_and_seed_gives_a_row(runner: CliRunner) -> None:
    result = runner.invoke(
        app,
        compare(
            "--stress", "--seeds", "2", "--json", "out.json", traces="*.csv", policies="pasps,pasps:basic,static",
            ),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    data = json.loads(Path("out.json").read_text())
    assert list(data) == ["rows"]
    assert all(tuple(found) == ROW for found in data["rows"])
    assert len(data["rows"]) == 2 * 3 * 2
    assert {found["trace"] for found in data["rows"]} == {"monday", "friday"}
    assert {(found["policy"], found["forecaster"]) for found in data["rows"]} == {
        ("pasps", "auto"),
        ("pasps", "basic"),
        ("static", None),
    }
    assert all(found["stress"] is True and found["td"] == 5.0 for found in data["rows"])
    assert "monday  td 5 s, under stress, 2 seeds" in result.stdout
    assert "12 of 12 runs" in result.stdout


def test_an_own_topology_takes_the_place_of_the_papers(runner: CliRunner) -> None:
    Path("job.yaml").write_text(
        "name: job\nsources: [{id: in}]\n"
        "operators: [{id: a, execution_ms: 1, replicas: [1, 8], inputs: [in]}]\n"
    )  # fmt: skip
    result = runner.invoke(app, compare("--topology", "job.yaml", "--json", "out.json", policies="static"))
    assert result.exit_code == 0, result.output
    [found] = json.loads(Path("out.json").read_text())["rows"]
    assert found["saved"] == 0.0
    assert found["latency_mean_ms"] < 10  # and not the base latency of the paper


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (compare(traces="nothing_*"), "setting '--traces': expected a pattern that matches a file"),
        (compare(traces=""), "setting '--traces': expected names or files of traces"),
        (compare(traces="bad.csv"), "bad.csv, line 3: expected a rate of 0 or more"),
        (compare(traces="monday.csv,none.csv"), "trace 'none.csv': expected one of"),
        (compare(policies="pasps:"), "setting '--policies': expected a forecaster after the colon"),
        (compare("--forecaster", "none", policies="cba"), "setting '--forecaster': expected a forecaster"),
        (compare(policies="dss2"), "did you mean 'ds2'?"),
        (compare("--td", "-1"), "setting '--td'"),
        (compare("--topology", "none.toml"), "topology file 'none.toml'"),
        (compare("--set", "static.by_operator.none=3"), "static on monday, seed 0"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(runner: CliRunner, arguments: list[str], message: str) -> None:
    Path("bad.csv").write_text(HEAD + "0,5\n10,-3\n")
    result = runner.invoke(app, [*arguments, "--json", "out.json"])
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert not list(Path().glob("*out.json*"))


def test_an_interruption_writes_nothing(runner: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("foretide.sim.compare.run_cases", interrupted)
    result = runner.invoke(app, compare("--json", "out.json"))
    assert result.exit_code == 130
    assert "nothing was written" in result.stderr
    assert not list(Path().glob("*out.json*"))


def test_the_front_is_marked_and_the_others_are_told_who_beats_them() -> None:
    text = printed([row("a", 0.6, 200.0, 300.0), row("b", 0.5, 250.0, 300.0), row("c", 0.1, 150.0, 160.0)])
    lines = {line.split()[0]: line for line in text.splitlines() if line[:1] in "abc" and line[1:2] == " "}
    assert lines["a"].rstrip().endswith("●")
    assert lines["c"].rstrip().endswith("●")
    assert lines["b"].rstrip().endswith("< a")


def test_means_are_over_seeds_and_leave_out_what_is_not_there() -> None:
    found = means([row("a", 0.6, 200.0, 300.0, error_input=None), row("a", 0.4, 100.0, 100.0, error_input=0.2, seed=1)])
    assert found["a"]["saved"] == pytest.approx(0.5)
    assert found["a"]["error_input"] == pytest.approx(0.2)


def test_progress_on_a_terminal_names_the_run() -> None:
    console = Console(force_terminal=True, width=100, record=True, file=io.StringIO())
    with CompareView(console, 2) as view:
        view.show(0, row("a", 0.6, 200.0, 300.0, forecaster="lr"))
        assert view._bar.tasks[0].description == "t a:lr"
        assert view._bar.tasks[0].completed == 1


@pytest.mark.parametrize(
    "given",
    [
        ["--traces", "friday.csv", "monday.csv", "--policies", "static"],  # what a shell makes of --traces *.csv
        ["--policies", "static", "--traces", "friday.csv", "monday.csv"],
        ["--traces", "friday.csv", "--traces", "monday.csv", "--policies", "static"],
        ["--traces", "friday.csv,monday.csv", "--policies", "static"],
    ],
)
def test_several_traces_are_given_as_a_shell_or_a_person_writes_them(runner: CliRunner, given: list[str]) -> None:
    result = runner.invoke(app, ["compare", *given, "--td", "5", "--jobs", "1", "--json", "-"])
    assert result.exit_code == 0, result.output
    assert [found["trace"] for found in json.loads(result.stdout)["rows"]] == ["friday", "monday"]


def test_traces_are_found_by_name_pattern_and_path(runner: CliRunner) -> None:
    Path("sub").mkdir()
    Path("sub/monday.csv").write_text(HEAD + "0,1\n20,2\n")
    assert [trace.name for trace in find_traces(["pasps_l*,friday.csv, pasps_logs"])] == ["pasps_logs", "friday"]
    assert [trace.name for trace in find_traces(["monday.csv", "sub/monday.csv"])] == ["monday.csv", "sub/monday.csv"]
    with pytest.raises(ConfigError, match="--traces"):
        find_traces(["sub/none*"])
    with pytest.raises(TraceError, match=r"none\.csv"):
        find_traces(["none.csv"])


def test_made_up_inputs_are_found_by_pattern_and_seed() -> None:
    assert len(find_traces(["made:*"])) == 10
    assert [trace.name for trace in find_traces(["made:*sine:3, made:ramp"])] == [
        "made:sine:3", "made:noisy-sine:3", "made:ramp"
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="a pattern of made-up inputs: made:gaussian"):
        find_traces(["made:x*"])


def test_inputs_that_go_by_a_name_are_listed(runner: CliRunner) -> None:
    found = {entry["name"]: entry for entry in json.loads(runner.invoke(app, ["traces", "--json"]).stdout)}
    assert {"pasps_dns", "made:on-off"} <= set(found)
    assert found["made:on-off"]["peak_per_s"] == 20_000.0
    shown = runner.invoke(app, ["traces"]).stdout
    assert "made:on-off" in shown and "a bell curve" in shown


def test_help_teaches_with_an_example(runner: CliRunner) -> None:
    text = runner.invoke(app, ["compare", "--help"]).stdout
    assert "Example: foretide compare --traces 'pasps_*'" in text
