"""From a topology to stages: what becomes one streaming query, what runs in one task, where rows are exchanged.

No Spark is needed for this; `foretide plan-spark` shows the result before anything runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from foretide.compile.queues import check_queues
from foretide.errors import TopologyError
from foretide.records import SharedSlots
from foretide.topology import Edge, Operator, Sink, Source, Topology

__all__ = ["EdgePlan", "Link", "Stage", "StageGraph", "compile_stages"]

#: How rows cross an edge: within a task, by an exchange between tasks, through a durable log, through a topic between
#: live stages, or into a sink.
Link: TypeAlias = Literal["chained", "exchanged", "queued", "topic", "sink"]


@dataclass(frozen=True)
class EdgePlan:
    """One edge and how rows cross it."""

    number: int
    edge: Edge
    link: Link

    @property
    def parts(self) -> bool:
        """Whether its two ends are in different stages."""
        return self.link in ("queued", "topic")

    @property
    def name(self) -> str:
        """The edge's name, fit for a directory."""
        return f"{self.edge.start}.{self.edge.output}-{self.edge.end}"


@dataclass(frozen=True)
class Stage:
    """Elements joined by inline edges: one streaming query.

    Parameters
    ----------
    id : str
        Its name: that of its first element.
    sources, operators, sinks : tuples
        Its elements, operators in topological order.
    inputs : tuple of EdgePlan
        The edges from other stages that feed it.
    edges : tuple of EdgePlan
        The edges inside it, and those that leave it for others.
    """

    id: str
    sources: tuple[Source, ...]
    operators: tuple[Operator, ...]
    sinks: tuple[Sink, ...]
    inputs: tuple[EdgePlan, ...]
    edges: tuple[EdgePlan, ...]

    @cached_property
    def elements(self) -> tuple[str, ...]:
        """The ids of all its elements."""
        return _ids(self.sources, self.operators, self.sinks)

    @cached_property
    def outgoing(self) -> Mapping[tuple[str, str], tuple[EdgePlan, ...]]:
        """The edges by the element and output that they leave."""
        found: dict[tuple[str, str], list[EdgePlan]] = defaultdict(list)
        for plan in self.edges:
            found[plan.edge.start, plan.edge.output].append(plan)
        return {start: tuple(plans) for start, plans in found.items()}

    @cached_property
    def exchanges(self) -> tuple[EdgePlan, ...]:
        """The edges at which rows change tasks, those at its inputs included."""
        # Spark itself spreads what operators on DataFrames read; a sink takes rows from wherever they are.
        routed = {operator.id for operator in self.operators if not operator.on_frames}
        # Rows of a topic are in the partition already that they belong to.
        logs = (plan for plan in self.inputs if plan.link == "queued")
        at_inputs = tuple(plan for plan in logs if not _keeps_tasks(plan.edge) and plan.edge.end in routed)
        return at_inputs + tuple(plan for plan in self.edges if plan.link == "exchanged")

    @property
    def rounds(self) -> int:
        """How many exchanges follow one another: the longest way through the stage, counted in exchanges."""
        return len(self.carriers)

    @cached_property
    def carriers(self) -> tuple[frozenset[int], ...]:
        """The edges that may carry rows at the first exchange, at the second and so on, by their numbers."""
        found: dict[int, set[int]] = defaultdict(set)
        for plan in self.exchanges:
            for depth in {0} if plan in self.inputs else self._depths[plan.edge.start]:
                found[depth].add(plan.number)
        return tuple(frozenset(found[depth]) for depth in range(len(found)))

    @cached_property
    def readers(self) -> tuple[str, ...]:
        """The operators that run before any exchange."""
        return tuple(operator.id for operator in self.operators if not max(self._depths[operator.id], default=0))

    def depths(self, element: str) -> set[int]:
        """Return how many exchanges come before an element, on each way to it."""
        return self._depths[element]

    @cached_property
    def keyed(self) -> tuple[Operator, ...]:
        """The operators whose state Foretide keeps."""
        return tuple(operator for operator in self.operators if operator.state)

    @cached_property
    def _depths(self) -> Mapping[str, set[int]]:
        """How many exchanges come before each element, on each way to it."""
        depths: dict[str, set[int]] = defaultdict(set) | {source.id: {0} for source in self.sources}
        for plan in self.inputs:
            depths[plan.edge.end].add(int(plan in self.exchanges))
        order = [*(source.id for source in self.sources), *(operator.id for operator in self.operators)]
        inside: dict[str, list[EdgePlan]] = defaultdict(list)
        for plan in self.edges:
            if plan.link in ("chained", "exchanged"):
                inside[plan.edge.start].append(plan)
        for id in order:
            for plan in inside[id]:
                depths[plan.edge.end] |= {depth + (plan.link == "exchanged") for depth in depths[id]}
        return depths

    @cached_property
    def chains(self) -> tuple[tuple[str, ...], ...]:
        """The operators that run in one task, chain by chain."""
        head = {operator.id: operator.id for operator in self.operators}

        def find(id: str) -> str:
            while head[id] != id:
                id = head[id]
            return id

        for plan in self.edges:
            if plan.link == "chained" and plan.edge.start in head and plan.edge.end in head:
                head[find(plan.edge.end)] = find(plan.edge.start)
        groups: dict[str, list[str]] = defaultdict(list)
        for operator in self.operators:
            groups[find(operator.id)].append(operator.id)
        return tuple(tuple(group) for group in groups.values())

    def slots(self, replicas: Mapping[str, int]) -> int:
        """Return how many tasks run side by side: the replicas of all its operators together, at least 1."""
        return max(1, sum(replicas[operator.id] for operator in self.operators))


@dataclass(frozen=True)
class StageGraph:
    """The stages of a topology, upstream ones first, and which of them are live."""

    topology: Topology
    stages: tuple[Stage, ...]
    live: frozenset[str] = frozenset()

    @cached_property
    def queued(self) -> tuple[EdgePlan, ...]:
        """The edges that are kept in logs."""
        return tuple(plan for stage in self.stages for plan in stage.inputs if plan.link == "queued")

    @cached_property
    def shared_slots(self) -> SharedSlots:
        """Which operators share slots, for planners: those of each stage that has any."""
        stages = [stage for stage in self.stages if stage.operators]
        place, topology = self.topology.layout.operator_index, self.topology
        home = {operator.id: number for number, stage in enumerate(stages) for operator in stage.operators}
        links = {(home[start], home[end]) for start, _, end in topology.layout.edges if start in home}
        return SharedSlots(
            tuple(stage.id for stage in stages),
            tuple(tuple(sorted(place[operator.id] for operator in stage.operators)) for stage in stages),
            minimum=tuple(topology.minimum_replicas.tolist()),
            maximum=tuple(topology.maximum_replicas.tolist()),
            # What Spark reads for an operator on DataFrames is cut before the driver knows of the batch, and the tasks
            # of a live stage stay.
            hired=tuple(
                stage.id not in self.live and all(not operator.on_frames for operator in stage.operators)
                for stage in stages
            ),
            links=tuple(sorted((start, end) for start, end in links if start != end)),
        )

    def stage_of(self, element: str) -> Stage:
        """Return the stage that holds an element."""
        return next(stage for stage in self.stages if element in stage.elements)


def compile_stages(topology: Topology, topics: frozenset[int] = frozenset()) -> StageGraph:
    """Cut a topology into stages at its queued edges, and at those that go through a topic, by their numbers.

    >>> from foretide.topology import flow
    >>> job = flow("words")
    >>> _ = (
    ...     job.source("lines")
    ...     .operator("split")
    ...     .operator("count", grouping="fields:word", queued=True)
    ...     .operator("top")
    ...     .sink("out")
    ... )
    >>> for stage in compile_stages(job.build()).stages:
    ...     print(stage.id, stage.chains, stage.rounds)
    lines (('split',),) 0
    count (('count', 'top'),) 1

    Raises
    ------
    TopologyError
        When a queued edge would lead a stage back into itself, or an edge has limits on which nothing waits.
    """
    _check_states(topology)
    links = ("topic" if number in topics else _link(edge, topology) for number, edge in enumerate(topology.edges))
    plans = [
        EdgePlan(number, edge, link) for number, (edge, link) in enumerate(zip(topology.edges, links, strict=True))
    ]
    check_queues(topology, plans)
    group = _groups(topology, plans)
    members: dict[str, set[str]] = defaultdict(set)
    for id, head in group.items():
        members[head].add(id)
    order = _stage_order(group, plans, [head for head in dict.fromkeys(group.values())])
    stages = tuple(_stage(topology, members[head], plans) for head in order)
    for stage in stages:
        _check_together(stage)
    return StageGraph(topology, stages)


def _ids(sources: Iterable[Source], operators: Iterable[Operator], sinks: Iterable[Sink]) -> tuple[str, ...]:
    return (
        *(source.id for source in sources),
        *(operator.id for operator in operators),
        *(sink.id for sink in sinks),
    )


def _keeps_tasks(edge: Edge) -> bool:
    """Return whether the rows of an edge may stay in the task that made them (chaining).

    A shuffle only spreads load, and inside a stage both ends have the same slots: it needs no exchange unless the
    user insists with the option ``exchange``.
    """
    return edge.grouping.name == "shuffle" and not edge.grouping.options.get("exchange", False)


def _link(edge: Edge, topology: Topology) -> Link:
    """Return how rows cross an edge.

    An operator that works on DataFrames heads a stage of its own, since Spark must see its input as a stream: an
    inline edge into it from another operator becomes a queued one, and so does one from a source that feeds others too.
    """
    sinks = {sink.id for sink in topology.sinks}
    operators = topology.layout.operator_index
    if edge.transport == "queued":
        return "queued"
    if edge.end in sinks:
        return "sink"
    if topology.operator(edge.end).on_frames:
        alone = edge.start not in operators and sum(other.start == edge.start for other in topology.edges) == 1
        return "chained" if alone else "queued"
    return "chained" if _keeps_tasks(edge) else "exchanged"


def _check_states(topology: Topology) -> None:
    """Refuse a stateful operator whose state would be lost between batches."""
    for operator in topology.operators:
        if operator.stateful and not operator.state and not operator.on_frames:
            raise TopologyError(
                f"operator {operator.id!r}",
                expected="a key and columns of the state that is kept by it, or mode='dataframe', where Spark keeps it",
                got=f"mode={operator.mode!r} without either",
                remedy="write key='column', state='n long', or a function of a streaming DataFrame",
                declared=operator.declared,
            )


def _check_together(stage: Stage) -> None:
    """Refuse an operator with a key whose inputs come after different numbers of exchanges: a key is worked on once."""
    for operator in stage.keyed:
        depths = stage.depths(operator.id)
        if len(depths) > 1:
            raise TopologyError(
                f"operator {operator.id!r}",
                expected="inputs that come after as many exchanges each, so that all rows of a key come together",
                got=f"rows that come after {' or '.join(map(str, sorted(depths)))} exchanges",
                remedy="make the edges into it queued",
                declared=operator.declared,
            )


def _groups(topology: Topology, plans: Iterable[EdgePlan]) -> dict[str, str]:
    """Return the first element of each element's stage, by joining the ends of inline edges."""
    elements = _ids(topology.sources, topology.operators, topology.sinks)
    rank = {id: place for place, id in enumerate(elements)}
    head = {id: id for id in elements}

    def find(id: str) -> str:
        while head[id] != id:
            head[id] = head[head[id]]
            id = head[id]
        return id

    for plan in plans:
        if not plan.parts:
            one, two = sorted((find(plan.edge.start), find(plan.edge.end)), key=rank.__getitem__)
            head[two] = one
    return {id: find(id) for id in elements}


def _stage_order(group: Mapping[str, str], plans: Iterable[EdgePlan], heads: list[str]) -> list[str]:
    queued = [plan for plan in plans if plan.parts]
    waits: dict[str, set[str]] = {head: set() for head in heads}
    for plan in queued:
        start, end = group[plan.edge.start], group[plan.edge.end]
        if start == end:
            raise _circular(plan.edge, "its two ends are joined by inline edges too")
        waits[end].add(start)
    order: list[str] = []
    while waits:
        ready = [head for head, before in waits.items() if not before.intersection(waits)]
        if not ready:
            stuck = next(plan.edge for plan in queued if group[plan.edge.end] in waits)
            raise _circular(stuck, "stages would wait for each other")
        order += ready
        for head in ready:
            del waits[head]
    return order


def _circular(edge: Edge, why: str) -> TopologyError:
    return TopologyError(
        f"edge '{edge}'",
        expected="a queued edge that leads from one stage to a later one",
        got=f"one that leads back: {why}",
        remedy="make the inline edges beside it queued too, or this one inline",
        declared=edge.declared,
    )


def _stage(topology: Topology, members: set[str], plans: Iterable[EdgePlan]) -> Stage:
    sources = tuple(source for source in topology.sources if source.id in members)
    operators = tuple(operator for operator in topology.operators if operator.id in members)
    sinks = tuple(sink for sink in topology.sinks if sink.id in members)
    return Stage(
        _ids(sources, operators, sinks)[0],
        sources,
        operators,
        sinks,
        inputs=tuple(plan for plan in plans if plan.parts and plan.edge.end in members),
        edges=tuple(plan for plan in plans if plan.edge.start in members),
    )
