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
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from _report import (
    LEAST_PAIRS,
    Measured,
    Ratio,
    Table,
    broken_rules,
    origin,
    page_section,
    result,
    write_json,
    write_section,
)

__all__ = [
    "OF_TURNS",
    "Measured",
    "Options",
    "Ratio",
    "Table",
    "Turns",
    "alternate",
    "between",
    "keep_row",
    "kept_rows",
    "kept_turns",
    "parse_options",
    "progress",
    "report",
    "rotated",
]

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DOCUMENT = ROOT / "docs" / "benchmarks.md"
# Where quick runs leave their figures: they show that a benchmark works, not how fast anything is.
QUICK = ROOT / "out" / "benchmarks"

#: What most tables of ratios say about themselves.
OF_TURNS = "Median of the ratios of neighbouring turns (least to greatest)."

T = TypeVar("T")


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
        """Return the options of a command line: short runs leave their figures apart, unless it says where."""
        quick = given.quick or given.smoke
        apart = quick or repeats < LEAST_PAIRS
        return cls(
            quick,
            repeats,
            given.results or (QUICK if apart else RESULTS),
            given.markdown or (QUICK / "benchmarks.md" if apart else DOCUMENT),
            smoke=given.smoke,
        )

    def size(self, full: T, quick: T, smoke: T) -> T:
        """Return what fits the length of the run."""
        return smoke if self.smoke else quick if self.quick else full

    @property
    def warm_up(self) -> int:
        """Rounds that do not count."""
        return 0 if self.smoke else 1


def parse_options(
    description: str | None, repeats: int = 5, quick_repeats: int = 1, own: Sequence[argparse.ArgumentParser] = ()
) -> Options:
    """Read the command line: ``--quick``, ``--smoke``, ``--repeats``, where results go, and what is a script's own."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0], parents=own)
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


def rotated(items: Sequence[T], number: int) -> list[T]:
    """Return the items for one of several rounds, each of which begins with another one.

    >>> rotated("abc", 4)
    ['b', 'c', 'a']
    """
    shift = number % len(items)
    return [*items[shift:], *items[:shift]]


class Turns:
    """Turns that are kept one by one, each with its commit, so that a benchmark goes on where it was stopped.

    Those of a part belong together if they were measured with the same settings; others are kept, but not looked at.

    Parameters
    ----------
    path : Path
        The file that they are kept in.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._looked_at = path, dict[str, list[Mapping[str, Any]]]()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Those of the parts and settings that were asked for: what a report is made of."""
        return [row for row in kept_rows(self._path) if row.get("settings") in self._looked_at.get(row["part"], ())]

    def known(self, part: str, settings: Mapping[str, Any]) -> dict[tuple[str, int], Any]:
        """Return what was measured in a part of the benchmark with these settings, by side and turn."""
        self._looked_at.setdefault(part, []).append(dict(settings))
        rows = [row for row in self.rows if row["part"] == part and row["settings"] == settings]
        return {(row["side"], row["turn"]): row["value"] for row in rows}

    def keep(self, part: str, settings: Mapping[str, Any], side: str, turn: int, value: object) -> None:
        """Keep what a turn gave."""
        row = {"part": part, "settings": dict(settings), "side": side, "turn": turn, "value": value}
        keep_row({**row, **origin()}, self._path)


def kept_turns(name: str, options: Options) -> Turns:
    """Return the turns that a benchmark has kept; short runs keep theirs apart, and begin anew."""
    path = (QUICK if options.quick else RESULTS) / f"{name}.jsonl"
    if options.quick:
        path.unlink(missing_ok=True)
    return Turns(path)


def alternate(
    alternatives: Mapping[str, Callable[[], T]],
    repeats: int,
    *,
    warm_up: int = 1,
    show: Callable[[T], str] = str,
    turns: Turns | None = None,
    part: str = "",
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, list[T]]:
    """Take the alternatives in turn and return what each turn gave; the first `warm_up` rounds do not count.

    The order turns round from one round to the next, so that none always follows the same other one. Turns that are
    kept in `turns`, under a part of the benchmark and its settings, are not taken again.
    """
    found: dict[str, list[T]] = {name: [] for name in alternatives}
    known = {} if turns is None else turns.known(part, settings)
    is_done = all((name, turn) in known for name in alternatives for turn in range(repeats))
    for turn in range(0 if is_done else -warm_up, repeats):
        for name in list(alternatives)[:: 1 if turn % 2 == 0 else -1]:
            if (name, turn) not in known:
                known[name, turn] = alternatives[name]()
                label = "warm-up" if turn < 0 else f"{turn + 1}/{repeats}"
                progress(f"  {label:>8}  {name}: {show(known[name, turn])}")
                if turns is not None and turn >= 0:
                    turns.keep(part, settings, name, turn, known[name, turn])
            if turn >= 0:
                found[name].append(known[name, turn])
    return found


def between(ours: Sequence[float], others: Sequence[float]) -> Ratio:
    """Return the ratio of each turn of ours to the turn of the other in the same round.

    >>> between([2.0, 3.0], [1.0, 2.0]).pairs
    (2.0, 1.5)
    """
    return Ratio(tuple(one / other for one, other in zip(ours, others, strict=True)))


def report(
    name: str,
    title: str,
    lines: Sequence[Measured],
    details: Mapping[str, Any],
    options: Options,
    *,
    intro: str = OF_TURNS,
    tables: Sequence[Table] = (),
    packages: Sequence[str] = ("pyspark", "pyarrow"),
) -> None:
    """Print the section of a benchmark, and write it with its JSON file: apart where it breaks the rules of the page.

    Parameters
    ----------
    name, title : str
        Of the script, and of its section.
    lines : sequence of Measured
        Its targets.
    details : mapping
        Whatever else is worth keeping; it does not show in the page.
    options : Options
        Where to write.
    intro : str
        What was measured and how, above the tables.
    tables : sequence of Table
        Further tables, below the targets.
    packages : sequence of str
        Those whose versions the figures depend on.
    """
    spent_s = time.monotonic() - options.started_s
    found = result(name, title, intro, lines, tables, details, quick=options.quick, seconds=spent_s, packages=packages)
    text = page_section(found)
    print(text)
    results, document, broken = options.results, options.document, broken_rules(found)
    if broken and RESULTS == results:
        progress("\n".join(["kept apart, since the page takes no such result:", *broken]))
        results, document = QUICK, QUICK / "benchmarks.md"
    file = results / f"{name}.json"
    write_json(file, found)
    write_section(document, name, text)
    progress(f"  {spent_s:.0f} s; written to {file} and {document}")
