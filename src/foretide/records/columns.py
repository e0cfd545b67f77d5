"""Columns of numbers in records: read-only arrays, checked when a record is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from foretide.errors import MetricsError

__all__ = ["SHORTEST_S", "Floats", "Ints", "Layout", "frozen", "is_whole", "read_only", "set_amounts"]

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """The names behind the columns of every record about one topology.

    Parameters
    ----------
    sources : tuple of str
        The sources, in declaration order.
    operators : tuple of str
        The operators, in a topological order.
    edges : tuple of (str, str, str)
        The edges that end in an operator, as (from, output, to), ordered by where they start.

    Examples
    --------
    >>> layout = Layout(("in",), ("a", "b"), (("in", "out", "a"), ("a", "out", "b")))
    >>> layout.operator_index["b"]
    1
    """

    sources: tuple[str, ...]
    operators: tuple[str, ...]
    edges: tuple[tuple[str, str, str], ...]

    @cached_property
    def operator_index(self) -> Mapping[str, int]:
        """The column of each operator."""
        return {name: column for column, name in enumerate(self.operators)}

    @cached_property
    def source_index(self) -> Mapping[str, int]:
        """The column of each source."""
        return {name: column for column, name in enumerate(self.sources)}

    @cached_property
    def edge_index(self) -> Mapping[tuple[str, str, str], int]:
        """The column of each edge."""
        return {edge: column for column, edge in enumerate(self.edges)}


# A stretch of time shorter than this holds nothing that could be measured, and would make rates infinite.
SHORTEST_S = 1e-6


def frozen(values: npt.ArrayLike, dtype: type) -> npt.NDArray[Any]:
    """Return a copy that cannot be written to."""
    array: npt.NDArray[Any] = np.array(values, dtype=dtype)
    array.flags.writeable = False
    return array


def read_only(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return a view that cannot be written to, without the cost of a copy."""
    view = np.asarray(values).view()
    view.flags.writeable = False
    return view


def is_whole(values: npt.NDArray[Any]) -> bool:
    """Return whether all values are whole numbers."""
    return values.dtype.kind in "iu" or bool(np.isfinite(values).all() and (values == np.floor(values)).all())


def set_amounts(
    record: object, name: str, names: Sequence[object], *, dtype: type = np.float64, least: float = 0
) -> None:
    """Replace field `name` of a frozen record by a read-only column, checked against the names it stands for."""
    try:
        column = np.array(getattr(record, name), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise MetricsError(f"{name}: expected numbers, got {getattr(record, name)!r}") from error
    if column.shape != (len(names),):
        raise MetricsError(
            f"{name}: expected one value for each of {len(names)} columns, got shape {column.shape}; "
            "build the record from the layout of the running topology"
        )
    good = (column >= least) & (column < np.inf)
    # Counting is several times as fast as `all` on a few columns, and records are many.
    if np.count_nonzero(good) < column.size:
        bad = np.flatnonzero(~good)
        raise MetricsError(
            f"{name} of {names[bad[0]]!r}: expected a finite amount of at least {least:g}, got {column[bad[0]]}; "
            "check what the metric source measures there"
        )
    if dtype is np.int64:
        if np.count_nonzero(broken := column != np.floor(column)):
            raise MetricsError(f"{name}: expected whole numbers, got {column[broken][0]}")
        column = column.astype(dtype)
    column.flags.writeable = False
    object.__setattr__(record, name, column)
