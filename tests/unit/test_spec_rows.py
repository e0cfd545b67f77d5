"""The table of requirements in docs/references.md names real files, real tests and real commands."""

from __future__ import annotations

import ast
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.main import get_command

from foretide.apps import APPS
from foretide.cli import app
from foretide.experiments.reproduce import find_experiments
from foretide.forecast import FORECASTERS
from foretide.plan import PLANNERS

ROOT = Path(__file__).parents[2]
CELL = re.compile(r"`([^`]+)`")


class Row(NamedTuple):
    id: str
    about: str
    files: list[str]
    test: str
    command: str


def rows() -> list[Row]:
    text = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| ([PIBD]\d+) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    return [Row(id_, what, CELL.findall(files), CELL.findall(test)[0], line) for id_, what, files, test, line in found]


ROWS = rows()


@cache
def functions(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def parsed(line: str) -> dict[str, Any]:
    """Parse a command line as the program would, and run nothing; an unknown command or option raises."""
    _, *words = shlex.split(line)
    command: Any = get_command(app)
    context = command.context_class(command, info_name="foretide")
    while hasattr(command, "resolve_command"):
        name, command, words = command.resolve_command(context, words)
        context = command.context_class(command, info_name=name, parent=context)
    found: dict[str, Any] = command.make_context(command.name, words, parent=context.parent).params
    return found


def test_every_row_has_all_of_its_columns() -> None:
    expected = {"P": 10, "I": 8, "B": 4, "D": 7}
    assert [row.id for row in ROWS] == [f"{letter}{n}" for letter, last in expected.items() for n in range(1, last + 1)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_names_files_that_are_there(row: Row) -> None:
    assert row.files
    assert [name for name in row.files if not (ROOT / "src" / "foretide" / name).is_file()] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_names_a_test_that_is_there(row: Row) -> None:
    file, _, name = row.test.partition("::")
    assert name.startswith("test_")
    assert name in functions(ROOT / "tests" / file)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_names_a_command_that_the_program_takes_or_says_that_there_is_none(row: Row) -> None:
    if row.command.startswith("none: "):
        return
    [line] = CELL.findall(row.command)
    given = parsed(line)
    if "reproduce" in line:
        assert find_experiments(given["names"])
    named = {
        *filter(None, [given.get("policy"), given.get("forecaster")]),
        *(given.get("policies") or "").split(","),
        *(given.get("models") or "").split(","),
    }
    assert named - {""} <= {*PLANNERS, *FORECASTERS}
    if line.startswith("foretide run "):
        assert line.split()[2] in APPS


@pytest.mark.parametrize(
    "line", ["foretide runs exports latest", "foretide run dns --minute 2", "foretide demo dns", "foretide frobnicate"]
)
def test_a_command_that_does_not_exist_is_found_out(line: str) -> None:
    with pytest.raises(Exception, match=r"No such (command|option)|unexpected extra argument"):
        parsed(line)
