"""The rooms of the house: each says what lives there, and none is too full."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import foretide

ROOT = Path(foretide.__file__).parent
ROOMS = sorted(path.parent for path in ROOT.rglob("__init__.py") if path.parent != ROOT)
MODULES = sorted(ROOT.rglob("*.py"))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("room", ROOMS, ids=name)
def test_a_room_says_what_lives_there_and_what_it_may_import(room: Path) -> None:
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert "May import" in text
    assert len(text.splitlines()) <= 5


def test_no_room_holds_more_than_twenty_modules() -> None:
    assert {name(room): count for room in ROOMS if (count := len(list(room.glob("*.py")))) > 20} == {}


def test_no_module_has_more_than_four_hundred_lines() -> None:
    sizes = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {path: lines for path, lines in sizes.items() if lines > 400} == {}
