from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foretide.cli import app

pytestmark = pytest.mark.slow

HEAD = "second,events_per_second\n"
PLAIN = ("compare", "--traces", "monday.csv", "--policies", "ds2")
GRIDS = ("--grid", "ds2.utilisation_target=1,0.5", "--grid", "static.by_operator=0.5,1")


@pytest.fixture
def runner(runner: CliRunner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CliRunner:
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.chdir(tmp_path)
    Path("monday.csv").write_text(HEAD + "0,500\n20,2500\n40,1000\n60,1000\n")
    Path("friday.csv").write_text(HEAD + "0,500\n20,500\n40,4000\n60,1000\n")
    Path("silent.csv").write_text(HEAD + "0,0\n20,0\n40,0\n")
    Path("early.csv").write_text(HEAD + "0,50\n20,0\n40,0\n60,0\n")
    return runner


def fronts(*more: str, traces: str = "monday.csv", policies: str = "ds2,static") -> list[str]:
    return ["compare", "--front", "--traces", traces, "--policies", policies, "--td", "5", "--jobs", "1", *more]


def test_fronts_are_shown_drawn_and_written(runner: CliRunner) -> None:
    arguments = fronts(*GRIDS, "--json", "out.json", "--html", "out.html", traces="monday.csv,friday.csv")
    result = runner.invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "monday  p95; reference: cost 1.2 of the static peak" in result.stdout
    assert "all 2 traces" in result.stdout and "clairvoyant" in result.stdout
    data = json.loads(Path("out.json").read_text())
    assert list(data) == ["metric", "traces", "rows"]
    assert [trace["trace"] for trace in data["traces"]] == ["monday", "friday"]
    first = data["traces"][0]
    assert [policy["policy"] for policy in first["policies"]] == ["ds2", "static"]
    assert [point["knob"] for point in first["policies"][0]["points"]] == [
        {"utilisation_target": 1},
        {"utilisation_target": 0.5},
    ]
    assert first["best"] in ("ds2", "static")
    assert all(0 <= policy["hypervolume"] <= 1 for policy in first["policies"])
    assert len(data["rows"]) == 2 * (2 + 2 + 10)
    page = Path("out.html").read_text()
    assert "Fronts of cost and waiting" in page and "clairvoyant plan" in page and "friday" in page


def test_fronts_on_batches_as_on_spark_under_stress(runner: CliRunner) -> None:
    more = ("--set", "sim.micro_batch.fixed_s=0.1", "--stress", "--seeds", "2", "--json", "-")
    result = runner.invoke(app, fronts(*GRIDS, *more))
    assert result.exit_code == 0, result.output
    [found] = json.loads(result.stdout)["traces"]
    assert found["policies"][0]["spread"] is not None
    assert found["box"]["least_ms"] == pytest.approx(153.0 + 125.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (fronts("--grid", "ds2.utilization_target=1"), "did you mean 'utilisation_target'?"),
        (fronts("--grid", "static-peak.x=1", policies="static-peak"), "no knob, since 'static-peak' has none"),
        (fronts("--grid", "ds2.utilisation_target="), "expected values for ds2.utilisation_target"),
        (fronts("--grid", "ds2.utilisation_target=2"), "utilisation_target"),
        (fronts("--grid", "pasps.utilisation_target=1"), "with a planner among ds2, static"),
        (fronts("--grid", "nonsense"), "expected PLANNER.KNOB=VALUE,VALUE"),
        (fronts("--front-metric", "p50"), "setting '--front-metric': expected one of mean, p95, p99, got 'p50'"),
        (fronts(traces="silent.csv"), "expected at least one event, got a rate of 0 throughout"),
        (fronts(traces="early.csv"), "expected events after the warm-up of 30 s"),
        ([*PLAIN, "--html", "out.html"], "setting '--html': expected --front"),
        ([*PLAIN, *GRIDS], "setting '--grid': expected --front"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(runner: CliRunner, arguments: list[str], message: str) -> None:
    result = runner.invoke(app, [*arguments, "--json", "out.json"])
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert not list(Path().glob("*out.*"))


def test_an_interruption_writes_nothing(runner: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("foretide.commands.simulating.fronts.run_trials", interrupted)
    result = runner.invoke(app, fronts("--json", "out.json"))
    assert result.exit_code == 130
    assert "nothing was written" in result.stderr
    assert not list(Path().glob("*out.json*"))
