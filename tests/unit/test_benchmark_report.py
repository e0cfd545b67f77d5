from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
from benchmark_modules import benchmark_module


@pytest.fixture(scope="module")
def report() -> ModuleType:
    return benchmark_module("_report")


def test_file_and_section_are_made_where_missing(report: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "docs" / "benchmarks.md"
    report.write_section(file, "planning", "## Planning\n\nfast\n")
    assert file.read_text() == ("# Benchmarks\n\n<!-- planning:begin -->\n## Planning\n\nfast\n<!-- planning:end -->\n")


def test_a_section_is_replaced_and_others_stay(report: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "benchmarks.md"
    file.write_text("# Ours\n\nby hand\n")
    report.write_section(file, "one", "first")
    report.write_section(file, "two", "second")
    file.write_text(file.read_text() + "\nby hand too\n")
    report.write_section(file, "one", "third")
    assert file.read_text() == (
        "# Ours\n\nby hand\n\n<!-- one:begin -->\nthird\n<!-- one:end -->\n\n"
        "<!-- two:begin -->\nsecond\n<!-- two:end -->\n\nby hand too\n"
    )


def test_a_section_without_end_is_left_alone(report: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "benchmarks.md"
    file.write_text("<!-- one:begin -->\nhalf")
    with pytest.raises(ValueError, match=r"expected '<!-- one:end -->' after"):
        report.write_section(file, "one", "new")
    assert file.read_text() == "<!-- one:begin -->\nhalf"


def test_facts_do_not_name_the_host(report: ModuleType, tmp_path: Path) -> None:
    facts = report.machine_facts("no-such-package")
    assert set(facts) == {"cores", "processor", "system", "python", "numpy", "no-such-package"}
    assert facts["no-such-package"] == "not installed"
    report.write_json(tmp_path / "new" / "facts.json", facts)
    assert json.loads((tmp_path / "new" / "facts.json").read_text()) == facts
