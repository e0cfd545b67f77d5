"""What holds for every command: help that teaches, JSON, exit status, completion, errors without tracebacks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from foretide.cli import app
from foretide.commands import group
from foretide.commands.docs_view import all_commands, commands_markdown

ROOT = get_command(app)
COMMANDS = [(path, command) for path, command in all_commands(ROOT) if command is not ROOT]
LEAVES = [(path, command) for path, command in COMMANDS if not hasattr(command, "commands")]
FIG6 = str(Path(__file__).parents[3] / "examples" / "fig6.yaml")


def names(entries: list[tuple[str, Any]]) -> list[str]:
    return [path for path, _ in entries]


def test_there_are_the_commands_that_people_look_for() -> None:
    wanted = {"init", "doctor", "run", "simulate", "compare", "serve", "apps", "planners", "show"}
    assert wanted <= {path.split()[1] for path, _ in LEAVES}


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=names(COMMANDS))
def test_the_help_of_every_command_has_a_summary(path: str, command: Any) -> None:
    summary = (command.help or "").strip().partition("\n\n")[0]
    assert len(summary) > 15 and summary.rstrip().endswith("."), summary


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=names(LEAVES))
def test_the_help_of_every_command_teaches_by_an_example(path: str, command: Any, runner: CliRunner) -> None:
    shown = runner.invoke(app, [*path.split()[1:], "--help"])
    assert shown.exit_code == 0
    assert re.search(rf"\[bold\][^\]]+:\[/\] (\S+=\S+ )?{path}\b", command.help), "no example"


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=names(LEAVES))
def test_every_option_says_what_it_means(path: str, command: Any) -> None:
    unexplained = [param.name for param in command.params if not getattr(param, "help", None)]
    assert unexplained == []


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=names(LEAVES))
def test_every_command_can_give_json(path: str, command: Any) -> None:
    assert any("--json" in param.opts for param in command.params)


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=names(LEAVES))
def test_examples_name_options_that_exist(path: str, command: Any) -> None:
    known = {option for _, one in COMMANDS for param in one.params for option in param.opts}
    given = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", command.help or ""))
    assert given - known - {"--traceback"} == set()


@pytest.mark.parametrize(
    "arguments", [["planners"], ["apps"], ["forecast", "models"], ["show", FIG6], ["reproduce", "--list"], ["demo"]]
)
def test_json_goes_to_standard_output_alone(runner: CliRunner, arguments: list[str]) -> None:
    result = runner.invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0 and json.loads(result.stdout)


def test_a_dash_is_standard_output_and_people_read_the_other_one(runner: CliRunner, tmp_path: Path) -> None:
    trace = tmp_path / "steps.csv"
    trace.write_text("second,events_per_second\n" + "".join(f"{60 * at},{50 + 10 * at}\n" for at in range(4)))
    asked = ["--trace", str(trace), "--policy", "ds2", "--td", "10", "--json", "-"]
    result = runner.invoke(app, ["simulate", "dns", *asked])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["topology"] == "dns"
    assert "saved" in result.stderr
    assert not Path("-").exists()


def test_an_error_that_nobody_expected_is_one_message_too(runner: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    from foretide.experiments import presps_example

    def breaks() -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(presps_example, "worked_example", breaks)
    result = runner.invoke(app, ["demo"])
    assert result.exit_code == group.BROKEN == 3
    assert result.stderr.startswith("Error: ZeroDivisionError: by zero") and "--traceback" in result.stderr
    assert "Traceback" not in result.stderr
    assert isinstance(runner.invoke(app, ["--debug", "demo"]).exception, ZeroDivisionError)


def test_wrong_arguments_exit_with_2(runner: CliRunner) -> None:
    assert runner.invoke(app, ["show"]).exit_code == 2
    assert runner.invoke(app, ["show", FIG6, "--no-such-option"]).exit_code == 2
    assert runner.invoke(app, ["no-such-command"]).exit_code == 2


def test_the_page_of_all_commands_has_every_one(runner: CliRunner, tmp_path: Path) -> None:
    page = commands_markdown(ROOT)
    assert [path for path, _ in COMMANDS] == re.findall(r"^###? (foretide .+)$", page, re.MULTILINE)
    assert "| `--json` |" in page and "| 130 |" in page
    runner.invoke(app, ["docs", "cli", "--out", str(tmp_path / "cli.md")])
    assert (tmp_path / "cli.md").read_text() == page


def test_a_shell_completes_commands() -> None:
    environment = {**os.environ, "_FORETIDE_COMPLETE": "complete_bash", "COMP_WORDS": "foretide pl", "COMP_CWORD": "1"}
    code = "import sys; sys.argv = ['foretide']; from foretide.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert result.stdout.split() == ["plan-spark", "planners"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_completion_can_be_had(shell: str) -> None:
    environment = {**os.environ, "_FORETIDE_COMPLETE": f"source_{shell}"}
    code = "import sys; sys.argv = ['foretide']; from foretide.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0 and "_FORETIDE_COMPLETE" in result.stdout
