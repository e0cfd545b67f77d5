"""The ten figures of the page for people who choose are those of the results, and say what those say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from benchmark_modules import BENCHMARKS, benchmark_module

PAGE = (Path(__file__).parents[2] / "docs" / "compare.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+\. .*) \|$", PAGE.split("## Ten figures")[1], flags=re.MULTILINE)
FIGURE = re.compile(r"[\d.]+ \([\d.]+ to [\d.]+, n = \d+\), (?:reached|missed)")


def figures_of(script: str) -> set[str]:
    """Return the figures that a benchmark kept, each with what became of its target."""
    path = BENCHMARKS / "results" / f"{script}.json"
    if not path.exists():
        return set()
    report = benchmark_module("_report")
    lines = [report.Measured.from_json(line) for line in json.loads(path.read_text(encoding="utf-8"))["lines"]]
    return {f"{line.ratio}, {'reached' if line.reached else 'missed'}" for line in lines if line.ratio}


def test_there_are_ten() -> None:
    assert [int(row.split(".")[0]) for row in ROWS] == list(range(1, 11))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split(" ")[0])
def test_a_row_says_what_its_scripts_measured(row: str) -> None:
    scripts = re.findall(r"`benchmarks/(\w+)\.py`", row)
    measured = {script: figures_of(script) for script in scripts}
    shown = FIGURE.findall(row)
    assert scripts
    assert set(shown) <= set().union(*measured.values())
    assert ("not measured" in row) or all(measured.values())
    assert shown or not any(measured.values())
