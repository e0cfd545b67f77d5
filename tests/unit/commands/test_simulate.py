from __future__ import annotations

import inspect
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from foretide.cli import app
from foretide.commands.simulating import compare as compare_module
from foretide.commands.simulating import simulate as simulate_module
from foretide.records import Measurement
from foretide.store import RunSpec, RunStore
from foretide.topology import Topology, load_topology

TOPOLOGY = """
name = "words"

[[sources]]
id = "in"

[[operators]]
id = "split"
execution_ms = 2
replicas = [1, 8]
inputs = ["in"]

[[operators]]
id = "count"
execution_ms = 10
replicas = [1, 8]
inputs = ["split"]
"""
HEAD = "second,events_per_second\n"
# What is wrong with a trace, and what the message must name.
BAD_TRACES = {
    "negative": (HEAD + "0,5\n10,-3\n", "bad.csv, line 3: expected a rate of 0 or more", "got -3"),
    "missing": (HEAD + "0,5\n10,\n", "bad.csv, line 3: expected a number in column 'events_per_second'", "got nothing"),
    "no_number": (HEAD + "0,5\n10,nan\n", "bad.csv, line 3: expected a number", "got 'nan'"),
    "unsorted": (HEAD + "0,5\n20,5\n10,5\n", "bad.csv, line 4: expected ascending times", "got 10 after 20"),
    "duplicate": (HEAD + "0,5\n10,5\n10,6\n", "bad.csv, line 4: expected ascending times", "got 10 twice"),
    "uneven": (HEAD + "0,5\n10,5\n30,6\n", "bad.csv, line 4: expected even bins of 10 s", "a step of 20 s"),
    "empty": ("", "bad.csv: expected the columns second,events_per_second", "an empty file"),
    "only_a_head": (HEAD, "bad.csv: expected at least two rows", "got none"),
    "other_columns": ("time,rate\n0,5\n", "bad.csv, line 1: expected a column 'second'", "the columns time,rate"),
}


@pytest.fixture
def runner(runner: CliRunner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CliRunner:
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text(TOPOLOGY)
    Path("rates.csv").write_text(HEAD + "0,50\n20,250\n40,100\n60,100\n")
    return runner


def simulate(*more: str, policy: str = "ds2", trace: str = "rates.csv", topology: str = "job.toml") -> list[str]:
    return ["simulate", topology, "--trace", trace, "--policy", policy, "--td", "5", *more]


def test_simulate_prints_every_metric_and_writes_both_files(runner: CliRunner) -> None:
    result = runner.invoke(app, simulate("--json", "new/out.json", "--html", "out.html", policy="pasps:lr"))
    assert result.exit_code == 0, result.output
    for name in ("saved resources", "latency, p99", "processed", "degradation", "error of replicas", "changes"):
        assert name in result.stdout
    assert "words on rates  pasps with lr, td 5 s" in result.stdout
    found = json.loads(Path("new/out.json").read_text())
    [row] = found["rows"]
    assert (found["topology"], found["r_over"], row["policy"], row["forecaster"]) == ("words", 4.0, "pasps", "lr")
    assert row["totals"]["received"] == 20 * (50 + 250 + 100 + 100)
    assert "words on rates" in Path("out.html").read_text(encoding="utf-8")


def test_simulate_with_seeds_and_stress_shows_the_spread(runner: CliRunner) -> None:
    result = runner.invoke(
        app, simulate("--seeds", "3", "--stress", "--set", "stress.arrival_cv=0.5", "--json", "out.json")
    )
    assert result.exit_code == 0, result.output
    assert all(word in result.stdout for word in ("mean", "least", "most", "under stress, 3 seeds"))
    rows = json.loads(Path("out.json").read_text())["rows"]
    assert [row["seed"] for row in rows] == [0, 1, 2]
    assert all(row["stress"] is True for row in rows)
    assert len({row["latency_mean_ms"] for row in rows}) == 3


def test_settings_reach_policy_simulator_and_loop(runner: CliRunner) -> None:
    settings = ["static.replicas=2", "sim.base_latency_s=1.5", "loop.sample_s=5"]
    options = [part for text in settings for part in ("--set", text)]
    result = runner.invoke(app, simulate(*options, "--json", "out.json", policy="static"))
    assert result.exit_code == 0, result.output
    [row] = json.loads(Path("out.json").read_text())["rows"]
    assert row["saved"] == 0.0  # 2 + 2 of the 1 + 3 that the peak needs
    assert row["latency_mean_ms"] > 1500


def test_the_application_of_the_paper_goes_by_name(runner: CliRunner) -> None:
    result = runner.invoke(app, simulate("--json", "out.json", topology="pasps"))
    assert result.exit_code == 0, result.output
    found = json.loads(Path("out.json").read_text())
    assert found["topology"] == "twitter_detection"
    assert found["rows"][0]["latency_mean_ms"] > 153


@pytest.mark.parametrize("fault", BAD_TRACES)
def test_a_bad_trace_is_named_with_its_line_and_nothing_is_written(runner: CliRunner, fault: str) -> None:
    text, where, got = BAD_TRACES[fault]
    Path("bad.csv").write_text(text)
    result = runner.invoke(app, simulate("--json", "out.json", "--html", "out.html", trace="bad.csv"))
    assert result.exit_code == 2
    assert where in result.stderr
    assert got in result.stderr
    assert sorted(path.name for path in Path().iterdir()) == ["bad.csv", "job.toml", "rates.csv"]


def test_a_trace_that_is_no_text_is_named(runner: CliRunner) -> None:
    Path("bad.csv").write_bytes(b"\xff\xfe\x00\x01" * 10)
    result = runner.invoke(app, simulate(trace="bad.csv"))
    assert result.exit_code == 2
    assert "trace bad.csv: expected a CSV file that can be read" in result.stderr


def test_the_forecaster_unless_given_is_that_of_compare(runner: CliRunner) -> None:
    found = runner.invoke(app, simulate("--json", "-", policy="pasps"))
    assert json.loads(found.stdout)["rows"][0]["forecaster"] == "auto"
    defaults = {
        inspect.signature(command).parameters["forecaster"].default
        for command in (simulate_module.simulate, compare_module.compare)
    }
    assert defaults == {"auto"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            simulate("--forecaster", "none", policy="pasps"),
            "setting '--forecaster': expected a forecaster, since policy 'pasps'",
        ),
        (simulate(policy="pasbs"), "did you mean 'pasps'?"),
        (simulate("--forecaster", "lrr", policy="pasps"), "did you mean 'lr'?"),
        (simulate("--set", "ds3.x=1"), "setting '--set': expected NAME.SETTING=VALUE"),
        (simulate("--set", "sim.queue_bounds=1"), "setting 'sim.queue_bounds'"),
        (simulate("--set", "loop.history=1"), "setting 'loop.history'"),
        (simulate("--set", "stress.activation_s=1"), "settings of stress only with --stress"),
        (simulate("--td", "0"), "setting '--td': expected more than 0 seconds"),
        (simulate("--td", "100"), "within the 80 s of trace 'rates'"),
        (simulate("--set", "static.by_operator.none=3", policy="static"), "an operator of topology 'words', got none"),
        (simulate(trace="nowhere.csv"), "trace 'nowhere.csv': expected one of"),
        (simulate(topology="nowhere.toml"), "topology file 'nowhere.toml'"),
        (simulate("--json", "/dev/null/out.json"), "setting '--json': expected a file that can be written"),
        (simulate("--html", "."), "setting '--html': expected a file that can be written"),
    ],
)
def test_wrong_options_are_named_and_nothing_is_written(runner: CliRunner, arguments: list[str], message: str) -> None:
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert sorted(path.name for path in Path().iterdir()) == ["job.toml", "rates.csv"]


def test_a_topology_that_names_an_unknown_operator(runner: CliRunner) -> None:
    Path("job.toml").write_text(TOPOLOGY.replace('inputs = ["split"]', 'inputs = ["splitt"]'))
    result = runner.invoke(app, simulate("--json", "out.json"))
    assert result.exit_code == 2
    assert "splitt" in result.stderr
    assert "declared at job.toml:" in result.stderr
    assert not Path("out.json").exists()


def test_a_topology_whose_times_are_not_known(runner: CliRunner) -> None:
    Path("job.toml").write_text(TOPOLOGY.replace("execution_ms = 10\n", ""))
    result = runner.invoke(app, simulate("--json", "out.json"))
    assert result.exit_code == 2
    assert "'count'" in result.stderr
    assert "execution_s" in result.stderr


def test_an_interruption_writes_nothing(runner: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("foretide.sim.compare.Case.run", interrupted)
    Path("out.json").write_text("before")
    result = runner.invoke(app, simulate("--json", "out.json"))
    assert result.exit_code != 0
    assert Path("out.json").read_text() == "before"


def test_help_teaches_with_an_example(runner: CliRunner) -> None:
    text = runner.invoke(app, ["simulate", "--help"]).stdout
    assert "Example: foretide simulate" in text
    assert "static.replicas=N" in text


@pytest.fixture
def recorded(runner: CliRunner) -> str:
    """Return the store of one recorded run: `split` takes 4 ms, twice what it declares, and two sources feed it."""
    text = TOPOLOGY.replace('inputs = ["in"]', 'inputs = ["in", "more"]').replace(
        "[[operators]]", '[[sources]]\nid = "more"\n\n[[operators]]', 1
    )
    Path("two.toml").write_text(text)
    topology = load_topology("two.toml")
    with RunStore("runs.db") as store:
        with store.begin_run(RunSpec(topology=topology, policy="static", td_s=5.0)) as recorder:
            recorder.measured([two_sources(topology, number) for number in range(60)])
        store.flush()
    return "runs.db"


def two_sources(topology: Topology, second: int) -> Measurement:
    rates = np.array([100.0, 50.0 if second < 30 else 150.0])
    return Measurement(
        layout=topology.layout,
        ended_at_s=second + 1.0,
        duration_s=1.0,
        arrived=rates,
        passed=np.array([100.0, rates[1], rates.sum()]),
        processed=np.repeat(rates.sum(), 2),
        queued=np.zeros(2),
        busy_s=np.array([0.004, 0.010]) * rates.sum(),
        replicas=np.array([1, 3]),
    )


def test_a_recorded_run_is_simulated_under_another_policy(runner: CliRunner, recorded: str) -> None:
    result = runner.invoke(
        app, ["simulate", "--run", "latest", "--store", recorded, "--policy", "ds2", "--json", "o.json"]
    )
    assert result.exit_code == 0, result.output
    found = json.loads(Path("o.json").read_text())
    # 250 events a second at the peak: split 4 ms, as measured, makes 1 replica, count 10 ms makes 3.
    assert (found["topology"], found["r_over"], found["rows"][0]["td"]) == ("words", 4, 5.0)
    assert found["rows"][0]["totals"]["received"] == pytest.approx(30 * 150 + 30 * 250, rel=0.02)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["job.toml"], "setting '--trace': expected an input: either --trace, or --run"),
        (["job.toml", "--trace", "rates.csv", "--run", "latest"], "with a recorded run, got both"),
        (["--trace", "rates.csv"], "setting 'TOPOLOGY': expected a topology file or an application"),
        (["--run", "none", "--store", "runs.db"], "got none"),
    ],
)
def test_what_to_simulate_must_be_said_once(
    runner: CliRunner, recorded: str, arguments: list[str], message: str
) -> None:
    result = runner.invoke(app, ["simulate", *arguments])
    assert result.exit_code != 0 and message in " ".join(result.output.split())
