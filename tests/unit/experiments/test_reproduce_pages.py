from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from foretide.cli import app
from foretide.errors import ConfigError
from foretide.experiments.figures import to_svg
from foretide.experiments.report import Report
from foretide.experiments.reproduce import EXPERIMENTS, RunError, find_experiments, run_jobs, to_report, write_index
from foretide.experiments.reproduce.contract import (
    Check,
    Comparison,
    Experiment,
    Line,
    Metric,
    Panel,
    Printed,
    Result,
    Scope,
    Trial,
)
from foretide.experiments.reproduce.grouping_split import SplitJob
from foretide.experiments.reproduce.pasps.runs import PaspsJob

PART = Metric("part", "a part", "part")
RESULT = Result(
    (
        Comparison("ANN", PART, (0.4, 0.5), Printed(0.6, "PASPS, table 2"), (Trial("later", 0.61),)),
        Comparison("LR", PART, (0.6, 0.6)),
    ),
    (Check("ANN is lowest", 2, 2, "ANN 0.450"), Check("LR is lowest", 0, 2)),
    (
        Panel("curves", "s", "n", (Line("input", [0, 1], [1, 2], "shade"), Line("a", [0, 1], [2, 1], "steps"))),
        Panel("bars", "", "n", (Line("ours", [0, 1], [1, 2]), Line("paper", [0, 1], [1, 3])), ("x", "y")),
    ),
    ("a note",),
)
EXPERIMENT = Experiment("pasps-table2", "a table", "PASPS", 1.0, lambda scope: (), lambda scope, outcomes: RESULT)


@dataclass(frozen=True)
class Square:
    number: int

    @property
    def label(self) -> str:
        return f"square of {self.number}"

    @property
    def cost(self) -> float:
        return float(self.number)

    def run(self) -> int:
        if self.number < 0:
            raise ValueError("negative")
        return self.number**2


def test_a_page_has_ours_the_papers_and_the_deviation(tmp_path: Path) -> None:
    page, picture, numbers = (
        (tmp_path / f"pasps-table2.{kind}")
        for kind in ("md", "svg", "json")
        if to_report(EXPERIMENT, RESULT, Scope(2)).write(tmp_path)
    )
    text = page.read_text()
    assert "| ANN | a part | 0.450 | 0.050 | 0.600 | -25% | explained | later: 0.610 (+2%) |" in text
    assert "| LR | a part | 0.600 | 0.000 | – | – | not printed |  |" in text
    assert "1 printed number: **0 within 10 %**, 1 explained, **0 unexplained**, 0 no evidence (not counted)." in text
    assert "- PASPS, table 2" in text
    assert "| ANN | a part | 0.600 | 0.450 | **0.610** |" in text
    assert "| **holds** | 2 of 2 | ANN is lowest | ANN 0.450 |" in text
    assert "| does not hold | 0 of 2 | LR is lowest |" in text
    assert "compare with nothing" not in text
    assert json.loads(numbers.read_text())["seeds"] == 2
    assert ElementTree.fromstring(picture.read_text()).tag.endswith("svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(p.name for p in (page, picture, numbers))


def test_a_page_of_a_part_says_so(tmp_path: Path) -> None:
    to_report(EXPERIMENT, RESULT, Scope(1, first_s=100.0)).write(tmp_path)
    assert "Only the first 100 s of each input" in (tmp_path / "pasps-table2.md").read_text()


def test_experiments_on_spark_leave_the_same_kinds_of_files(tmp_path: Path) -> None:
    report = Report(
        name="split",
        title="Split ratios",
        origin="Written by `foretide experiment split`;",
        head=("ratio", "off"),
        rows=[("7:3:2", "0.11")],
        checks=(Check("within 2 points", 4, 5, "at most 2.3"),),
        notes=("three replicas",),
        data={"off": float("nan"), "batches": [[1, 0.25]]},
    )
    assert [path.name for path in report.write(tmp_path / "new")] == ["split.json", "split.md"]
    assert (tmp_path / "new" / "split.md").read_text() == (
        "# Split ratios\n\nWritten by `foretide experiment split`; [numbers as JSON](split.json).\n\n"
        "| ratio | off |\n| --- | ---: |\n| 7:3:2 | 0.11 |\n\n"
        "## What holds\n\n| verdict | runs | statement | numbers |\n| --- | ---: | --- | --- |\n"
        "| does not hold | 4 of 5 | within 2 points | at most 2.3 |\n\n## How it was set up\n\n- three replicas\n"
    )
    numbers = json.loads((tmp_path / "new" / "split.json").read_text())
    assert (numbers["off"], numbers["batches"], report.holds) == (None, [[1, 0.25]], False)


def test_figures_of_the_same_numbers_are_the_same_file() -> None:
    assert to_svg(RESULT.panels) == to_svg(RESULT.panels)


def test_the_index_lists_what_was_run_and_what_does_not_hold(tmp_path: Path) -> None:
    to_report(EXPERIMENT, RESULT, Scope(2)).write(tmp_path)
    (tmp_path / "osg.json").write_text("not ours")
    text = write_index(tmp_path, EXPERIMENTS).read_text()
    assert "| [pasps-table2](pasps-table2.md) |" in text
    assert "| 0 | 1 | 0 | 0 | 1 of 2 | LR is lowest |" in text
    assert "dabs-fig12" not in text
    assert "osg.md" not in text


def test_names_and_patterns_find_experiments_in_order() -> None:
    assert [each.name for each in find_experiments(["presps-td", "presps-*"])] == ["presps-table3", "presps-td"]
    assert find_experiments(["all"]) == tuple(EXPERIMENTS.values())


def test_every_experiment_of_the_papers_is_there() -> None:
    wanted = {
        *(f"pasps-table{number}" for number in range(2, 9)),
        *(f"dabs-fig{number}" for number in range(12, 18)),
        *("presps-table3", "presps-td", "bgelasor-table1", "bgelasor-fig4", "bgelasor-fig5"),
        *("grouping-fig8", "osg"),
    }
    assert set(EXPERIMENTS) == wanted


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_every_experiment_has_runs_for_each_seed(name: str) -> None:
    jobs = EXPERIMENTS[name].jobs(Scope(2))
    assert len({job.label for job in jobs}) == len(set(jobs)) >= 2
    assert all(job.cost > 0 for job in jobs)


def test_an_unknown_name_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ConfigError, match=r"pasps-table2, .*got 'pasps-table9'; did you mean 'pasps-table"):
        find_experiments(["pasps-table9"])


def test_runs_are_made_once_and_the_long_ones_first() -> None:
    seen: list[tuple[str, int, int]] = []
    jobs = [Square(2), Square(3), Square(2)]
    assert run_jobs(jobs, 1, lambda job, done, total: seen.append((job.label, done, total))) == {jobs[0]: 4, jobs[1]: 9}
    assert seen == [("square of 3", 1, 2), ("square of 2", 2, 2)]


@pytest.mark.slow
def test_runs_in_processes_give_the_same_and_one_that_fails_names_itself() -> None:
    jobs = [SplitJob(1, 60.0), SplitJob(2, 60.0)]
    apart, here = run_jobs(jobs, 2), run_jobs(jobs, 1)
    assert all(np.array_equal(apart[job], here[job]) for job in jobs)
    with pytest.raises(RunError, match=r"run 'static:1 on nowhere.*: TraceError: trace 'nowhere'"):
        run_jobs([*jobs, PaspsJob("nowhere", "static", "1", 1)], 2)


def test_a_run_that_fails_names_itself() -> None:
    with pytest.raises(RunError, match="run 'square of -1': ValueError: negative"):
        run_jobs([Square(-1)], 1)
    with pytest.raises(ConfigError, match="--processes"):
        run_jobs([Square(1)], 0)


def test_the_command_writes_a_page_an_index_and_prints_verdicts(tmp_path: Path) -> None:
    arguments = ["reproduce", "grouping-fig8", "--seeds", "2", "--first", "200", "--processes", "1"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "holds (2 of 2): 150-200 s, 7:3:2" in result.output
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"README.md", "grouping-fig8.md", "grouping-fig8.svg", "grouping-fig8.json"}


def test_the_command_lists_experiments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    result = CliRunner().invoke(app, ["reproduce", "--list"])
    assert result.exit_code == 0
    assert all(name in result.output for name in EXPERIMENTS)


def test_the_help_teaches_with_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert "Example: foretide reproduce" in CliRunner().invoke(app, ["reproduce", "--help"]).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "got none"),
        (["nothing"], "got 'nothing'"),
        (["osg", "--seeds", "0"], "--seeds"),
        (["osg", "--first", "1"], "--first"),
    ],
)
def test_the_command_explains_what_is_wrong_and_writes_nothing(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["reproduce", *arguments, "--out", str(out)])
    assert result.exit_code == 2
    assert message in result.output
    assert not out.exists()


def test_a_folder_that_cannot_be_made_is_found_out_before_the_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["reproduce", "pasps-table2", "--out", str(tmp_path / "file" / "out")])
    assert result.exit_code == 2
    assert "--out" in result.output
