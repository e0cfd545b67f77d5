"""Rows of a study in a file, so that one which was stopped goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foretide.errors import ConfigError

__all__ = ["KeptRows"]

_NAMES = ("trace", "events", "policy", "seed", "knob")


class KeptRows:
    """The rows that a file holds, one JSON object a line.

    Parameters
    ----------
    path : Path
        The file; it is made if it is not there.
    how : mapping
        What all runs of the study have in common.

    Raises
    ------
    ConfigError
        When the file holds something else, or rows of a study that ran otherwise.
    """

    def __init__(self, path: Path, how: Mapping[str, Any]) -> None:
        self._path = path
        self._rows: dict[str, dict[str, Any]] = {}
        head = {"how": json.loads(json.dumps(how))}
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        lines = [_parsed(line) for line in text.splitlines()]
        if lines and lines[0] != head:
            raise ConfigError(
                f"--keep {path}",
                expected="the rows of a study that ran as this one does",
                got=_difference(lines[0], head["how"]),
                remedy="name another file",
            )
        if not lines:
            self._append(head)
        elif not text.endswith("\n"):
            # The study was stopped while it wrote; that run is made again.
            self._append(None)
        for row in lines[1:]:
            if isinstance(row, dict) and set(_NAMES) <= set(row):
                self._rows[_key(row)] = row

    def find(self, names: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the row of a run, by what it is known by (`Trial.names`); None if it has not been made."""
        return self._rows.get(_key(names))

    def add(self, row: Mapping[str, Any]) -> None:
        """Keep a row."""
        self._append(row)

    def _append(self, line: Mapping[str, Any] | None) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(("" if line is None else json.dumps(line, ensure_ascii=False, allow_nan=False)) + "\n")


def _key(names: Mapping[str, Any]) -> str:
    return json.dumps([names[name] for name in _NAMES], sort_keys=True)


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _difference(found: Any, how: Mapping[str, Any]) -> str:
    """Say in what a study differs."""
    if not isinstance(found, dict) or not isinstance(before := found.get("how"), dict):
        return "no such rows"
    differing = [name for name in {**how, **before} if how.get(name) != before.get(name)]
    return ", ".join(f"{name} {before.get(name)!r}" for name in differing)
