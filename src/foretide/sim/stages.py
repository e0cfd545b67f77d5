"""Stages as `foretide.spark` cuts them: operators joined by inline edges, and the batch that runs in one."""

from __future__ import annotations

from dataclasses import dataclass, field

from foretide.errors import ConfigError
from foretide.records import Floats
from foretide.topology import Topology

__all__ = ["Batch", "Stage", "stages_of"]


@dataclass(slots=True)
class Batch:
    """A batch that runs: when it ends, and what happens then."""

    ends_s: float
    inputs: dict[int, int]
    busy_s: dict[int, float]
    passed: list[tuple[int, Floats]] = field(default_factory=list)
    leaving: list[Floats] = field(default_factory=list)
    ended: int = 0


@dataclass(slots=True)
class Stage:
    """Operators joined by inline edges.

    `rounds` is how often rows change tasks on the longest way through it, `cost_s` the mean work of an event that
    enters at each operator, down to the stage's last operator.
    """

    operators: list[int]
    rounds: int
    cost_s: dict[int, float]
    slots: int = 1
    free_s: float = 0.0
    began_s: float = -1.0  # of the last batch; before all events while there was none
    batch: Batch | None = None


def stages_of(topology: Topology, service_factor: float = 1.0) -> list[Stage]:
    """Return the stages of a topology, upstream ones first: operators joined by inline edges.

    >>> from foretide.topology import flow
    >>> job = flow("words")
    >>> first = job.source("in").operator("a", execution_s=0.1, selectivity=2).operator("b", execution_s=0.2)
    >>> _ = first.operator("c", execution_s=0.3, queued=True)
    >>> [(stage.operators, stage.cost_s) for stage in stages_of(job.build())]
    [([0, 1], {0: 0.5, 1: 0.2}), ([2], {2: 0.3})]
    """
    place = topology.layout.operator_index
    head = _heads(topology)
    order = _order(topology, head)
    cost_s = topology.declared_execution_s * service_factor
    inline = {(edge.start, edge.output, edge.end) for edge in topology.edges if edge.transport == "inline"}
    for column in reversed(range(len(topology.layout.edges))):
        start, _, end = edge = topology.layout.edges[column]
        if edge in inline and start in place:
            cost_s[place[start]] += topology.declared_share[column] * cost_s[place[end]]
    members = [[operator for operator in range(len(head)) if head[operator] == each] for each in order]
    return [
        Stage(operators, _rounds(topology, operators), {each: float(cost_s[each]) for each in operators})
        for operators in members
    ]


def _heads(topology: Topology) -> list[int]:
    """Return the first operator of each operator's stage; a source joins those that it feeds inline."""
    layout = topology.layout
    names = (*layout.operators, *layout.sources)
    head = dict(zip(names, range(len(names)), strict=True))
    for edge in topology.edges:
        if edge.transport == "inline" and edge.end in layout.operator_index:
            one, two = sorted((head[edge.start], head[edge.end]))
            head = {name: one if first == two else first for name, first in head.items()}
    return [head[name] for name in layout.operators]


def _order(topology: Topology, head: list[int]) -> list[int]:
    place = topology.layout.operator_index
    waits: dict[int, set[int]] = {each: set() for each in head}
    for edge in topology.edges:
        if edge.transport == "queued" and edge.start in place and edge.end in place:
            waits[head[place[edge.end]]].add(head[place[edge.start]])
    order: list[int] = []
    while waits:
        ready = [each for each, before in waits.items() if not before.intersection(waits)]
        if not ready:
            expected = "queued edges that lead from one stage to a later one"
            remedy = "make the inline edges beside them queued too"
            raise ConfigError("simulation.micro_batch", expected=expected, got="stages in a circle", remedy=remedy)
        order += ready
        for each in ready:
            del waits[each]
    return order


def _rounds(topology: Topology, operators: list[int]) -> int:
    """Return how often rows change tasks on the longest way: at every grouping but shuffle, which is chained."""
    names = {topology.layout.operators[operator] for operator in operators}
    depth = dict.fromkeys(names, 0)
    for start, output, end in topology.layout.edges:
        if end not in names:
            continue
        edge = next(e for e in topology.edges if (e.start, e.output, e.end) == (start, output, end))
        exchanged = edge.grouping.name != "shuffle" or bool(edge.grouping.options.get("exchange", False))
        before = depth[start] if start in names and edge.transport == "inline" else 0
        depth[end] = max(depth[end], before + exchanged)
    return max(depth.values())
