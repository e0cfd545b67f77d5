"""The queues of a topology on Spark, and what they may hold: a bound and an age limit (SPEC P7).

Events wait where a stage reads them: at a source, and in the log of a queued edge. Operators inside a stage hand events
on within a task or a batch, so nothing waits between them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pydantic import Field

from foretide.config import Settings
from foretide.errors import ConfigError, TopologyError
from foretide.topology import Edge, Topology

if TYPE_CHECKING:
    from foretide.compile.stages import EdgePlan, StageGraph

__all__ = ["QueueLimits", "check_queues", "queue_limits"]


class QueueLimits(Settings):
    """What a queue may hold; off by default."""

    queue_bound: int | None = Field(
        default=None, ge=1, description="Events that wait in the queue at most; beyond that, the oldest are dropped."
    )
    timeout_s: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Age in seconds beyond which events are dropped."
    )

    def otherwise(self, other: QueueLimits) -> QueueLimits:
        """Return these limits, and those of another where there are none.

        >>> QueueLimits(timeout_s=3).otherwise(QueueLimits(queue_bound=5, timeout_s=30))
        QueueLimits(queue_bound=5, timeout_s=3.0)
        """
        return QueueLimits(**{**_given(other), **_given(self)})

    def __str__(self) -> str:
        return ", ".join(f"{name}={value:g}" for name, value in _given(self).items()) or "no limit"


def _given(limits: QueueLimits) -> dict[str, float]:
    return limits.model_dump(exclude_none=True)


def _of_edge(edge: Edge) -> QueueLimits:
    return QueueLimits(queue_bound=edge.queue_bound, timeout_s=edge.timeout_s)


def check_queues(topology: Topology, plans: Iterable[EdgePlan]) -> None:
    """Refuse limits where nothing waits, and edges of one source that differ in them.

    Raises
    ------
    TopologyError
        Naming the edge.
    """
    sources = {source.id for source in topology.sources}
    first: dict[str, Edge] = {}
    for plan in plans:
        edge, limits = plan.edge, _of_edge(plan.edge)
        if plan.parts:
            continue
        if edge.start not in sources:
            if _given(limits):
                raise TopologyError(
                    f"edge '{edge}'",
                    expected="no queue_bound and no timeout_s: events do not wait between operators of one stage",
                    got=str(limits),
                    remedy="make the edge queued, or give the limits to the queued edge or source before it",
                    declared=edge.declared,
                )
            continue
        known = first.setdefault(edge.start, edge)
        if _of_edge(known) != limits:
            raise TopologyError(
                f"edge '{edge}'",
                expected=f"the limits of '{known}' ({_of_edge(known)}), since source {edge.start!r} has one queue",
                got=str(limits),
                remedy="give both edges the same limits, or make one of them queued",
                declared=edge.declared,
            )


def queue_limits(
    graph: StageGraph, everywhere: QueueLimits, named: Mapping[str, QueueLimits] | None = None
) -> dict[str, QueueLimits]:
    """Return the limits of every queue, by the name of the input: those named first, then the edge's, then all others'.

    Parameters
    ----------
    graph : StageGraph
        The stages.
    everywhere : QueueLimits
        For queues that have none of their own.
    named : mapping of str to QueueLimits, optional
        By source (``tweets``) or queued edge (``parse -> count``).

    Raises
    ------
    ConfigError
        When a name is that of no queue.
    """
    own: dict[str, QueueLimits] = {}
    names: dict[str, str] = {}
    for stage in graph.stages:
        for source in stage.sources:
            edges = [plan.edge for plan in stage.edges if plan.edge.start == source.id and not plan.parts]
            own[source.id] = _of_edge(edges[0]) if edges else QueueLimits()
            names[source.id] = source.id
        for plan in stage.inputs:
            own[plan.name] = _of_edge(plan.edge)
            names[str(plan.edge)] = plan.name
    found = {_queue(name, names): limits for name, limits in (named or {}).items()}
    return {
        name: found.get(name, QueueLimits()).otherwise(limits).otherwise(everywhere) for name, limits in own.items()
    }


def _queue(name: str, names: Mapping[str, str]) -> str:
    """Return the input that is called `name`."""
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        raise ConfigError(
            f"limits of {name!r}",
            expected=f"a source or a queued edge: {', '.join(names)}",
            got=name,
            remedy=f"did you mean {close[0]!r}?" if close else "events wait nowhere else",
        )
    return names[name]
