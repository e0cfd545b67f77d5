"""What an experiment on Spark leaves: a page, a figure and numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foretide.experiments.reproduce.contract import Check, Panel
from foretide.experiments.reproduce.figures import to_svg

__all__ = ["SparkReport", "constant_trace"]


@dataclass(frozen=True, kw_only=True)
class SparkReport:
    """What came of an experiment.

    Parameters
    ----------
    name, title, command : str
        What it is called, what it shows, and how to run it again.
    head, rows : sequences of str
        Its table.
    checks : sequence of Check
        Targets, and whether they are reached.
    panels : sequence of Panel
        Its figure.
    notes : sequence of str
        How it was set up.
    data : mapping
        Numbers for whoever reads them by program.
    """

    name: str
    title: str
    command: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    checks: Sequence[Check]
    panels: Sequence[Panel] = ()
    notes: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reached(self) -> bool:
        """Whether all targets are."""
        return all(check.holds for check in self.checks)

    def table(self) -> str:
        """Return its table as Markdown."""
        rule = ["---", *("---:" for _ in self.head[1:])]
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.head, rule, *self.rows))

    def page(self) -> str:
        """Return its page as Markdown."""
        parts = [f"# {self.title}", f"Written by `{self.command}`; [numbers as JSON]({self.name}.json)."]
        if self.panels:
            parts.append(f"![{self.title}]({self.name}.svg)")
        parts += [self.table(), "## Targets", "\n".join(f"- {check}" for check in self.checks)]
        if self.notes:
            parts += ["## How it was set up", "\n".join(f"- {note}" for note in self.notes)]
        return "\n\n".join(parts) + "\n"

    def files(self) -> dict[str, str]:
        """Return the contents of its files by name."""
        data = {"name": self.name, "title": self.title, **_plain(self.data)}
        data["checks"] = [check.to_data() for check in self.checks]
        numbers = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
        found = {f"{self.name}.md": self.page(), f"{self.name}.json": numbers}
        return found | ({f"{self.name}.svg": to_svg(tuple(self.panels))} if self.panels else {})


def constant_trace(folder: Path, rate: float, seconds: float) -> str:
    """Write a trace of a constant rate, and return its path."""
    path = folder / "constant.csv"
    lines = ["second,events_per_second", *(f"{second},{rate:g}" for second in range(math.ceil(seconds)))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def _plain(value: Any) -> Any:
    """Return data that JSON can hold: no NaN."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value
