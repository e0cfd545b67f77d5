"""The rules of docs/reproduction, checked on the pages that are there."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from foretide.experiments.reproduce import EXPERIMENTS

DOCS = Path(__file__).parents[3] / "docs"
FOLDER = DOCS / "reproduction"
#: The experiments whose pages are there.
PAGES = sorted(name for name in EXPERIMENTS if (FOLDER / f"{name}.json").is_file())
VERDICTS = ("within 10 %", "explained", "unexplained", "no evidence")


@cache
def numbers(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return data


def printed(name: str) -> list[dict[str, Any]]:
    return [cell for cell in numbers(name)["comparisons"] if cell["paper"] is not None]


def is_off(cell: dict[str, Any]) -> bool:
    """Whether a number is further than 10 % from print, by nothing but the two numbers."""
    rounding = 0.0 if cell["metric"].endswith("_ms") else 0.0005
    return cell["ours"] is None or abs(cell["ours"] - cell["paper"]) > max(0.1 * abs(cell["paper"]), rounding) + 1e-6


def is_nearer(trial: dict[str, Any], cell: dict[str, Any]) -> bool:
    """Whether an experiment moved a number: it has the randomness of the first seed."""
    before = [abs(value - cell["paper"]) for value in (cell["ours"], cell["values"][0])]
    return bool(abs(trial["value"] - cell["paper"]) < min(before))


def witnesses(name: str, cell: dict[str, Any], title: str) -> list[float]:
    """Return how much further from print an assumption moves each other number of a row or column, by that number."""
    moved = []
    for other in printed(name):
        if (other["subject"] == cell["subject"]) == (other["metric"] == cell["metric"]):
            continue
        if other["no_evidence"] or other["contradiction"]:
            continue
        for trial in other["trials"]:
            if trial["assumption"] == title and trial["value"] is not None:
                before, after = (abs(value - other["paper"]) for value in (other["values"][0], trial["value"]))
                moved.append(after - before - max(0.01 * abs(other["paper"]), 0.0005))
    return moved


def counted(cells: list[dict[str, Any]]) -> dict[str, int]:
    found = [cell["verdict"] for cell in cells]
    return {verdict: found.count(verdict) for verdict in VERDICTS}


def test_every_page_is_that_of_an_experiment() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(PAGES)
    assert len(PAGES) >= 19


@pytest.mark.parametrize("name", PAGES)
def test_every_page_says_what_its_input_was(name: str) -> None:
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert numbers(name)["inputs"]
    assert all(f"- {line}" in page for line in numbers(name)["inputs"])


@pytest.mark.parametrize("name", PAGES)
def test_every_printed_number_has_its_document_and_place(name: str) -> None:
    known = set(re.findall(r"^### (\S+)$", (DOCS / "references.md").read_text(encoding="utf-8"), re.MULTILINE))
    for cell in printed(name):
        document, _, place = cell["where"].partition(", ")
        assert document in known
        assert re.search(r"section|chapter", place), cell["where"]


@pytest.mark.parametrize("name", PAGES)
def test_every_deviation_beyond_a_tenth_has_its_cause_or_stands_as_unexplained(name: str) -> None:
    for cell in printed(name):
        if cell["no_evidence"]:
            assert cell["verdict"] == "no evidence", cell
        elif not is_off(cell):
            assert cell["verdict"] == "within 10 %", cell
        else:
            causes = [
                each for each in cell["trials"] if each["within"] and not each["spoils"] and is_nearer(each, cell)
            ]
            known = bool(cell["contradiction"] or causes)
            assert cell["verdict"] == ("explained" if known else "unexplained"), cell
            assert cell["cause"], cell


@pytest.mark.parametrize("name", PAGES)
def test_a_cause_moves_no_other_number_of_its_row_or_column_away_from_print(name: str) -> None:
    for cell in printed(name):
        if cell["verdict"] == "explained" and not cell["contradiction"]:
            title = cell["cause"].rpartition(": ")[0]
            assert title in {trial["assumption"] for trial in cell["trials"]}
            assert [by for by in witnesses(name, cell, title) if by > 1e-6] == [], cell


@pytest.mark.parametrize("name", PAGES)
def test_a_contradiction_is_declared_of_single_numbers_and_not_of_a_column(name: str) -> None:
    cells = printed(name)
    for metric in {cell["metric"] for cell in cells}:
        column = [cell for cell in cells if cell["metric"] == metric and not cell["no_evidence"]]
        declared = [cell["contradiction"] for cell in column if cell["contradiction"]]
        assert len(declared) == len(set(declared)), "each number has a reason of its own"


@pytest.mark.parametrize("name", PAGES)
def test_the_summary_of_a_page_counts_its_numbers(name: str) -> None:
    counts, page = counted(printed(name)), (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert numbers(name)["tally"] == counts
    if sum(counts.values()):
        assert f"**{counts['within 10 %']} within 10 %**, {counts['explained']} explained" in page
        assert f"**{counts['unexplained']} unexplained**, {counts['no evidence']} no evidence (not counted)" in page
    else:
        assert "No numbers are printed" in page


def test_the_index_counts_all_pages() -> None:
    counts = counted([cell for name in PAGES for cell in printed(name)])
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"{sum(counts.values())} printed numbers: **{counts['within 10 %']} within 10 %**" in index
    assert all(f"[{name}]({name}.md)" in index for name in PAGES)


def test_numbers_that_were_calibrated_are_no_evidence() -> None:
    cells = {(name, cell["subject"], cell["metric"]): cell for name in PAGES for cell in printed(name)}
    for key in (
        ("pasps-table2", "ANN", "saved"),
        ("pasps-table3", "r = 8", "latency_mean_ms"),
        ("pasps-table4", "DABS", "saved"),
        ("pasps-table5", "PA-SPS", "saved"),
        ("pasps-table5", "r = 5", "latency_mean_ms"),
        ("pasps-table7", "LR", "saved"),
        ("pasps-table8", "RF", "saved"),
        ("grouping-fig8", "150-330 s, 7:3:2, worker 1", "share"),
    ):
        assert cells[key]["verdict"] == "no evidence", key
