"""What a benchmark found: lines of targets and tables, as a JSON file and as a section of the page of benchmarks.

The file is the truth. `page_section` makes the section from it alone, so a test can compare the two, and `broken_rules`
says why a result may not stand in the page. Several benchmarks write into the same page; each owns what stands between
its markers, ``<!-- NAME:begin -->`` and ``<!-- NAME:end -->``, and leaves the rest as it is.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeAlias

import numpy as np

__all__ = [
    "LEAST_PAIRS",
    "Measured",
    "Ratio",
    "Table",
    "broken_rules",
    "code_of",
    "commit",
    "is_current",
    "machine_facts",
    "markdown_table",
    "page_section",
    "provenance",
    "result",
    "section_of",
    "targets_table",
    "write_json",
    "write_section",
]

Sense: TypeAlias = Literal["at least", "at most"]

#: A line of the page rests on so many pairs, or runs, or more.
LEAST_PAIRS = 5
_HERE = Path(__file__).resolve().parent
_TITLE = "# Benchmarks\n"
_REACHED = {True: "yes", False: "**no**", None: "not measured"}


@dataclass(frozen=True)
class Ratio:
    """How one alternative compares with another: the ratio of each pair of turns, and their median.

    A figure that is no ratio, such as the seconds of every run, is told in the same way.

    >>> Ratio((0.5, 0.9, 0.6)).median
    0.6
    >>> str(Ratio((0.5, 0.9, 0.6)))
    '0.60 (0.50 to 0.90, n = 3)'
    """

    pairs: tuple[float, ...]

    @property
    def median(self) -> float:
        """The figure that counts."""
        return median(self.pairs)

    def __str__(self) -> str:
        return f"{self.median:.2f} ({min(self.pairs):.2f} to {max(self.pairs):.2f}, n = {len(self.pairs)})"


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

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Measured:
        """Return a line as it was kept."""
        ratio = line["ratio"] and Ratio(tuple(line["ratio"]["pairs"]))
        return cls(line["what"], line["against"], line["sense"], line["target"], ratio, line["note"])

    @property
    def reached(self) -> bool | None:
        """Whether the worse quartile reaches the target; None where nothing was measured."""
        if self.ratio is None:
            return None
        # One of the pairs, not something between two: where there was no fair comparison, one may be infinite.
        if self.sense == "at least":
            return float(np.quantile(self.ratio.pairs, 0.25, method="lower")) >= self.target
        return float(np.quantile(self.ratio.pairs, 0.75, method="higher")) <= self.target

    def row(self) -> list[str]:
        """Return the line's cells: what, against, target, measured, reached."""
        measured = "" if self.ratio is None else str(self.ratio)
        return [self.what, self.against, f"{self.sense} {self.target:g}", measured, _REACHED[self.reached]]

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        found = None if self.ratio is None else self.ratio.median
        return {**asdict(self), "median": found, "reached": self.reached}


@dataclass(frozen=True)
class Table:
    """A table beside the targets: what stands above it, its columns and its rows of text."""

    about: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def result(
    name: str,
    title: str,
    intro: str,
    lines: Sequence[Measured],
    tables: Sequence[Table],
    details: Mapping[str, Any],
    *,
    quick: bool,
    seconds: float,
    packages: Sequence[str],
) -> dict[str, Any]:
    """Return what a benchmark found, with all that a figure depends on, as plain values."""
    return {
        "name": name,
        "title": title,
        "intro": intro,
        "quick": quick,
        "command": command_line(),
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine_facts(*packages),
        "seconds": round(seconds),
        "lines": [line.to_json() for line in lines],
        "tables": [asdict(table) for table in tables],
        "details": dict(details),
    }


def page_section(found: Mapping[str, Any]) -> str:
    """Return the section of the page that a result makes: nothing stands in it that the result has not."""
    lines = [Measured.from_json(line) for line in found["lines"]]
    parts = [f"## {found['title']}", found["intro"]]
    if lines:
        parts.append(targets_table(lines))
    for table in found["tables"]:
        parts += [part for part in (table["about"], markdown_table(table["head"], table["rows"])) if part]
    parts += dict.fromkeys(line.note for line in lines if line.note)
    machine = found["machine"]
    versions = ", ".join(
        f"{package} {machine[package]}" for package in machine if package not in ("cores", "processor", "system")
    )
    parts.append(
        f"`{found['command']}`, {found['date']}, commit {found['commit']}, {machine['cores']} cores"
        f" ({machine['processor']}), {versions}."
    )
    return "\n\n".join(part.strip() for part in parts)


def broken_rules(found: Mapping[str, Any]) -> list[str]:
    """Return why a result may not stand in the page; nothing where it may."""
    name = found["name"]
    broken = []
    if found["quick"]:
        broken.append(f"{name}: a quick run")
    if not (_HERE / f"{name}.py").exists():
        broken.append(f"{name}: no benchmarks/{name}.py makes it")
    for line in found["lines"]:
        pairs = len(line["ratio"]["pairs"]) if line["ratio"] else None
        if pairs is not None and pairs < LEAST_PAIRS:
            broken.append(f"{name}: {line['what']}: {pairs} pairs, expected {LEAST_PAIRS} or more")
    return broken


def targets_table(lines: Sequence[Measured]) -> str:
    """Return the table of targets."""
    return markdown_table(["what", "against", "target", "measured", "reached"], [line.row() for line in lines])


def command_line() -> str:
    """Return the command that runs now, as one would type it in the root of the repository."""
    script = Path(sys.argv[0]).resolve()
    where = f"benchmarks/{script.name}" if script.parent == _HERE else script.name
    # Figures that are only written anew were made by the same command without that word.
    return " ".join(["python", where, *(word for word in sys.argv[1:] if word != "--no-run")])


def commit() -> str:
    """Return the commit that is measured, and whether code was changed since; "unknown" outside a repository."""
    try:
        last = _git("rev-parse", "--short", "HEAD")
        changed = _git("status", "--porcelain", "--", "../src", "../examples", "*.py")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{last}+changes" if changed else last


def code_of(name: str) -> list[str]:
    """Return the files of benchmarks that a benchmark runs: its script, what it imports, and jobs that it starts."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(_HERE.glob("*.py"))}
    found, left = set[str](), [name]
    while left:
        found.add(one := left.pop())
        text = texts.get(one, "")
        used = (other for other in texts if re.search(rf'^(from|import) {other}\b|"{other}\.py"', text, re.MULTILINE))
        left += [other for other in used if other not in found]
    jobs = ["field_jobs"] if any(re.search(r'/\s"field_jobs"', texts.get(one, "")) for one in found) else []
    return [*(f"{one}.py" for one in sorted(found)), *jobs]


def is_current(found: Mapping[str, Any]) -> bool:
    """Return whether nothing that a result depends on was changed since it was measured."""
    code = ("../src", "../examples", *code_of(found["name"]))
    try:
        # Fails for a commit that is not known, or that others were laid on before they were kept.
        return not _git("diff", "--name-only", f"{found['commit']}..HEAD", "--", *code)
    except (OSError, subprocess.CalledProcessError):
        return False


def origin() -> dict[str, str]:
    """Return what a run that is kept for later has to tell of itself: the commit, and the processor."""
    return {"commit": commit(), "processor": _processor()}


def provenance(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return which runs were made of which commit, on what: the page names only the one that it was written from."""
    counts = Counter((row.get("commit", "no known commit"), row.get("processor", "unknown")) for row in rows)
    runs = ", ".join(f"{count} of {made} ({processor})" for (made, processor), count in counts.items())
    rounded = sum(bool(row.get("as_printed")) for row in rows)
    note = f" Of {rounded} of them only what was printed is kept, rounded." if rounded else ""
    return f"Runs by commit and processor: {runs}.{note}"


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=_HERE, capture_output=True, text=True, check=True).stdout.strip()


def machine_facts(*packages: str) -> dict[str, Any]:
    """Return what a figure depends on: cores, processor, versions of Python and `packages`; no name of the host."""
    facts: dict[str, Any] = {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
    for package in ("numpy", *packages):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table whose first column is text and whose others are figures.

    >>> print(markdown_table(["what", "ms"], [["plan", 3.5]]))
    | what | ms |
    |---|---:|
    | plan | 3.5 |
    """
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def section_of(document: str, name: str) -> str | None:
    """Return what stands between the markers of section `name`; None where it has none."""
    begin, end = _markers(name)
    _, found, rest = document.partition(begin)
    return rest.partition(end)[0].strip() if found else None


def write_section(path: Path, name: str, text: str) -> None:
    """Write `text` between the markers of section `name` of the Markdown file, making either where missing."""
    begin, end = _markers(name)
    section = f"{begin}\n{text.strip()}\n{end}"
    document = path.read_text(encoding="utf-8") if path.exists() else _TITLE
    before, found, rest = document.partition(begin)
    if found:
        _, closed, after = rest.partition(end)
        if not closed:
            raise ValueError(f"{path}: expected {end!r} after {begin!r}, got none; put it back where the section ends")
        document = before + section + after
    else:
        document = f"{document.rstrip()}\n\n{section}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document, encoding="utf-8")


def _markers(name: str) -> tuple[str, str]:
    marker = name.replace("_", "-")
    return f"<!-- {marker}:begin -->", f"<!-- {marker}:end -->"


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write `data` as JSON, making the folder where missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
