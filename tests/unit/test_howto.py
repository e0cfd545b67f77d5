"""The how-to guides: examples run, and plug-ins are found as the guides say."""

from __future__ import annotations

import doctest
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from foretide.cli import app
from foretide.commands.docs_view import all_commands
from foretide.config import validated
from foretide.control import ControlSettings
from foretide.forecast.registry import FORECASTERS
from foretide.plan.registry import PLANNERS

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
PAGES = sorted(HOWTO.glob("*.md"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
COMMANDS = dict(all_commands(get_command(app)))


def blocks(page: Path, *languages: str) -> list[str]:
    return [body for kind, body in FENCE.findall(page.read_text(encoding="utf-8")) if kind in languages]


def sources(page: Path) -> tuple[list[str], dict[str, Any]]:
    """Run the examples of a page; return the statements without what they print, and the names that they leave."""
    names: dict[str, Any] = {"__name__": "examples"}
    test = doctest.DocTestParser().get_doctest(_examples(page), names, page.name, page.name, 0)
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=report.append, clear_globs=False)
    assert result.attempted > 0
    assert result.failed == 0, "".join(report)
    return [example.source for example in test.examples], test.globs


def _examples(page: Path) -> str:
    return "\n".join(block for block in blocks(page, "python") if ">>>" in block)


def install(folder: Path, page: Path) -> dict[str, dict[str, str]]:
    """Lay out the package of a guide as pip would: its module, and what it announces; return the entry points."""
    [declared] = blocks(page, "toml")
    project = tomllib.loads(declared)["project"]
    groups: dict[str, dict[str, str]] = project["entry-points"]
    [(module, kind)] = [value.split(":") for group in groups.values() for value in group.values()]
    statements, _ = sources(page)
    upto = next(number for number, source in enumerate(statements) if source.startswith(f"class {kind}("))
    (folder / f"{module}.py").write_text("".join(statements[: upto + 1]), encoding="utf-8")
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(head, encoding="utf-8")
    lines = [
        line for group, found in groups.items() for line in (f"[{group}]", *(f"{k} = {v}" for k, v in found.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return groups


def foretide(folder: Path, *arguments: str) -> str:
    code = "from foretide.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_guides_are_there() -> None:
    assert {page.stem for page in PAGES} >= {
        *("attach", "choose-a-policy", "clusters", "guards", "write-a-forecaster", "write-a-planner")
    }


@pytest.mark.slow
def test_a_forecaster_of_another_package_is_listed_and_tested(tmp_path: Path) -> None:
    groups = install(tmp_path, HOWTO / "write-a-forecaster.md")
    assert groups == {"foretide.forecasters": {"drift": "my_forecasters:Drift"}}
    listed = json.loads(foretide(tmp_path, "forecast", "models", "--json"))
    assert {"name": "drift", "summary": "the mean change of the window goes on and fades", "spec": []}.items() <= next(
        entry for entry in listed if entry["name"] == "drift"
    ).items()
    [own_test] = [block for block in blocks(HOWTO / "write-a-forecaster.md", "python") if ">>>" not in block]
    (tmp_path / "test_drift.py").write_text(own_test, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout
    rates = tmp_path / "rates.csv"
    rates.write_text("rate\n" + "\n".join(str(100 + 5 * step) for step in range(40)))
    asked = ("--csv", str(rates), "--value", "rate", "--horizon", "2", "--models", "drift", "--set", "drift.fade=1.0")
    found = json.loads(foretide(tmp_path, "forecast", "backtest", *asked, "--json", "-"))
    assert "drift" in json.dumps(found)


@pytest.mark.slow
def test_a_planner_of_another_package_is_listed_and_plans(tmp_path: Path) -> None:
    groups = install(tmp_path, HOWTO / "write-a-planner.md")
    assert groups == {"foretide.planners": {"headroom": "my_planners:Headroom"}}
    listed = {entry["name"] for entry in json.loads(foretide(tmp_path, "planners", "--json"))}
    assert "headroom" in listed and "pasps" in listed
    trace = tmp_path / "steps.csv"
    trace.write_text("second,events_per_second\n" + "".join(f"{60 * at},{50 + 10 * at}\n" for at in range(4)))
    asked = ("--trace", str(trace), "--policy", "headroom", "--set", "headroom.factor=1.5", "--td", "10")
    [row] = json.loads(foretide(tmp_path, "simulate", "dns", *asked, "--json", "-"))["rows"]
    assert row["policy"] == "headroom" and row["processed"] > 0.9


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_and_their_options_exist(page: Path) -> None:
    text = "\n".join(blocks(page, "sh", "bash")).replace("\\\n", " ")
    unknown = []
    for line in text.splitlines():
        words = shlex.split(line.partition(" #")[0])
        if "foretide" not in words or words[-1] == "...":
            continue
        words = words[words.index("foretide") :]
        path = max((name for name in COMMANDS if words[: len(name.split())] == name.split()), key=len)
        if path == "foretide attach":  # what follows the script is its own
            words = words[: next((place for place, word in enumerate(words) if word.endswith(".py")), None)]
        known = {option for param in COMMANDS[path].params for option in param.opts}
        unknown += [word for word in words if word.startswith("--") and word.partition("=")[0] not in known]
        unknown += [line] if path == "foretide" else []
    assert unknown == []


def test_the_guide_to_policies_names_what_exists() -> None:
    text = (HOWTO / "choose-a-policy.md").read_text(encoding="utf-8")
    table = text.partition("| If | then | because |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z0-9-]+)`", table)) <= set(PLANNERS)
    policies = [one for given in re.findall(r"--policies (\S+)", text) for one in given.split(",")]
    assert policies
    for policy in policies:
        planner, _, forecaster = policy.partition(":")
        assert planner in PLANNERS and (not forecaster or forecaster in FORECASTERS)
    settings = {"planners": {"foretide": {"patience": 1.0}}, "guards": {"utilisation_target": 0.6}}
    settings["guards"]["delay_scale_in_s"] = float(re.findall(r"delay_scale_in_s = (\d+)", text)[0])
    assert validated(ControlSettings, settings, "guide").guards.delay_scale_in_s == 30.0


def test_the_guide_to_guards_runs_and_its_settings_are_valid() -> None:
    page = HOWTO / "guards.md"
    sources(page)
    files = [tomllib.loads(block) for block in blocks(page, "toml")]
    assert [set(found) for found in files] == [{"guards"}, {"guards"}, {"signal"}]
    for found in files:
        validated(ControlSettings, found, "guide")
