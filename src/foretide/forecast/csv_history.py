"""Histories in CSV files: any column of numbers, with or without a column of instants."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from foretide.errors import ConfigError
from foretide.forecast.base import Series
from foretide.records import Floats, Ints

__all__ = ["History", "read_history"]

#: Cells that say that nothing was measured.
MISSING = frozenset({"", "-", "na", "n/a", "nan", "null", "none"})
# More bins than this mean that the usual step is not the step of the file.
_MOST_BINS = 20_000_000
_DELIMITERS = ",;\t|"


@dataclass(frozen=True, eq=False)
class History:
    """A series read from a file, and what was wrong with it.

    Parameters
    ----------
    series : Series
        One value per bin, NaN where nothing was measured.
    rows : int
        Rows of the file.
    empty_cells : int
        Rows without a value.
    missing_bins : int
        Bins for which there is no row.
    gaps : int
        Stretches of bins without a value.
    uneven_rows : int
        Rows more than a tenth of a step off the even grid; they count in the nearest bin.
    """

    series: Series
    rows: int
    empty_cells: int = 0
    missing_bins: int = 0
    gaps: int = 0
    uneven_rows: int = 0

    @property
    def report(self) -> str:
        """What the file had, in one line."""
        text = f"{self.rows:,} rows, {self.series.values.size:,} bins of {self.series.step_s:g} s"
        missing = self.missing_bins + self.empty_cells
        if missing:
            times = f"{self.gaps} gap{'s' if self.gaps != 1 else ''}"
            text += f", {missing:,} of them without a value ({times})"
        if self.uneven_rows:
            text += f", {self.uneven_rows:,} rows off the even grid"
        return text


def read_history(path: str | Path, value: str, time: str | None = None) -> History:
    """Read column `value` of a CSV file as a series; column `time` holds numbers of seconds, or dates with times.

    With a time column the step is the most frequent one, bins without a row are NaN, and rows off the grid count in the
    nearest bin. Without, rows follow one another every second. An empty cell, or one that says NaN, null or the like,
    is a missing value. Fields are separated by comma, semicolon, tab or bar, as the header shows.

    Raises
    ------
    ConfigError
        When the file cannot be read or is empty, a column is not there, a cell is not a number or an instant, time
        stands still or goes backwards, or there is no value at all. It names file, row and column.
    """
    file = Path(path)
    rows = _rows(file)
    header = rows[0]
    values = _numbers(file, rows, _column(file, header, value), value)
    if not np.isfinite(values).any():
        raise ConfigError(
            f"{file}, column {value!r}", expected="at least one number", got="none", remedy="choose another column"
        )
    empty = int(np.isnan(values).sum())
    if time is None:
        series = Series(values, 1.0, float(values.size - 1), value)
        return History(series, values.size, empty_cells=empty, gaps=_gaps(values))
    instants = _instants(file, rows, _column(file, header, time), time)
    return _binned(file, values, instants, value, empty)


def _rows(file: Path) -> list[list[str]]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(
            str(file), expected="a CSV file that can be read", got=reason, remedy="check the path"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(file), expected="text in UTF-8", got=str(error), remedy="save it as UTF-8") from error
    first = text.split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=first.count)
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)]
    except csv.Error as error:
        raise ConfigError(str(file), expected="a CSV file", got=str(error), remedy="save it as CSV") from error
    while rows and not any(cell.strip() for cell in rows[-1]):
        rows.pop()
    if len(rows) < 2:
        got = "an empty file" if not rows else "a header and no row"
        raise ConfigError(str(file), expected="a header and at least one row", got=got, remedy="check the file")
    return rows


def _column(file: Path, header: Sequence[str], name: str) -> int:
    names = [cell.strip() for cell in header]
    if name not in names:
        raise ConfigError(f"{file}, row 1", expected=f"a column {name!r}", got=f"the columns {', '.join(names[:20])}")
    return names.index(name)


def _cell(row: Sequence[str], column: int) -> str:
    return row[column].strip() if column < len(row) else ""


def _numbers(file: Path, rows: Sequence[Sequence[str]], column: int, name: str) -> Floats:
    values = np.full(len(rows) - 1, np.nan)
    for number, row in enumerate(rows[1:], start=2):
        cell = _cell(row, column)
        if cell.lower() in MISSING:
            continue
        value = _number(cell)
        if value is None or not math.isfinite(value):
            raise ConfigError(
                f"{file}, row {number}, column {name!r}",
                expected="a finite number, or an empty cell",
                got=repr(cell),
                remedy="correct the cell or leave it empty",
            )
        values[number - 2] = value
    return values


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _instants(file: Path, rows: Sequence[Sequence[str]], column: int, name: str) -> Floats:
    instants = np.empty(len(rows) - 1)
    for number, row in enumerate(rows[1:], start=2):
        cell = _cell(row, column)
        instant = _instant(cell)
        where = f"{file}, row {number}, column {name!r}"
        if instant is None:
            raise ConfigError(
                where,
                expected="an instant: a number of seconds, or a date such as 2019-03-08 00:05:00",
                got=repr(cell),
                remedy="correct the cell, or leave --time out where rows are evenly spaced",
            )
        if number > 2 and instant <= instants[number - 3]:
            raise ConfigError(
                where,
                expected=f"an instant after that of row {number - 1} ({_cell(rows[number - 2], column)})",
                got=repr(cell),
                remedy="sort the rows by time and remove doubles",
            )
        instants[number - 2] = instant
    return instants


def _instant(cell: str) -> float | None:
    seconds = _number(cell)
    if seconds is not None:
        return seconds if math.isfinite(seconds) else None
    try:
        moment = datetime.fromisoformat(cell)
    except ValueError:
        return None
    # A date without a zone is as good as any: only differences count.
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _binned(file: Path, values: Floats, instants: Floats, name: str, empty: int) -> History:
    step = _usual_step(instants)
    exact = (instants - instants[0]) / step
    bins: Ints = np.rint(exact).astype(np.int64)
    count = int(bins[-1]) + 1
    if count > _MOST_BINS:
        raise ConfigError(
            f"{file}, time", expected=f"at most {_MOST_BINS:,} bins of the usual {step:g} s", got=f"{count:,}"
        )
    measured = np.isfinite(values)
    rows_in = np.bincount(bins[measured], minlength=count)
    with np.errstate(invalid="ignore"):
        grid = np.bincount(bins[measured], values[measured], count) / rows_in
    missing = count - np.unique(bins).size
    uneven = int((np.abs(exact - bins) > 0.1).sum())
    return History(
        Series(grid, step, float(instants[0] + (count - 1) * step), name),
        values.size,
        empty,
        missing,
        _gaps(grid),
        uneven,
    )


def _usual_step(instants: Floats) -> float:
    """Return the most frequent time between two rows, the shortest of those that are as frequent."""
    if instants.size < 2:
        return 1.0
    steps, counts = np.unique(np.round(np.diff(instants), 6), return_counts=True)
    return float(steps[np.argmax(counts)]) or float(np.diff(instants).min())


def _gaps(values: Floats) -> int:
    """Return how many stretches of missing values there are."""
    missing = np.isnan(values)
    return int((missing & ~np.concatenate(([False], missing[:-1]))).sum())
