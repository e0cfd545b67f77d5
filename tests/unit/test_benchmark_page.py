"""The page of benchmarks holds what the files of results hold, and no result that breaks the rules."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from benchmark_modules import benchmark_module

ROOT = Path(__file__).parents[2]
RESULTS = {path.stem: path for path in sorted((ROOT / "benchmarks" / "results").glob("*.json"))}
#: Results whose tables stand in another page, and sections that no result makes.
ELSEWHERE, APART = {"prices"}, {"overview", "forecasting", "zero"}
LINE = {"what": "speed", "against": "before", "sense": "at most", "target": 1.0, "note": ""}


@pytest.fixture(scope="module")
def report() -> ModuleType:
    return benchmark_module("_report")


@pytest.fixture(scope="module")
def bench_all() -> ModuleType:
    return benchmark_module("bench_all")


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULTS[name].read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("name", sorted(set(RESULTS) - ELSEWHERE))
def test_a_section_is_what_its_result_makes(report: ModuleType, page: str, name: str) -> None:
    found = read(name)
    assert report.broken_rules(found) == []
    assert report.section_of(page, name) == report.page_section(found)


def test_every_section_has_a_result(page: str) -> None:
    sections = set(re.findall(r"<!-- ([a-z-]+):begin -->", page))
    assert sections - APART == {name.replace("_", "-") for name in set(RESULTS) - ELSEWHERE}


def test_what_names_no_commit_is_said_to_name_none(bench_all: ModuleType, page: str) -> None:
    parts = re.findall(r"<!-- ([a-z-]+):begin -->\n## ([^\n]+)\n(.*?)<!-- \1:end -->", page, flags=re.DOTALL)
    without = [title for _, title, text in parts if not re.search(r"\bcommit [0-9a-f]{7}", text)]
    [told] = [part for part in page.split("\n\n") if "name no commit" in part]
    assert len(parts) > 20
    assert {bench_all._anchor(title) for title in without} <= set(re.findall(r"\(#([\w-]+)\)", told))


def test_the_overview_is_that_of_the_results(report: ModuleType, bench_all: ModuleType, page: str) -> None:
    assert report.section_of(page, "overview") == bench_all.overview(bench_all.found(ROOT / "benchmarks" / "results"))


def test_every_benchmark_of_the_overview_has_a_script(bench_all: ModuleType) -> None:
    for name in (*bench_all.NAMES, *bench_all.LONG):
        assert (ROOT / "benchmarks" / f"{name}.py").exists()


def measured(*pairs: float, **more: Any) -> dict[str, Any]:
    return {"name": "latency", "quick": False, "lines": [{**LINE, "ratio": {"pairs": list(pairs)}}], **more}


def test_five_pairs_of_a_full_run_keep_the_rules(report: ModuleType) -> None:
    assert report.broken_rules(measured(1.0, 1.0, 1.0, 1.0, 1.0)) == []


def test_four_pairs_are_too_few(report: ModuleType) -> None:
    assert report.broken_rules(measured(1.0, 1.0, 1.0, 1.0)) == ["latency: speed: 4 pairs, expected 5 or more"]


def test_a_quick_run_is_no_result(report: ModuleType) -> None:
    assert report.broken_rules(measured(1.0, 1.0, 1.0, 1.0, 1.0, quick=True)) == ["latency: a quick run"]


def test_a_result_that_no_script_makes_is_none(report: ModuleType) -> None:
    assert report.broken_rules(measured(1.0, 1.0, 1.0, 1.0, 1.0, name="gone")) == [
        "gone: no benchmarks/gone.py makes it"
    ]


def test_what_was_not_measured_needs_no_pairs(report: ModuleType) -> None:
    assert report.broken_rules({"name": "flink", "quick": False, "lines": [{**LINE, "ratio": None}]}) == []


@pytest.mark.parametrize(("pairs", "reached"), [((0.9, 0.9, 0.9, 1.0, 2.0), True), ((0.9, 0.9, 0.9, 1.1, 1.1), False)])
def test_the_worse_quartile_decides(report: ModuleType, pairs: tuple[float, ...], reached: bool) -> None:
    # Of five values, the upper quartile is the fourth.
    assert report.Measured("speed", "before", "at most", 1.0, report.Ratio(pairs)).reached is reached


def test_a_line_comes_back_as_it_was_kept(report: ModuleType) -> None:
    line = report.Measured("speed", "before", "at least", 1.5, report.Ratio((1.0, 2.0)), "a note")
    assert report.Measured.from_json(json.loads(json.dumps(line.to_json()))) == line
    unknown = report.Measured("speed", "before", "at least", 1.5, None)
    assert report.Measured.from_json(unknown.to_json()) == unknown
