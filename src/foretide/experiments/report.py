"""What every experiment produces: a page, a figure and numbers, in the simulator and on Spark alike."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy.typing as npt

from foretide.errors import ConfigError
from foretide.files import replace_file

__all__ = ["Check", "Line", "Panel", "Report", "markdown_table", "write_text"]

_VERDICT = ("verdict", "runs", "statement", "numbers")


@dataclass(frozen=True)
class Check:
    """A statement of a paper, or a target of Foretide, and whether it holds.

    Parameters
    ----------
    claim : str
        The statement.
    held, of : int
        In how many of how many runs it holds.
    detail : str
        The numbers behind it.

    Examples
    --------
    >>> str(Check("latency grows with td", 4, 5, "3.1 < 8.2 s"))
    'does not hold (4 of 5): latency grows with td; 3.1 < 8.2 s'
    """

    claim: str
    held: int
    of: int
    detail: str = ""

    @property
    def holds(self) -> bool:
        """Whether it holds in every run."""
        return self.held == self.of

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "does not hold"
        return f"{verdict} ({self.held} of {self.of}): {self.claim}{f'; {self.detail}' if self.detail else ''}"

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data, ready for JSON."""
        return {
            "claim": self.claim,
            "holds": self.holds,
            "held": self.held,
            "of": self.of,
            "detail": self.detail,
        }


@dataclass(frozen=True, eq=False)
class Line:
    """One curve of a panel, or one group of bars."""

    title: str
    x: Sequence[float] | npt.NDArray[Any]
    y: Sequence[float] | npt.NDArray[Any]
    style: Literal["line", "steps", "shade"] = "line"


@dataclass(frozen=True, eq=False)
class Panel:
    """One part of a figure: curves over a common axis, or bars if `labels` name their places."""

    title: str
    x_title: str
    y_title: str
    lines: tuple[Line, ...]
    labels: tuple[str, ...] = ()
    log: bool = False
    marks: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Report:
    """The outcome of an experiment.

    Parameters
    ----------
    name, title : str
        What it is called, and what it shows.
    origin : str
        What wrote it, as the beginning of a sentence that ends with where the numbers are.
    warning : str
        What a reader must know before the numbers.
    summary : str
        What it comes to.
    inputs : sequence of str
        The data that it was made with.
    head, rows : sequences of str
        Its table; none without rows.
    texts : collection of str
        The columns of the table that hold text, besides the first.
    sections : sequence of (str, str)
        Headings and texts that follow the table.
    checks : sequence of Check
        Statements or targets, and whether they hold.
    panels : sequence of Panel
        Its figure.
    notes : sequence of str
        How it was set up.
    data : mapping
        The numbers, for programs.
    """

    name: str
    title: str
    origin: str
    warning: str = ""
    summary: str = ""
    inputs: Sequence[str] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    texts: Collection[str] = ()
    sections: Sequence[tuple[str, str]] = ()
    checks: Sequence[Check]
    panels: Sequence[Panel] = ()
    notes: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether every check does."""
        return all(check.holds for check in self.checks)

    def table(self) -> str:
        """Return its table as Markdown."""
        return markdown_table(self.head, self.rows, self.texts)

    def page(self) -> str:
        """Return its page as Markdown."""
        parts = [f"# {self.title}", f"{self.origin} [numbers as JSON]({self.name}.json)."]
        parts += [f"**{self.warning}**"] if self.warning else []
        parts += [f"{self.summary}."] if self.summary else []
        parts += ["Input:\n\n" + "\n".join(f"- {line}" for line in self.inputs)] if self.inputs else []
        parts += [f"![{self.title}]({self.name}.svg)"] if self.panels else []
        parts += [self.table()] if self.rows else []
        parts += [part for title, text in self.sections for part in (f"## {title}", text)]
        if self.checks:
            verdicts = [
                (
                    "**holds**" if check.holds else "does not hold",
                    f"{check.held} of {check.of}",
                    check.claim,
                    check.detail,
                )
                for check in self.checks
            ]
            parts += ["## What holds", markdown_table(_VERDICT, verdicts, _VERDICT[2:])]
        parts += ["## How it was set up", "\n".join(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n\n".join(parts) + "\n"

    def numbers(self) -> str:
        """Return its numbers as JSON."""
        data = {
            "name": self.name,
            "title": self.title,
            **({"inputs": list(self.inputs)} if self.inputs else {}),
            **self.data,
        }
        data |= {"checks": [check.to_data() for check in self.checks], "notes": list(self.notes)}
        return json.dumps(_plain(data), indent=1, ensure_ascii=False) + "\n"

    def write(self, folder: Path) -> tuple[Path, ...]:
        """Write the figure, the numbers and the page, each whole or not at all; return their paths.

        Raises
        ------
        ConfigError
            When the folder cannot be written to.
        MissingExtraError
            When there is a figure to draw and matplotlib is not installed.
        """
        from foretide.experiments.figures import to_svg

        figure = {f"{self.name}.svg": to_svg(tuple(self.panels))} if self.panels else {}
        contents = {**figure, f"{self.name}.json": self.numbers(), f"{self.name}.md": self.page()}
        return tuple(write_text(folder / name, content) for name, content in contents.items())


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], texts: Collection[str] = ()) -> str:
    """Return a table; all columns but the first and `texts` are aligned to the right, as numbers are.

    >>> print(markdown_table(("run", "saved"), [("ANN", "0.47")]))
    | run | saved |
    | --- | ---: |
    | ANN | 0.47 |
    """
    rule = ["---" if name in (head[0], *texts) else "---:" for name in head]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def write_text(path: Path, content: str) -> Path:
    """Write a file below the folder of ``--out``, whole or not at all, and return its path."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)
    except OSError as error:
        reason = f"{str(path)!r}: {(error.strerror or str(error)).lower()}"
        expected = "a folder that can be written to"
        raise ConfigError("--out", expected=expected, got=reason, remedy="choose another") from error
    return path


def _plain(value: Any) -> Any:
    """Return data that JSON can hold: no NaN."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value
