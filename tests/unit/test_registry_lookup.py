from __future__ import annotations

import logging
from collections.abc import Iterable

import pytest

import foretide.registry
from foretide.errors import ConfigError
from foretide.registry import Registry


class Shape: ...


class Line(Shape): ...


class Circle(Shape): ...


class FakeEntry:
    def __init__(self, name: str, loaded: object) -> None:
        self.name, self.value, self._loaded = name, f"package:{name}", loaded

    def load(self) -> object:
        if isinstance(self._loaded, Exception):
            raise self._loaded
        return self._loaded


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> list[FakeEntry]:
    """Return the list of entry points that other packages offer in group "shapes"."""
    entries: list[FakeEntry] = []

    def entry_points(*, group: str) -> Iterable[FakeEntry]:
        return entries if group == "shapes" else ()

    monkeypatch.setattr(foretide.registry, "entry_points", entry_points)
    return entries


def registry() -> Registry[Shape]:
    return Registry("shape", "shapes", {"line": Line}, Shape)


def test_finds_our_own_and_those_of_other_packages(offered: list[FakeEntry]) -> None:
    offered.append(FakeEntry("circle", Circle))
    assert registry().find("line") is Line
    assert registry().find("circle") is Circle
    assert set(registry().all) == {"line", "circle"}


def test_another_package_cannot_replace_ours(offered: list[FakeEntry]) -> None:
    offered.append(FakeEntry("line", Circle))
    assert registry().find("line") is Line
    assert registry().all["line"] is Line


def test_unknown_name_tells_the_closest(offered: list[FakeEntry]) -> None:
    with pytest.raises(ConfigError, match=r"setting 'shape': expected one of line, got 'lime'; did you mean 'line'\?"):
        registry().find("lime")
    with pytest.raises(ConfigError, match=r"got 'zzz'$"):
        registry().find("zzz")


@pytest.mark.parametrize(
    ("loaded", "logged"),
    [
        (ImportError("no module"), "cannot be loaded and is left out"),
        (int, "is not a Shape"),
        (Line(), "is not a Shape"),
    ],
)
def test_one_that_is_no_good_is_logged_and_left_out(
    offered: list[FakeEntry], caplog: pytest.LogCaptureFixture, loaded: object, logged: str
) -> None:
    offered.append(FakeEntry("bad", loaded))
    with caplog.at_level(logging.ERROR), pytest.raises(ConfigError):
        registry().find("bad")
    assert registry().find("line") is Line
    assert logged in caplog.text
