"""What the benchmarks share: facts about the machine, and sections of one Markdown file.

Several benchmarks write into the same file. Each owns what stands between its markers, ``<!-- NAME:begin -->`` and
``<!-- NAME:end -->``, and leaves the rest as it is.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["machine_facts", "markdown_table", "write_json", "write_section"]

_TITLE = "# Benchmarks\n"


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


def write_section(path: Path, name: str, text: str) -> None:
    """Write `text` between the markers of section `name` of the Markdown file, making either where missing."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
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


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write `data` as JSON, making the folder where missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
