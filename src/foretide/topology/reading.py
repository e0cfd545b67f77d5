"""Taking typed values out of a document, with an error for each that is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from foretide.errors import Declaration, TopologyError
from foretide.topology.document import Document, Place

__all__ = ["Cursor", "is_number"]

_T = TypeVar("_T")


@dataclass(frozen=True)
class Cursor:
    """A value of a document, its place, and what to call it in an error.

    Whatever is wrong is noted in `errors` and replaced by a default, so that one reading finds every error.

    >>> cursor = Cursor(Document("a.toml", {"name": 3}, {("name",): 1}), (), {"name": 3}, "topology", [])
    >>> cursor.text("name", "unnamed")
    'unnamed'
    >>> print(cursor.errors[0])
    topology (declared at a.toml:1): expected a text for 'name', got 3; put quotes around it
    """

    document: Document
    place: Place
    value: Any
    label: str
    errors: list[TopologyError]

    @property
    def declared(self) -> Declaration:
        """Where it is written."""
        return self.document.declared(self.place)

    def wrong(self, expected: str, got: object, remedy: str = "", *, key: str | int | None = None) -> None:
        """Note an error at this value, or at one of its keys."""
        place = self.place if key is None else (*self.place, key)
        declared = self.document.declared(place)
        self.errors.append(TopologyError(self.label, expected=expected, got=got, remedy=remedy, declared=declared))

    def named(self, label: str) -> Cursor:
        """Return the same value under another label."""
        return replace(self, label=label)

    def at(self, key: str | int) -> Cursor:
        """Return the value below, under the same label."""
        return replace(self, place=(*self.place, key), value=self.value[key])

    def is_table(self, known: Sequence[str]) -> bool:
        """Return whether this is a table, noting it if not, and every key that is not `known`."""
        if not isinstance(self.value, Mapping):
            self.wrong(f"a table with keys among {list(known)}", _shown(self.value))
            return False
        for key in self.value:
            if key not in known:
                close = difflib.get_close_matches(str(key), known, n=1)
                remedy = f"did you mean {close[0]!r}?" if close else "remove it"
                self.wrong(f"a key among {list(known)}", f"the unknown key {key!r}", remedy, key=str(key))
        return True

    def table(self, key: str) -> Mapping[str, Any]:
        """Return the table under `key`, empty if there is none."""
        found: dict[str, Any] = self._of(key, dict, "a table", {})
        if all(isinstance(name, str) for name in found):
            return found
        self.wrong(f"texts as keys of {key!r}", _shown(found), "put quotes around them", key=key)
        return {}

    def tables(self, key: str) -> list[Cursor]:
        """Return the items of the list under `key`."""
        items = self._of(key, list, f"a list, written [[{key}]] in TOML", [])
        return [self.at(key).at(position) for position in range(len(items))]

    def text(self, key: str, default: _T) -> str | _T:
        """Return the text under `key`."""
        found: str | _T = self._of(key, str, "a text", default, "put quotes around it")
        if found == "" and key in self.value:
            self.wrong(f"a text for {key!r}", "an empty one", key=key)
            return default
        return found

    def flag(self, key: str) -> bool:
        """Return the truth value under `key`, false if there is none."""
        return bool(self._of(key, bool, "true or false", False))

    def number(self, key: str) -> float | None:
        """Return the number under `key`, if any."""
        found = self.value.get(key)
        if found is None or is_number(found):
            return None if found is None else float(found)
        self.wrong(f"a number for {key!r}", _shown(found), key=key)
        return None

    def texts(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """Return the list of texts under `key`."""
        found = self._of(key, list, "a list of texts", list(default))
        if all(isinstance(item, str) for item in found):
            return tuple(found)
        self.wrong(f"a list of texts for {key!r}", _shown(found), "put quotes around each", key=key)
        return default

    def _of(self, key: str, kind: type, expected: str, default: Any, remedy: str = "") -> Any:
        found = self.value.get(key)
        if found is None:
            return default
        if isinstance(found, kind):
            return found
        self.wrong(f"{expected} for {key!r}", _shown(found), remedy, key=key)
        return default


def is_number(value: object) -> bool:
    """Return whether `value` is a number; true and false do not count."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: object) -> str:
    text = "nothing" if value is None else "true" if value is True else "false" if value is False else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
