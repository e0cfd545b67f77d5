"""The documents: links resolve, examples run, pasted output is what the commands print."""

from __future__ import annotations

import doctest
import re
import tomllib
import unicodedata
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from foretide.cli import app
from foretide.plan.registry import ENTRY_POINT_GROUP
from foretide.topology import Topology, load_topology

ROOT = Path(__file__).parents[2]
SKIPPED = {".venv", "build", "dist", "node_modules"}
PAGES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part in SKIPPED or part.startswith(".") for part in path.relative_to(ROOT).parts)
)
RECORDS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
CODE = re.compile(r"`[^`\n]+`")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]\n]*\]\(([^()\s]+)\)")
OUTPUT = re.compile(r"^<!-- output of: foretide ([^\n]+) -->\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OUTPUTS = OUTPUT.findall(README)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(text: str, language: str) -> list[str]:
    return [body for kind, body in FENCE.findall(text) if kind == language]


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    broken = []
    for target in LINK.findall(CODE.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        place = (page.parent / file).resolve() if file else page
        if not place.exists() or (anchor and anchor not in anchors(place.read_text(encoding="utf-8"))):
            broken.append(target)
    return broken


def run_examples(text: str, name: str) -> dict[str, Any]:
    """Run the Python examples of a page, one after another, and return the names that they leave behind."""
    names: dict[str, Any] = {"__name__": "examples"}
    examples = "\n".join(block for block in blocks(text, "python") if ">>>" in block)
    test = doctest.DocTestParser().get_doctest(examples, names, name, name, 0)
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=report.append, clear_globs=False)
    assert result.attempted > 0
    assert result.failed == 0, "".join(report)
    return test.globs


def line_of(text: str) -> str:
    """Return a line by its words: the space between them depends on the width of the terminal."""
    return " ".join(unicodedata.normalize("NFC", text).split())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_resolve(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A b\n[x](none.md) [y](#a-b) [z](#c) [w](https://example.org) `[v](code.md)`\n")
    assert broken_links(page) == ["none.md", "#c"]


def test_there_are_pages_and_records() -> None:
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/architecture.md"} <= {name_of(page) for page in PAGES}
    assert len(RECORDS) >= 9


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_a_decision_record_has_its_parts(record: Path) -> None:
    text = record.read_text(encoding="utf-8")
    number, _, _ = record.stem.partition("-")
    assert text.startswith(f"# {number} ")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
    assert "\nStatus: " in text


def test_decision_records_are_numbered_and_indexed() -> None:
    numbers = [int(record.name[:4]) for record in RECORDS]
    # A number may be taken by a record that is still to come.
    assert numbers[0] == 1 and numbers == sorted(set(numbers))
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [record.name for record in RECORDS] == re.findall(r"\(decisions/([^)]+)\)", index)


def test_the_examples_of_the_readme_run_and_the_file_declares_the_same(tmp_path: Path) -> None:
    topology = run_examples(README, "README.md")["topology"]
    assert isinstance(topology, Topology)
    [declared] = blocks(README, "toml")
    file = tmp_path / "news.toml"
    file.write_text(declared, encoding="utf-8")
    assert load_topology(file) == topology


def test_the_recipes_of_the_guide_run_and_name_the_real_groups() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    names = run_examples(guide, "CONTRIBUTING.md")
    [announced] = blocks(guide, "toml")
    groups = tomllib.loads(announced)["project"]["entry-points"]
    assert set(groups) == {ENTRY_POINT_GROUP, "foretide.forecasters"}
    for group in groups.values():
        for name, value in group.items():
            assert names[value.partition(":")[2]].name == name


@pytest.mark.parametrize(("command", "pasted"), OUTPUTS, ids=[command for command, _ in OUTPUTS])
def test_pasted_output_is_what_the_command_prints(
    command: str, pasted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "news.toml").write_text(blocks(README, "toml")[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, command.split(), env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    printed = iter([line_of(line) for line in result.output.splitlines()])
    # In order: each pasted line is found after the one before it.
    lost = [line for line in pasted.splitlines() if line.strip() and line != "[...]" and line_of(line) not in printed]
    assert lost == []


def test_output_of_every_command_of_the_readme_is_checked() -> None:
    assert [command.split()[0] for command, _ in OUTPUTS] == ["demo", "show", "planners"]


def test_the_architecture_lists_the_layers_that_are_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = [
        {name for name in re.findall(r"foretide\.(\w+)", layer) if not name.startswith("_")}
        for layer in project["tool"]["importlinter"]["contracts"][0]["layers"]
    ]
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    lines = blocks(page.partition("## Packages and the direction of imports")[2], "text")[0].splitlines()
    # What is told of packages stands in a column of its own, unless there are too many of them.
    names = [re.findall(r"\w+", line if line[29:30].strip() else line[:30]) for line in lines]
    assert {name for found in names for name in found} == set().union(*layers)
    place = {name: row for row, found in enumerate(names) for name in found}
    for upper, lower in pairwise(layers):
        assert max(place[name] for name in upper) <= min(place[name] for name in lower), (upper, lower)
