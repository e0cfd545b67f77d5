from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foretide import __version__
from foretide.cli import app
from foretide.errors import ConfigError, TopologyError
from foretide.plan.registry import PLANNERS
from foretide.topology.loader import load_topology

ROOT = Path(__file__).parents[2]
FIG6 = str(ROOT / "examples" / "fig6.yaml")


@pytest.fixture
def runner(runner: CliRunner, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("COLUMNS", "100")
    return runner


def test_version_is_that_of_the_package(runner: CliRunner) -> None:
    assert runner.invoke(app, ["--version"]).stdout == f"foretide {__version__}\n"


def test_help_lists_the_commands_and_hides_those_for_developers(runner: CliRunner) -> None:
    text = runner.invoke(app, ["--help"]).stdout
    assert all(command in text for command in ("show", "planners", "demo", "Start with: foretide demo"))
    assert "docs" not in text


@pytest.mark.parametrize("command", [["show"], ["planners"], ["demo"], ["docs", "configuration"]])
def test_help_of_every_command_teaches_with_an_example(runner: CliRunner, command: list[str]) -> None:
    result = runner.invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert f"Example: foretide {' '.join(command)}" in result.stdout


def test_show_prints_the_operators(runner: CliRunner) -> None:
    result = runner.invoke(app, ["show", FIG6])
    assert result.exit_code == 0
    assert "1 source, 4 operators, 0 sinks, 5 edges" in result.stdout


def test_show_as_json_can_be_loaded_again(runner: CliRunner, tmp_path: Path) -> None:
    result = runner.invoke(app, ["show", FIG6, "--json"])
    again = tmp_path / "again.yaml"
    again.write_text(result.stdout)
    assert json.loads(result.stdout)["name"] == "fig6"
    assert load_topology(again) == load_topology(FIG6)


def test_show_writes_pictures_and_keeps_stdout_clean(runner: CliRunner, tmp_path: Path) -> None:
    svg, mermaid = tmp_path / "new" / "fig6.svg", tmp_path / "fig6.mmd"
    result = runner.invoke(
        app, ["show", FIG6, "--json", "--svg", str(svg), "--mermaid", str(mermaid), "--theme", "dark"]
    )
    assert result.exit_code == 0
    assert json.loads(result.stdout)["name"] == "fig6"
    assert "wrote " in result.stderr
    assert svg.read_text().startswith("<svg ")
    assert "#12181f" in svg.read_text()
    assert mermaid.read_text().startswith("flowchart LR")


def test_an_error_is_one_message_on_stderr_without_traceback(runner: CliRunner, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text('[[sources]]\nid = "in"\nkindd = "x"\n')
    result = runner.invoke(app, ["show", str(file)])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: topology 'wrong' has 1 error:")
    assert "(declared at wrong.toml:3)" in result.stderr
    assert "did you mean 'kind'?" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_traceback_is_shown_on_request(runner: CliRunner) -> None:
    assert isinstance(runner.invoke(app, ["--traceback", "show", "none.toml"]).exception, TopologyError)
    shown = runner.invoke(app, ["show", "none.toml"], env={"FORETIDE_TRACEBACK": "1"})
    assert isinstance(shown.exception, TopologyError)


def test_a_traceback_is_shown_for_commands_of_a_group_too(runner: CliRunner) -> None:
    result = runner.invoke(app, ["--traceback", "docs", "configuration", "--out", "/dev/null/x.md"])
    assert isinstance(result.exception, ConfigError)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "none.toml"], "topology file 'none.toml': expected a file that can be read"),
        (["show", FIG6, "--theme", "pink"], "setting '--theme': expected one of light, dark, got 'pink'"),
        (["show", FIG6, "--svg", "/dev/null/x.svg"], "setting '--svg': expected a file that can be written"),
        (["docs", "configuration", "--out", "/dev/null/x.md"], "setting '--out': expected a file that can be written"),
    ],
)
def test_errors_exit_with_2_and_name_the_option(runner: CliRunner, arguments: list[str], message: str) -> None:
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_planners_lists_every_planner(runner: CliRunner) -> None:
    text = runner.invoke(app, ["planners"]).stdout
    assert all(name in text for name in PLANNERS)


def test_planners_as_json_names_spec_and_summary(runner: CliRunner) -> None:
    found = {entry["name"]: entry for entry in json.loads(runner.invoke(app, ["planners", "--json"]).stdout)}
    assert set(found) == set(PLANNERS)
    assert found["pasps"] == {
        "name": "pasps",
        "summary": PLANNERS["pasps"].summary,
        "spec": ["P4", "P5"],
        "needs_forecast": True,
    }


def test_demo_shows_every_term_and_the_plan(runner: CliRunner) -> None:
    result = runner.invoke(app, ["demo"])
    assert result.exit_code == 0
    for expected in ("P5 Eq. 5", "P4 Eq. 2", "62.5", "8.25", "■ ■ ■ ■ ■ ■ ■ ■ ■", "The same replicas as in the paper"):
        assert expected in result.stdout


def test_p5_demo_as_json_gives_the_replicas_of_presps_table_4(runner: CliRunner) -> None:
    found = json.loads(runner.invoke(app, ["demo", "--json"]).stdout)
    assert found["replicas"] == {"O1": 2, "O2": 3, "O3": 9}
    assert found["paper"]["λ̂"] == {"O1": 100, "O2": 91, "O3": 83}
    assert found["terms"][0]["symbol"] == "λ̂_G"


def test_help_imports_neither_spark_nor_numba() -> None:
    code = (
        "import sys\n"
        "from foretide.cli import main\n"
        "sys.argv = ['foretide', '--help']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print('HEAVY', sorted({'pyspark', 'numba', 'numpy', 'pandas', 'jax'} & set(sys.modules)))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "HEAVY []"


def test_the_module_runs_as_a_program(tmp_path: Path) -> None:
    code = "from foretide.cli import main; main()"
    environment = {key: value for key, value in os.environ.items() if key != "FORETIDE_TRACEBACK"}
    result = subprocess.run(
        [sys.executable, "-c", code, "show", str(tmp_path / "none.yaml")],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert result.returncode == 2
    assert result.stderr.startswith("Error: topology file 'none.yaml'")
    assert "Traceback" not in result.stderr
