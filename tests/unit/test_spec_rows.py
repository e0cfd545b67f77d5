"""The table of requirements in docs/references.md names real files, real tests and real commands."""

from __future__ import annotations

import ast
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
from typer.main import get_command

from foretide.apps import APPS
from foretide.cli import app
from foretide.experiments.reproduce import find_experiments
from foretide.forecast import FORECASTERS
from foretide.health.settings import Judge
from foretide.plan import PLANNERS
from foretide.traces import load_trace

ROOT = Path(__file__).parents[2]
CELL = re.compile(r"`([^`]+)`")


class Row(NamedTuple):
    id: str
    about: str
    files: list[str]
    tests: list[str]
    command: str


def rows() -> list[Row]:
    text = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| ([PIBD]\d+) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    return [Row(id_, what, CELL.findall(files), CELL.findall(tests), line) for id_, what, files, tests, line in found]


ROWS = rows()


@cache
def functions(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def module_of(file: str) -> str:
    return "foretide." + file.removesuffix(".py").replace("/", ".")


@cache
def imports(test: Path) -> frozenset[str]:
    """Return the modules of the package that a module of tests imports, also by names that a package gives on."""
    return imported(test.read_text(encoding="utf-8"))


def imported(source: str) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            for name in node.names:
                found |= {f"{node.module}.{name.name}", given_on(node.module).get(name.name, node.module)}
    return frozenset(found)


@cache
def given_on(package: str) -> dict[str, str]:
    """Return the modules that a package has its names from."""
    file = ROOT / "src" / package.replace(".", "/") / "__init__.py"
    if not file.is_file():
        return {}
    nodes = [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)]
    return {name.asname or name.name: node.module for node in nodes if node.module for name in node.names}


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
def test_a_row_names_tests_that_are_there(row: Row) -> None:
    assert row.tests
    for test in row.tests:
        file, _, name = test.partition("::")
        assert name.startswith("test_")
        assert name in functions(ROOT / "tests" / file), test


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_what_a_row_names_is_imported_where_it_is_tested(row: Row) -> None:
    modules = {name: module_of(name) for name in row.files}
    used = {test: imports(ROOT / "tests" / test.partition("::")[0]) for test in row.tests}
    assert [name for name, module in modules.items() if not any(module in found for found in used.values())] == []
    assert [test for test, found in used.items() if found.isdisjoint(modules.values())] == []


def test_a_name_counts_for_the_module_that_its_package_has_it_from() -> None:
    source = "from foretide.grouping import Dynamic\nfrom foretide.apps import dns\nimport foretide.plan.load\n"
    found = imported(source)
    assert {"foretide.grouping.dynamic", "foretide.apps.dns", "foretide.plan.load"} <= found
    assert found.isdisjoint(
        {"foretide.grouping.ring", "foretide.grouping.osg", "foretide.apps.logs", "foretide.plan.cost"}
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_names_a_command_that_the_program_takes_or_says_that_there_is_none(row: Row) -> None:
    if row.command.startswith("none: "):
        return
    [line] = CELL.findall(row.command)
    assert not re.search(r"\.\./|\bshared\b|(^|[ =])/", line), "a command stands where Foretide is installed"
    given = parsed(line)
    if "reproduce" in line:
        assert find_experiments(given["names"])
    named = {
        *filter(None, [given.get("policy"), given.get("forecaster")]),
        *(given.get("policies") or "").split(","),
        *(given.get("models") or "").split(","),
    }
    assert named - {""} <= {*PLANNERS, *FORECASTERS}
    for trace in filter(None, [given.get("trace"), *(given.get("traces") or ())]):
        assert load_trace(str(trace)).bin_s > 0
    # What a run has recorded, and `foretide runs export latest --out history.csv` has written, is there for everybody.
    assert (given.get("csv"), given.get("value")) in ((None, None), ([Path("history.csv")], ["events_per_second"]))
    assert given.get("health") in (None, *get_args(Judge))
    if line.startswith("foretide run "):
        assert line.split()[2] in APPS


@pytest.mark.parametrize(
    "line", ["foretide runs exports latest", "foretide run dns --minute 2", "foretide demo dns", "foretide frobnicate"]
)
def test_a_command_that_does_not_exist_is_found_out(line: str) -> None:
    with pytest.raises(Exception, match=r"No such (command|option)|unexpected extra argument"):
        parsed(line)
