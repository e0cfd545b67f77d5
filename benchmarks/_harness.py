"""What the benchmarks of the data plane share: alternatives taken in turn, ratios of pairs, targets and reports.

A bare time says more about a machine than about code, and a busy machine can be half as fast a minute later. So
alternatives take turns (A B A B ...) within one run, each turn of one is compared with the turn of the other next to
it, and the figure that counts is the median of those ratios.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from _report import machine_facts, markdown_table, write_json, write_section

__all__ = [
    "Measured",
    "Options",
    "Ratio",
    "alternate",
    "between",
    "keep_row",
    "kept_rows",
    "parse_options",
    "progress",
    "report",
]

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DOCUMENT = ROOT / "docs" / "benchmarks.md"
# Where quick runs leave their figures: they show that a benchmark works, not how fast anything is.
QUICK = ROOT / "out" / "benchmarks"

T = TypeVar("T")
Sense: TypeAlias = Literal["at least", "at most"]


@dataclass(frozen=True)
class Ratio:
    """How one alternative compares with another: the ratio of each pair of turns, and their median.

    >>> Ratio((0.5, 0.9, 0.6)).median
    0.6
    """

    pairs: tuple[float, ...]

    @property
    def median(self) -> float:
        """The figure that counts."""
        return median(self.pairs)

    def __str__(self) -> str:
        return f"{self.median:.2f} ({min(self.pairs):.2f} to {max(self.pairs):.2f}, {len(self.pairs)} pairs)"


@dataclass(frozen=True)
class Measured:
    """One line of the table of targets.

    Parameters
    ----------
    what, against : str
        What was measured, and what it is compared with.
    sense, target : str and float
        Whether the ratio is to be at least or at most the target.
    ratio : Ratio, optional
        What was seen; None where the other side could not be had.
    note : str
        What to know about it.
    """

    what: str
    against: str
    sense: Sense
    target: float
    ratio: Ratio | None
    note: str = ""

    @property
    def reached(self) -> bool | None:
        """Whether the worse quartile reaches the target; None where nothing was measured."""
        if self.ratio is None:
            return None
        worse = 0.25 if self.sense == "at least" else 0.75
        value = float(np.quantile(self.ratio.pairs, worse))
        return value >= self.target if self.sense == "at least" else value <= self.target

    def row(self) -> list[str]:
        """Return the line's cells: what, against, target, measured, reached."""
        verdict = {True: "yes", False: "**no**", None: "not measured"}[self.reached]
        measured = "" if self.ratio is None else str(self.ratio)
        return [self.what, self.against, f"{self.sense} {self.target:g}", measured, verdict]

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        found = None if self.ratio is None else self.ratio.median
        return {**asdict(self), "median": found, "reached": self.reached}


@dataclass(frozen=True)
class Options:
    """The command line of a benchmark."""

    quick: bool = False
    repeats: int = 5
    results: Path = RESULTS
    document: Path = DOCUMENT
    started_s: float = field(default_factory=time.monotonic)
    smoke: bool = False

    @classmethod
    def of(cls, given: argparse.Namespace, repeats: int) -> Options:
        """Return the options of a command line: quick runs leave their figures apart, unless it says where."""
        quick = given.quick or given.smoke
        return cls(
            quick,
            repeats,
            given.results or (QUICK if quick else RESULTS),
            given.markdown or (QUICK / "benchmarks.md" if quick else DOCUMENT),
            smoke=given.smoke,
        )

    def size(self, full: T, quick: T, smoke: T) -> T:
        """Return what fits the length of the run."""
        return smoke if self.smoke else quick if self.quick else full

    @property
    def warm_up(self) -> int:
        """Rounds that do not count."""
        return 0 if self.smoke else 1


def parse_options(description: str | None, repeats: int = 5, quick_repeats: int = 1) -> Options:
    """Read the command line: ``--quick``, ``--smoke``, ``--repeats``, and where results go."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a short run that shows that it works; kept in out/")
    parser.add_argument("--smoke", action="store_true", help="the shortest run there is, as in the tests; kept in out/")
    parser.add_argument("--repeats", type=int, help=f"turns of each alternative ({repeats}; quick: {quick_repeats})")
    parser.add_argument("--results", type=Path, help="the folder of the JSON file")
    parser.add_argument("--markdown", type=Path, help="the file with the section")
    given = parser.parse_args()
    usual = 1 if given.smoke else quick_repeats if given.quick else repeats
    return Options.of(given, repeats=given.repeats or usual)


def kept_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows that a benchmark has kept so far, to go on where it was stopped."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def keep_row(row: Mapping[str, Any], path: Path) -> None:
    """Add a row to those that are kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def progress(text: str) -> None:
    """Say how far the benchmark is."""
    print(text, file=sys.stderr, flush=True)


def alternate(
    alternatives: Mapping[str, Callable[[], T]], repeats: int, *, warm_up: int = 1, show: Callable[[T], str] = str
) -> dict[str, list[T]]:
    """Take the alternatives in turn and return what each turn gave; the first `warm_up` rounds do not count.

    The order turns round from one round to the next, so that none always follows the same other one.
    """
    found: dict[str, list[T]] = {name: [] for name in alternatives}
    for turn in range(-warm_up, repeats):
        names = list(alternatives) if turn % 2 == 0 else list(alternatives)[::-1]
        for name in names:
            value = alternatives[name]()
            label = "warm-up" if turn < 0 else f"{turn + 1}/{repeats}"
            progress(f"  {label:>8}  {name}: {show(value)}")
            if turn >= 0:
                found[name].append(value)
    return found


def between(ours: Sequence[float], others: Sequence[float]) -> Ratio:
    """Return the ratio of each turn of ours to the turn of the other in the same round.

    >>> between([2.0, 3.0], [1.0, 2.0]).pairs
    (2.0, 1.5)
    """
    return Ratio(tuple(one / other for one, other in zip(ours, others, strict=True)))


def report(name: str, title: str, lines: Sequence[Measured], details: Mapping[str, Any], options: Options) -> None:
    """Print the table of a benchmark, and write it as JSON and as a section of the Markdown file."""
    facts = machine_facts("pyspark", "pyarrow")
    table = markdown_table(["what", "against", "target", "measured", "reached"], [line.row() for line in lines])
    notes = [line.note for line in lines if line.note]
    spent_s = time.monotonic() - options.started_s
    text = "\n\n".join(
        [
            f"## {title}",
            f"`python benchmarks/{name}.py` on {facts['cores']} cores ({facts['processor']}), Python"
            f" {facts['python']}, PySpark {facts['pyspark']}. Median of the ratios of neighbouring turns"
            " (least to greatest).",
            table,
            *dict.fromkeys(notes),
        ]
    )
    print(table)
    body = {
        "name": name,
        "title": title,
        "quick": options.quick,
        "machine": facts,
        "seconds": round(spent_s),
        "lines": [line.to_json() for line in lines],
        "details": details,
    }
    write_json(options.results / f"{name}.json", body)
    write_section(options.document, name.replace("_", "-"), text)
    progress(f"  {spent_s:.0f} s; written to {options.results / f'{name}.json'} and {options.document}")
