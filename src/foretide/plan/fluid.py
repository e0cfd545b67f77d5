"""The fluid model: events as a quantity that flows down the DAG, step by step."""

from __future__ import annotations

from foretide._numba import njit
from foretide.records import Floats, Ints

__all__ = ["flow_down"]


@njit
def flow_down(work: Floats, passed: Floats, capacity: Floats, starts: Ints, ends: Ints, share: Floats) -> None:
    """Let one step pass: a source passes on all it has, an operator what it has capacity for.

    Parameters
    ----------
    work : array over sources, then operators
        Events that arrived at sources and that were queued at operators; changed to all that each had in the step.
        What an operator has beyond its capacity is its queue after the step.
    passed : array over edges
        Filled with the events that passed on each edge.
    capacity : array over operators
        Events that each operator can finish in the step.
    starts, ends : arrays of int over edges
        The edges, as in `FlowGraph`.
    share : array over edges
        Events passed on per event finished at the edge's start.
    """
    sources = work.size - capacity.size
    # Edges are ordered by where they start, so all that a node receives has come before it passes anything on.
    for edge in range(starts.size):
        start = starts[edge]
        events = work[start]
        if start >= sources:
            events = min(events, capacity[start - sources])
        passed[edge] = events * share[edge]
        work[ends[edge]] += passed[edge]
