"""The columns of a state, in the words of SQL: whether others only add to them."""

from __future__ import annotations

import re

__all__ = ["added_columns"]

# Each part of a declaration: quoted names and texts, words, and whatever stands alone.
_PARTS = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\w+|[^\s\w]")
_OPENING, _CLOSING = ("<", "("), (">", ")")
# Types that have several names.
_SAME = {
    "bigint": "long",
    "integer": "int",
    "smallint": "short",
    "tinyint": "byte",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
}


def added_columns(before: str, now: str) -> list[str] | None:
    """Return the columns that come after those of before; None if anything else differs, or one cannot be null.

    >>> added_columns("n long", "n BIGINT, total double")
    ['total double']
    >>> added_columns("n long, total double", "n long") is None
    True
    """
    old, new = _columns(before), _columns(now)
    if [_meaning(column) for column in new[: len(old)]] != [_meaning(column) for column in old]:
        return None
    names, added = [_name(column) for column in new], new[len(old) :]
    if len(set(names)) < len(names) or any(_words(column)[-2:] == ["not", "null"] for column in map(_bare, added)):
        return None
    return added


def _columns(declared: str) -> list[str]:
    """Return the columns of a declaration, as they stand there."""
    found, depth, first = list[str](), 0, 0
    for part in _PARTS.finditer(declared):
        depth += (part[0] in _OPENING) - (part[0] in _CLOSING)
        if part[0] == "," and not depth:
            found.append(declared[first : part.start()].strip())
            first = part.end()
    return [*found, declared[first:].strip()]


def _name(column: str) -> str:
    """Return the name of a column, as Spark compares names."""
    return _PARTS.findall(column)[0].strip("`").lower() if column else ""


def _bare(column: str) -> str:
    """Return a column without its comment."""
    parts = _PARTS.findall(column)
    return " ".join(parts[:-2] if parts[-2:-1] and parts[-2].lower() == "comment" else parts)


def _words(column: str) -> list[str]:
    return [part.lower() for part in _PARTS.findall(column)]


def _meaning(column: str) -> tuple[str, ...]:
    """Return what tells a column from others: its name and its type."""
    name, *rest = _PARTS.findall(_bare(column)) or [""]
    kind = [part.lower() for part in rest if part != ":"]
    return name.strip("`"), *(_SAME.get(part, part) for part in kind)
