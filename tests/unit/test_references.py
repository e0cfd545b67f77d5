"""Every key and requirement id that the code cites is explained in docs/references.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from foretide.forecast import FORECASTERS
from foretide.grouping import GROUPINGS
from foretide.plan import PLANNERS

ROOT = Path(__file__).parents[2]
REFERENCES = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
KEYS = re.findall(r"^### (\S+)$", REFERENCES, re.MULTILINE)
IDS = re.findall(r"^\| ([PIBD]\d+) \|", REFERENCES, re.MULTILINE)
# A key is a name, so that array[index]_ and the like are none.
CITED = re.compile(r"(?<!\w)\[([A-Za-z][^\]\s]*)\]_(?!\w)")
ADR = re.compile(r"\bADR (\d{4})\b")
SOURCES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "src" / "foretide").rglob("*.py"))
}


def found(pattern: re.Pattern[str]) -> dict[str, list[str]]:
    """Return the files in which each match of `pattern` occurs."""
    places: dict[str, list[str]] = {}
    for file, text in SOURCES.items():
        for match in set(pattern.findall(text)):
            places.setdefault(match, []).append(file)
    return places


def test_the_code_cites_papers() -> None:
    assert {"PASPS", "PRESPS", "IDRNN", "BGElasor", "DABS", "DS2", "KEDA"} <= set(found(CITED))


def test_every_key_in_the_code_resolves() -> None:
    missing = {key: files for key, files in found(CITED).items() if key not in KEYS}
    assert not missing, f"add these keys to docs/references.md, or use the one that is there: {missing}"


def test_no_key_is_defined_twice_or_for_nothing() -> None:
    assert len(KEYS) == len(set(KEYS))
    assert set(KEYS) == set(found(CITED))


def test_every_decision_record_in_the_code_is_there() -> None:
    records = {path.name[:4] for path in (ROOT / "docs" / "decisions").glob("*.md")}
    assert found(ADR)
    assert not {number: files for number, files in found(ADR).items() if number not in records}


@pytest.mark.parametrize("kind", [*PLANNERS.values(), *FORECASTERS.values(), *GROUPINGS.values()], ids=lambda k: k.name)
def test_what_a_part_follows_is_explained(kind: type) -> None:
    for item in kind.spec:  # type: ignore[attr-defined]
        assert item in IDS or item in KEYS or item in REFERENCES, f"{kind.__name__} follows {item!r}"


def test_requirements_are_listed_in_order_and_once() -> None:
    counts = {"P": 10, "I": 8, "B": 4, "D": 7}
    assert [f"{letter}{number}" for letter, last in counts.items() for number in range(1, last + 1)] == IDS
