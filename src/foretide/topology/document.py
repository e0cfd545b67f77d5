"""Reading a TOML or YAML file as plain data that still knows the line of every value."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from foretide.errors import Declaration, TopologyError

__all__ = ["Document", "Place", "file_error", "read_document", "read_text"]

#: The path to a value: keys of mappings and positions in lists, from the top.
Place: TypeAlias = tuple[str | int, ...]

_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"\s*([A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')\s*[.=]")
_AT_LINE = re.compile(r"\s*\(at line (\d+), column \d+\)")


@dataclass(frozen=True)
class Document:
    """The content of a file and the line of its values.

    Parameters
    ----------
    file : str
        The file's name.
    data : mapping
        Its content.
    lines : mapping of Place to int
        The line of every value, as far as the format reveals it.

    Examples
    --------
    >>> document = Document("a.toml", {"name": "x"}, {("name",): 3})
    >>> str(document.declared(("name", "deeper")))
    'a.toml:3'
    """

    file: str
    data: Mapping[str, Any]
    lines: Mapping[Place, int]

    def declared(self, place: Place) -> Declaration:
        """Return where `place` is written, or the nearest thing around it whose line is known."""
        while place and place not in self.lines:
            place = place[:-1]
        return Declaration(self.file, self.lines.get(place))


def read_document(path: Path) -> Document:
    """Read the TOML or YAML file at `path`."""
    text = read_text(path)
    data, lines = _read_toml(path, text) if path.suffix == ".toml" else _read_yaml(path, text)
    if data is None or data == {}:
        raise file_error(path, None, "a topology", "an empty file", "start with name, [[sources]] and [[operators]]")
    if not isinstance(data, dict):
        raise file_error(path, 1, "a mapping with the keys of a topology", f"a {type(data).__name__}")
    return Document(path.name, data, lines)


def read_text(path: Path) -> str:
    """Return the text of the file at `path`."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise file_error(path, None, "text in UTF-8", str(error), "save the file as UTF-8") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise file_error(path, None, "a file that can be read", f"{str(path)!r}: {reason}", "check the path") from error


def file_error(path: Path, line: int | None, expected: str, got: str, remedy: str = "") -> TopologyError:
    """Return the error for a file as a whole, or for a line of it."""
    declared = None if line is None else Declaration(path.name, line)
    where = f"topology file {path.name!r}" if line is None else "topology file"
    return TopologyError(where, expected=expected, got=got, remedy=remedy, declared=declared)


def _read_toml(path: Path, text: str) -> tuple[Any, Mapping[Place, int]]:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        at = _AT_LINE.search(message)
        line = int(at[1]) if at else len(text.splitlines())
        got = repr(_AT_LINE.sub("", message))
        raise file_error(path, line, "valid TOML", got, "correct this line") from error
    return data, _toml_lines(text.splitlines(), data)


def _toml_lines(lines: list[str], data: dict[str, Any]) -> dict[Place, int]:
    """Find the line of every table and key; the parser of the standard library does not keep them."""
    found: dict[Place, int] = {}
    seen: dict[Place, int] = {}
    table: Place = ()
    for number, line in enumerate(lines, start=1):
        if header := _HEADER.match(line):
            table = _table_place(header[2], header[1] == "[[", seen)
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault((*table, key[1].strip("\"'")), number)
    for place, value in _items(data):
        if place not in found and isinstance(value, str | dict):
            _find_in_text(place, value, lines, found)
    return found


def _table_place(name: str, is_list: bool, seen: dict[Place, int]) -> Place:
    """Return the place of the table that a header opens, counting the tables of a list."""
    place: Place = ()
    parts = [part.strip().strip("\"'") for part in name.split(".")]
    for depth, part in enumerate(parts):
        place = (*place, part)
        if is_list and depth == len(parts) - 1:
            seen[place] = seen.get(place, -1) + 1
        if place in seen:
            place = (*place, seen[place])
    return place


def _items(value: Any, place: Place = ()) -> list[tuple[Place, Any]]:
    """Return every list item below `value` with its place, outer ones first."""
    found: list[tuple[Place, Any]] = []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        if isinstance(value, list):
            found.append(((*place, key), item))
        found.extend(_items(item, (*place, key)))
    return found


def _find_in_text(place: Place, value: str | dict[str, Any], lines: list[str], found: dict[Place, int]) -> None:
    """Find a list item below the line of its list, up to the next table: by its text, or its id or start."""
    text = value if isinstance(value, str) else value.get("id", value.get("from"))
    first = found.get(place[:-1])
    if not isinstance(text, str) or first is None:
        return
    for number in range(first, len(lines) + 1):
        line = lines[number - 1]
        if number > first and _HEADER.match(line):
            return
        if f'"{text}"' in line or f"'{text}'" in line:
            found[place] = number
            return


def _read_yaml(path: Path, text: str) -> tuple[Any, Mapping[Place, int]]:
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        lines: dict[Place, int] = {}
        if node is not None:
            _yaml_lines(path, node, (), lines, set())
        return (None if node is None else loader.construct_document(node)), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        raise file_error(path, line, "valid YAML", repr(error.problem), "correct this line") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, TopologyError):
            raise
        raise file_error(path, None, "valid YAML", repr(str(error))) from error
    finally:
        loader.dispose()


def _yaml_lines(path: Path, node: yaml.Node, place: Place, lines: dict[Place, int], seen: set[int]) -> None:
    """Note the line of every value, and refuse a key that comes twice, which YAML would accept."""
    lines.setdefault(place, node.start_mark.line + 1)
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            _yaml_lines(path, item, (*place, position), lines, seen)
    elif isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            if str(key.value) in keys:
                raise file_error(path, line, "every key once", f"{key.value!r} twice", "leave one of them out")
            keys.add(str(key.value))
            lines[(*place, str(key.value))] = line
            _yaml_lines(path, value, (*place, str(key.value)), lines, seen)
