"""What the benchmark of attached jobs makes of its runs."""

from __future__ import annotations

from typing import Any

import pytest
from benchmark_modules import benchmark_module

runs: Any = benchmark_module("_attached_runs")
attach: Any = benchmark_module("attach")


@pytest.mark.parametrize(
    ("values", "least", "found"),
    [([1, 2, 3, 2, 3, 3, 1], 1, 3), ([1, 2, 3, 2, 3, 3, 1], 2, 1), ([4, 4, 4], 1, 0), ([4, 1, 1.5, 1, 4], 1, 1)],
)
def test_turns_are_swings_of_some_size(values: list[float], least: float, found: int) -> None:
    assert runs.turns(values, least) == found


def test_the_peak_of_a_load_keeps_so_many_slots_busy() -> None:
    load = runs.Load("pasps_twitter_smoothed", speed=4.0, seconds=300.0, peak=3.2)
    at_s, rates = load.rates()
    assert rates.max() * runs.CORE_S == pytest.approx(3.2) and at_s[-1] < 300.0
    assert load.curve(1000.0).came_by(1300.0) == pytest.approx(float((rates * 1.25).sum()), rel=0.01)


def row(name: str, round: int = 0, **more: Any) -> dict[str, Any]:
    given = {"executor_s": 1200.0, "p95_s": 2.0, "turns": 0, "load_turns": 4, "cpu_share": 0.1, "memory_mb": 200.0}
    return {"trace": "t", "round": round, "name": name, "return_s": None, "changes": 0, "p50_s": 1.0, **given, **more}


def test_targets_are_ratios_of_runs_of_the_same_round() -> None:
    attached = {"executor_s": 600.0, "p95_s": 2.4, "turns": 5, "cpu_share": 0.105, "memory_mb": 300.0, "return_s": 8.0}
    rows = [
        row("static", foretold=0.45),
        row("attach", **attached),
        row("dynamic 5/1", executor_s=800.0, p95_s=3.0),
        row("static", 1, foretold=None),  # a round that is not whole
    ]
    found = {(line.what, line.against, line.sense): line for line in attach.targets("t", rows)}
    measured = {key: line.ratio.median for key, line in found.items()}
    assert measured[("t: executor-seconds", "static", "at most")] == 0.5
    assert measured[("t: p95 latency", "static", "at most")] == pytest.approx(1.2)
    assert measured[("t: executor-seconds", "dynamic 5/1", "at most")] == 0.75
    assert measured[("t: changes of direction", "turns of the load", "at most")] == 1.25
    assert measured[("t: saved as foretold", "as measured", "at least")] == pytest.approx(0.9)
    assert measured[("t: CPU of the attachment", "% of a core", "at most")] == pytest.approx(0.5)
    assert all(line.reached for line in found.values())
    assert next(cells[:3] for cells in attach.summary(rows)) == ["t", "static", "2"]


def test_dynamic_allocation_is_swept_first_and_then_has_its_best_setting() -> None:
    swept = [
        row(name, executor_s=600.0 - at, p95_s=2.0 + at) | {"trace": attach.TRACES[0]}
        for at, name in enumerate(attach.DYNAMIC)
    ]
    assert attach.dynamic(0, []) == attach.DYNAMIC
    assert attach.dynamic(3, swept) == (attach.DYNAMIC[0],)


def test_the_page_tells_which_commits_its_runs_are_of() -> None:
    rows = [row("static", commit="a1", processor="X"), *[row("attach", commit="b2", processor="X")] * 2]
    assert attach.provenance(rows) == "Runs by commit and processor: 1 of a1 (X), 2 of b2 (X)."
    printed = row("dynamic 3/1", commit="b2", processor="X", as_printed=True)
    assert attach.provenance([printed]).endswith("1 of b2 (X). Of 1 of them only what was printed is kept, rounded.")
