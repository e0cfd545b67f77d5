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


def test_turns_of_other_settings_are_neither_taken_nor_reported(harness: ModuleType, tmp_path: Path) -> None:
    path, first, other, old = tmp_path / "kept.jsonl", Sides(), Sides(), Sides()
    harness.keep_row({"part": "a", "side": "ours", "turn": 0, "value": 9, "commit": "x", "processor": "y"}, path)
    for sides, interval_ms in ((first, 60), (other, 120), (old, 60)):
        turns = harness.Turns(path)
        settings = {"rate": 1_000, "interval_ms": interval_ms}
        harness.alternate(sides.alternatives(), 1, warm_up=0, turns=turns, part="a", settings=settings)
        assert [row["settings"] for row in turns.rows] == [settings, settings]
    assert first.asked == other.asked == ["ours", "others"] and old.asked == []


def test_the_sweep_of_pyflink_goes_on_only_with_what_is_of_its_rate(
    harness: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, turns, tried = benchmark_module("live"), harness.Turns(tmp_path / "kept.jsonl"), list[tuple[int, int]]()

    def measure(_: Path, __: str, rate: int, ___: float, interval_ms: int) -> tuple[float, float]:
        tried.append((rate, interval_ms))
        if interval_ms == live.INTERVALS_MS[0]:
            raise RuntimeError("behind")
        return rate * interval_ms / 1e6, 1.0

    monkeypatch.setattr(live, "flink_latencies", measure)
    for rate in (1_000, 5_000, 1_000):
        found = live.sweep(tmp_path, "", rate, 20.0, turns)
        assert found == {ms: None if ms == live.INTERVALS_MS[0] else rate * ms / 1e6 for ms in live.INTERVALS_MS}
    assert tried == [(rate, ms) for rate in (1_000, 5_000) for ms in live.INTERVALS_MS]
    live.sweep(tmp_path, "", 1_000, 10.0, turns)
    assert len(tried) == 3 * len(live.INTERVALS_MS)


def test_turns_tell_their_commits_and_which_are_rounded(harness: ModuleType, tmp_path: Path) -> None:
    turns = harness.Turns(tmp_path / "kept.jsonl")
    assert turns.known("a", {"rate": 5}) == {}
    turns.keep("a", {"rate": 5}, "ours", 0, 1.5)
    [row] = turns.rows
    assert set(row) == {"part", "settings", "side", "turn", "value", "commit", "processor"}
    rows = [
        {"commit": "abc", "processor": "X"},
        {"commit": "abc", "processor": "X", "as_printed": True},
        {"commit": "def", "processor": "Y"},
    ]
    assert benchmark_module("_report").provenance(rows) == (
        "Runs by commit and processor: 2 of abc (X), 1 of def (Y). Of 1 of them only what was printed is kept, rounded."
    )
    assert json.loads((tmp_path / "kept.jsonl").read_text()) == row
