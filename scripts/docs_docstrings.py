"""Examples of docstrings for the site: those outside a section of examples are marked as such."""

from __future__ import annotations

import re
from typing import Any

import griffe

__all__ = ["Examples", "marked"]

_RULE = re.compile(r"-{3,}$")


class Examples(griffe.Extension):
    """Marks the examples of every docstring before it is read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of one class, function or module."""
        if obj.docstring is not None:
            obj.docstring.value = marked(obj.docstring.value)


def marked(text: str) -> str:
    r"""Return a docstring whose bare examples are in a fence, or, after another section, in one of their own.

    >>> marked("Add.\n\n>>> 1 + 1\n2\n\nMore.").splitlines()
    ['Add.', '', '```pycon', '>>> 1 + 1', '2', '```', '', 'More.']
    >>> marked("Add.\n\nParameters\n----------\na : int\n    One.\n\n>>> 1\n1").splitlines()[-4:]
    ['Examples', '--------', '>>> 1', '1']
    """
    out: list[str] = []
    section = ""
    lines = text.splitlines()
    for place, line in enumerate(lines):
        if _RULE.match(line) and place:
            section = lines[place - 1].strip()
        bare = line.startswith(">>>") and (not place or not lines[place - 1].strip())
        if bare and section and section != "Examples":
            section = "Examples"
            out += [section, "-" * len(section)]
        if bare and not section:
            out.append("```pycon")
        out.append(line)
        ends = place + 1 == len(lines) or not lines[place + 1].strip()
        if not section and ends and _in_example(lines, place):
            out.append("```")
    return "\n".join(out)


def _in_example(lines: list[str], place: int) -> bool:
    """Tell whether a line belongs to an example: the first line of its paragraph is one."""
    first = place
    while first and lines[first - 1].strip():
        first -= 1
    return bool(lines[place].strip()) and lines[first].startswith(">>>")
