"""Reading a trace: one of those shipped, or a CSV file."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np

from foretide.errors import ForetideError
from foretide.traces.made import is_made, made_trace, made_traces
from foretide.traces.rate_trace import RateTrace

__all__ = ["TraceError", "known_traces", "load_trace", "without_stretch"]

COLUMNS = ("second", "events_per_second")
# Behind a name: from where to where, each in seconds or as a percentage of the whole.
_STRETCH = re.compile(r"@((?:[\d.]+%?)?)-((?:[\d.]+%?)?)$")


class TraceError(ForetideError, ValueError):
    """A trace file is not what it should be.

    Parameters
    ----------
    file : str
        The file, or the name given.
    line : int or None
        The line at fault, counting from 1.
    expected, got : str
        What belongs there, and what is there.
    """

    def __init__(self, file: str, line: int | None, expected: str, got: str) -> None:
        self.file, self.line, self.expected, self.got = file, line, expected, got
        where = file if line is None else f"{file}, line {line}"
        super().__init__(f"trace {where}: expected {expected}, got {got}")

    def __reduce__(self) -> tuple[object, ...]:
        # An error with several arguments can be unpickled from a worker process only if it says what they are.
        return type(self), (self.file, self.line, self.expected, self.got)


def known_traces() -> tuple[str, ...]:
    """Return the names of the traces that are shipped.

    >>> known_traces()[:4]
    ('dabs_erratic', 'dabs_progressive', 'pasps_dns', 'pasps_logs')
    """
    return tuple(sorted(path.stem for path in _shipped().glob("*.csv")))


def load_trace(name: str | Path) -> RateTrace:
    """Return a shipped or made-up trace by its name, or read a CSV file with columns ``second,events_per_second``.

    Parameters
    ----------
    name : str or path
        A name among `known_traces`, a made-up input such as ``made:steps:3``, or the path of a file. Times must be
        evenly spaced, ascending and unique; they give the start of each bin, and the last bin is as wide as the others.
        A stretch of it is named by seconds or percentages, as in ``pasps_dns@300-600`` or ``pasps_dns@50%-``: whole
        bins that begin within it.

    Raises
    ------
    TraceError
        When there is no such trace, or the file has a fault: the message names file, line and column.
    ConfigError
        When there is no such made-up input.

    Examples
    --------
    >>> trace = load_trace("pasps_dns")
    >>> trace.bin_s, trace.duration_s
    (5.0, 1205.0)
    >>> load_trace("pasps_dns@50%-").duration_s
    600.0
    """
    text = str(name)
    whole, stretch = without_stretch(text)
    if stretch and not Path(text).is_file():
        return _cut(load_trace(whole), stretch)
    if is_made(text):
        return made_trace(text)
    if text in known_traces():
        return _read(_shipped() / f"{text}.csv", text)
    path = Path(name)
    if not path.is_file():
        expected = f"one of {', '.join((*known_traces(), *made_traces()))}, or the path of a CSV file"
        raise TraceError(repr(text), None, expected, "neither")
    return _read(path, path.stem)


def without_stretch(name: str) -> tuple[str, str]:
    """Return a name without the stretch behind it, and that.

    >>> without_stretch("pasps_dns@50%-"), without_stretch("pasps_dns")
    (('pasps_dns', '@50%-'), ('pasps_dns', ''))
    """
    found = _STRETCH.search(name)
    return (name[: found.start()], found[0]) if found else (name, "")


def _cut(trace: RateTrace, stretch: str) -> RateTrace:
    found = _STRETCH.fullmatch(stretch)
    assert found is not None
    try:
        first, last = (_place(text, trace) for text in found.groups())
        rates = trace.rates[first:last]
    except ValueError:
        rates = trace.rates[:0]
    if not rates.size:
        expected = f"a stretch of its {trace.duration_s:g} s after the @, such as @300-600 or @50%-"
        raise TraceError(repr(f"{trace.name}{stretch}"), None, expected, "no bin within it")
    return RateTrace(f"{trace.name}{stretch}", trace.bin_s, rates)


def _place(text: str, trace: RateTrace) -> int | None:
    """Return the first bin that begins at a place or after it; none where nothing is said."""
    if not text:
        return None
    second = trace.duration_s * float(text[:-1]) / 100 if text.endswith("%") else float(text)
    return math.ceil(second / trace.bin_s - 1e-9)


def _shipped() -> Path:
    return Path(str(files("foretide.traces"))) / "data"


def _read(path: Path, name: str) -> RateTrace:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(_rows(csv.reader(file), str(path)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TraceError(str(path), None, "a CSV file that can be read", str(error)) from error
    if len(rows) < 2:
        got = "none" if not rows else "one"
        raise TraceError(str(path), None, "at least two rows, which give the width of a bin", got)
    width = rows[1][1] - rows[0][1]
    for (_, before, _), (line, second, _) in pairwise(rows):
        _check_step(path, line, before, second, width)
    return RateTrace(name, width, np.array([rate for _, _, rate in rows]))


def _rows(reader: Iterator[list[str]], file: str) -> Iterator[tuple[int, float, float]]:
    header = next(reader, None)
    if header is None:
        raise TraceError(file, None, f"the columns {','.join(COLUMNS)}", "an empty file")
    names = [name.strip() for name in header]
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise TraceError(file, 1, f"a column {missing[0]!r}", f"the columns {','.join(names)}")
    places = [names.index(name) for name in COLUMNS]
    for line, row in enumerate(reader, start=2):
        if row:
            second, rate = (_number(file, line, row, place, names[place]) for place in places)
            if rate < 0:
                raise TraceError(file, line, "a rate of 0 or more in column 'events_per_second'", f"{rate:g}")
            yield line, second, rate


def _number(file: str, line: int, row: list[str], place: int, column: str) -> float:
    text = row[place].strip() if place < len(row) else ""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise TraceError(file, line, f"a number in column {column!r}", repr(text) if text else "nothing")
    return value


def _check_step(path: Path, line: int, before: float, second: float, width: float) -> None:
    if second <= before:
        got = f"{second:g} twice" if second == before else f"{second:g} after {before:g}"
        raise TraceError(str(path), line, "ascending times in column 'second'", got)
    if abs(second - before - width) > 1e-6:
        expected = f"even bins of {width:g} s in column 'second'"
        raise TraceError(str(path), line, expected, f"a step of {second - before:g} s")
