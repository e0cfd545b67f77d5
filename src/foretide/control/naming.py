"""Writing a measurement by name, for tests, notebooks and metric sources that know names better than columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from foretide.errors import MetricsError
from foretide.records import Floats, Ints, Measurement
from foretide.topology import Topology

__all__ = ["measurement_of"]

_Key = TypeVar("_Key", bound=object)


def measurement_of(
    topology: Topology,
    *,
    ended_at_s: float,
    duration_s: float,
    arrived: Mapping[str, float],
    passed: Mapping[tuple[str, str] | tuple[str, str, str], float],
    by_operator: Mapping[str, Mapping[str, float]],
    **more: Any,
) -> Measurement:
    """Return a measurement written by name instead of by column.

    Parameters
    ----------
    topology : Topology
        What was measured.
    ended_at_s, duration_s : float
        When the stretch ended and how long it was.
    arrived : mapping of source to events
        Events that arrived.
    passed : mapping of (start, end) or (start, output, end) to events
        Events on each edge; an edge that is missing passed none.
    by_operator : mapping of field to mapping of operator to value
        ``processed``, ``queued``, ``busy_s``, ``failed`` and ``replicas``; an operator that is missing has 0.
    **more
        Further fields of `Measurement`.

    Raises
    ------
    MetricsError
        When the topology has no such name, or the name fits two edges from one start to one end.

    Examples
    --------
    >>> from foretide.topology import flow
    >>> job = flow("one")
    >>> _ = job.source("in").operator("count")
    >>> measurement = measurement_of(
    ...     job.build(),
    ...     ended_at_s=30.0,
    ...     duration_s=30.0,
    ...     arrived={"in": 600},
    ...     passed={("in", "count"): 600},
    ...     by_operator={"processed": {"count": 540}, "queued": {"count": 60}, "replicas": {"count": 2}},
    ... )
    >>> measurement.queued
    array([60.])
    """
    layout = topology.layout
    fields = ("processed", "queued", "busy_s", "failed", "replicas")
    _check_names("by_operator", by_operator, fields)
    columns = {name: _column(name, by_operator.get(name, {}), layout.operators) for name in fields}
    return Measurement(
        layout=layout,
        ended_at_s=ended_at_s,
        duration_s=duration_s,
        arrived=_column("arrived", arrived, layout.sources),
        passed=_column("passed", _by_edge(passed, layout.edges), layout.edges),
        processed=columns["processed"],
        queued=columns["queued"],
        busy_s=columns["busy_s"],
        failed=columns["failed"],
        replicas=cast("Ints", columns["replicas"]),
        **more,
    )


def _column(field: str, values: Mapping[_Key, float], names: Sequence[_Key]) -> Floats:
    _check_names(field, values, names)
    return np.array([values.get(name, 0.0) for name in names], dtype=np.float64)


def _check_names(field: str, values: Mapping[Any, Any], names: Sequence[Any]) -> None:
    known = set(names)
    unknown = [name for name in values if name not in known]
    if unknown:
        raise MetricsError(f"{field}: expected names among {list(names[:10])}, got {unknown[0]!r}; correct the name")


def _by_edge(
    passed: Mapping[tuple[str, str] | tuple[str, str, str], float], edges: Sequence[tuple[str, str, str]]
) -> dict[tuple[str, str, str], float]:
    """Return amounts by whole edges, those given by their two ends included."""
    by_ends: dict[tuple[str, ...], list[tuple[str, str, str]]] = {}
    for edge in edges:
        by_ends.setdefault((edge[0], edge[2]), []).append(edge)
    found: dict[tuple[str, str, str], float] = {}
    for key, events in passed.items():
        meant = [key] if len(key) == 3 else by_ends.get(key, [])
        if len(meant) != 1:
            raise MetricsError(
                f"passed: expected one edge for {key!r}, got {meant or 'none'}; name it as (start, output, end)"
            )
        found[meant[0]] = events
    return found
