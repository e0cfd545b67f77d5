"""Turns of a benchmark that are kept: the same command goes on where it was stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from benchmark_modules import benchmark_module


@pytest.fixture(scope="module")
def harness() -> ModuleType:
    return benchmark_module("_harness")


class Sides:
    """Two sides that note who was asked, and one of which may fail."""

    def __init__(self, fail_at: int = -1) -> None:
        self.asked: list[str] = []
        self._fail_at = fail_at

    def alternatives(self) -> dict[str, Callable[[], int]]:
        return {name: lambda name=name: self._ask(name) for name in ("ours", "others")}  # type: ignore[misc]

    def _ask(self, name: str) -> int:
        if len(self.asked) == self._fail_at:
            raise RuntimeError("stopped")
        self.asked.append(name)
        return len(self.asked)


def test_what_was_measured_before_a_stop_is_not_measured_again(harness: ModuleType, tmp_path: Path) -> None:
    turns, first, again, idle = harness.Turns(tmp_path / "kept.jsonl"), Sides(fail_at=5), Sides(), Sides()
    with pytest.raises(RuntimeError, match="stopped"):
        harness.alternate(first.alternatives(), 2, turns=turns, part="a")
    assert first.asked == ["others", "ours", "ours", "others", "others"]  # one round to warm up
    found = harness.alternate(again.alternatives(), 2, turns=turns, part="a")
    assert again.asked == ["others", "ours", "ours"]  # one round to warm up, and what was missing
    assert found == {"ours": [3, 3], "others": [4, 5]}
    assert harness.alternate(idle.alternatives(), 2, turns=turns, part="a") == found and idle.asked == []
    harness.alternate(idle.alternatives(), 1, warm_up=0, turns=turns, part="b")
    assert idle.asked == ["ours", "others"]


def test_turns_tell_their_commits_and_which_are_rounded(harness: ModuleType, tmp_path: Path) -> None:
    turns = harness.Turns(tmp_path / "kept.jsonl")
    turns.keep("a", "ours", 0, 1.5)
    [row] = turns.rows
    assert set(row) == {"part", "side", "turn", "value", "commit", "processor"}
    rows = [
        {"commit": "abc", "processor": "X"},
        {"commit": "abc", "processor": "X", "as_printed": True},
        {"commit": "def", "processor": "Y"},
    ]
    assert benchmark_module("_report").provenance(rows) == (
        "Runs by commit and processor: 2 of abc (X), 1 of def (Y). Of 1 of them only what was printed is kept, rounded."
    )
    assert json.loads((tmp_path / "kept.jsonl").read_text()) == row
