from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foretide.cli import app
from foretide.errors import ConfigError
from foretide.experiments.reproduce import EXPERIMENTS, Scope
from foretide.experiments.reproduce.bgelasor.long_traces import LOADS, TRACES_VARIABLE, long_trace, traces_folder
from foretide.experiments.reproduce.bgelasor.runs import DayJob


def publish(folder: Path) -> None:
    for load in LOADS:
        rows = "\n".join(f"2019-03-08 00:{5 * n:02d}:00,{100 + n}" for n in range(4))
        (folder / f"bgelasor_{load}.csv").write_text(f"datetime,tuples\n{rows}\n")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with nothing in it, and no variable."""
    monkeypatch.delenv(TRACES_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_every_experiment_says_which_data_it_uses(name: str) -> None:
    assert all(EXPERIMENTS[name].inputs(Scope(1)))
    assert EXPERIMENTS[name].inputs(Scope(1))


def test_series_that_are_made_up_say_so_and_why(elsewhere: Path) -> None:
    [line] = EXPERIMENTS["bgelasor-fig4"].inputs(Scope(1))
    assert line.startswith(
        "**made up**, because bgelasor_periodic.csv and bgelasor_fluctuating.csv were not looked for"
    )
    assert TRACES_VARIABLE in line


def test_a_folder_without_the_files_is_named(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRACES_VARIABLE, "data/here")
    [line] = EXPERIMENTS["bgelasor-fig5"].inputs(Scope(1))
    assert "**made up**, because bgelasor_periodic.csv" in line
    assert "were not found in data/here" in line


def test_one_missing_file_is_named_alone(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(elsewhere)
    (elsewhere / "bgelasor_periodic.csv").unlink()
    monkeypatch.setenv(TRACES_VARIABLE, str(elsewhere))
    [line] = EXPERIMENTS["bgelasor-fig4"].inputs(Scope(1))
    assert "because bgelasor_periodic.csv was not found in" in line


def test_published_files_are_named_with_their_digest_and_not_with_a_path_of_this_machine(elsewhere: Path) -> None:
    publish(elsewhere)
    scope = Scope(1, traces=elsewhere)
    lines = EXPERIMENTS["bgelasor-fig4"].inputs(scope)
    digest = hashlib.sha256((elsewhere / "bgelasor_periodic.csv").read_bytes()).hexdigest()[:12]
    assert lines[0] == f"`bgelasor_periodic.csv` (sha256 {digest}), published with BGElasor, 5 min bins"
    assert str(elsewhere) not in " ".join(lines)
    assert {job.folder for job in DayJob.for_scope(scope, "periodic")} == {elsewhere}


def test_the_option_comes_before_the_variable_and_must_hold_the_files(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(elsewhere)
    monkeypatch.setenv(TRACES_VARIABLE, str(elsewhere / "other"))
    assert traces_folder(elsewhere) == elsewhere
    assert traces_folder(None) is None
    with pytest.raises(ConfigError, match=r"--traces.*bgelasor_periodic.csv"):
        traces_folder(elsewhere / "other")


def test_the_series_is_that_of_the_folder(elsewhere: Path) -> None:
    publish(elsewhere)
    assert long_trace("periodic", elsewhere).values.tolist() == pytest.approx([n / 300 for n in range(100, 104)])


def test_the_command_says_what_it_used_in_its_output_the_page_and_the_numbers(elsewhere: Path) -> None:
    arguments = ["reproduce", "grouping-fig8", "--seeds", "1", "--first", "200", "--processes", "1", "--out", "out"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    [line] = EXPERIMENTS["grouping-fig8"].inputs(Scope(1))
    assert "input: " in result.output
    assert line in result.output
    assert f"- {line}" in (elsewhere / "out" / "grouping-fig8.md").read_text()
    assert json.loads((elsewhere / "out" / "grouping-fig8.json").read_text())["inputs"] == [line]


def test_the_command_refuses_a_folder_without_the_files_before_it_runs(elsewhere: Path) -> None:
    result = CliRunner().invoke(app, ["reproduce", "bgelasor-fig4", "--traces", "nowhere", "--out", "out"])
    assert result.exit_code == 2
    assert "--traces" in result.output
    assert not (elsewhere / "out").exists()
