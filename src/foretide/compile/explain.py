"""What a topology becomes on Spark, in words and numbers, before anything runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from foretide.compile.live import check_live, live_stages, over_topics
from foretide.compile.stages import EdgePlan, Stage, StageGraph, compile_stages
from foretide.topology import Edge, Topology
from foretide.topology.options import OWN_KINDS, written_by

__all__ = ["EdgeView", "Explanation", "RoundView", "StageView", "explain"]

_REASONS = {
    "shuffle": "the edge asks for an exchange",
    "fields": "rows with equal {fields} must meet in one task",
    "all": "every task gets every row",
    "global": "all rows must meet in one task",
    "direct": "{fields} says which task a row goes to",
    "partial-key": "rows with equal {fields} go to the less loaded of two tasks",
    "load-aware": "a row goes to the task with the least work",
    "dynamic": "the shares of tasks are set while it runs",
    "osg": "rows go where the cost of their {fields} weighs least",
}
_STAYS = "it only spreads load: rows stay put"
_OFFSETS = "tasks read ranges of offsets, so they may outnumber the topic's partitions"
_PARTITIONS = "tasks that stay read whole partitions, so they do not outnumber those of the topic"
_SINKS = {
    "none": "tasks count the rows and drop them",
    "parquet": "tasks write files, the driver puts them in place",
    "kafka": "tasks send messages, each in a transaction of its own",
    "postgres": "tasks copy the rows to the server, each in a transaction of its own",
    "sqlite": "the driver writes the rows, in one transaction",
    "memory": "the driver keeps the rows",
    "function": "the driver hands the rows to your function",
}
# The same where the driver writes, though tasks might.
_BY_DRIVER = {
    "kafka": "tasks make messages, the driver sends them, in one transaction",
    "postgres": "the driver copies the rows to the server, in one transaction",
}


@dataclass(frozen=True)
class EdgeView:
    """An edge, how rows cross it, and why so.

    Parameters
    ----------
    edge, grouping : str
        The edge and its grouping as the user wrote them.
    start, end : str
        The elements at its ends.
    link : str
        ``chained``, ``exchanged``, ``queued``, ``topic`` or ``sink``, see `foretide.compile.stages.Link`.
    exchanged : bool
        Whether rows change tasks here; on a queued edge, when they are read, and on a topic, when they are written.
    why : str
        The reason.
    """

    edge: str
    start: str
    end: str
    grouping: str
    link: str
    exchanged: bool
    why: str


@dataclass(frozen=True)
class RoundView:
    """What the tasks of one round do: groups of elements, each group a chain or several that part and meet."""

    number: int
    runs: tuple[tuple[str, ...], ...]
    exchanges_after: tuple[str, ...]


@dataclass(frozen=True)
class StageView:
    """One streaming query.

    Parameters
    ----------
    id : str
        The stage.
    sources, sinks : tuple of str
        Elements at its ends.
    replicas : mapping of str to int
        Replicas by operator.
    chains : tuple of tuples of str
        Operators that share tasks.
    rounds : tuple of RoundView
        What runs between exchanges.
    edges : tuple of EdgeView
        The edges inside it and those that leave it.
    reads, writes : tuple of str
        Queued edges at its ends.
    slots, tasks_per_batch : int
        Tasks side by side, and tasks of the one job of a batch over all rounds.
    live : bool
        Whether its tasks stay, and there are no batches.
    """

    id: str
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    replicas: Mapping[str, int]
    chains: tuple[tuple[str, ...], ...]
    rounds: tuple[RoundView, ...]
    edges: tuple[EdgeView, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    slots: int
    tasks_per_batch: int
    live: bool = False


@dataclass(frozen=True)
class Explanation:
    """All stages of a topology, and the operators whose function is missing."""

    topology: str
    stages: tuple[StageView, ...]
    queued: tuple[EdgeView, ...]
    missing: tuple[str, ...]

    @property
    def slots(self) -> int:
        """Tasks of all stages side by side: the cores that let no stage wait for another."""
        return sum(stage.slots for stage in self.stages)

    @property
    def exchanges(self) -> int:
        """Edges at which rows change tasks."""
        # Each edge is one of those of the stage that it leaves.
        return sum(edge.exchanged for stage in self.stages for edge in stage.edges)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        return {"slots": self.slots, "exchanges": self.exchanges, **asdict(self)}


def explain(topology: Topology, *, tasks_per_slot: int = 1, live: bool | Sequence[str] = False) -> Explanation:
    """Return what `topology` becomes on Spark with its initial replicas, with all stages live, or those that are named.

    >>> from foretide.topology import flow
    >>> job = flow("words")
    >>> _ = job.source("lines").operator("split").operator("count", grouping="fields:word", replicas=(1, 8, 3))
    >>> [stage] = explain(job.build()).stages
    >>> stage.slots, stage.tasks_per_batch
    (4, 8)
    >>> [(edge.edge, edge.link, edge.why) for edge in stage.edges][1]
    ('split -> count', 'exchanged', 'rows with equal word must meet in one task')

    Raises
    ------
    TopologyError
        When the topology cannot be cut into stages.
    ConfigError
        When a stage cannot be live.
    """
    graph = compile_stages(topology)
    if named := live_stages(graph, live):
        graph = over_topics(graph, named)
        check_live(graph)
    changing = {plan.number for stage in graph.stages for plan in stage.exchanges}
    edges = {
        plan.number: _edge_view(plan, plan.number in changing, graph, stage)
        for stage in graph.stages
        for plan in stage.edges
    }
    stages = tuple(_stage_view(stage, edges, tasks_per_slot, live=stage.id in graph.live) for stage in graph.stages)
    queued = tuple(edges[plan.number] for stage in graph.stages for plan in stage.inputs)
    missing = tuple(operator.id for operator in topology.operators if operator.function is None)
    return Explanation(topology.name, stages, queued, missing)


def _is_read_by_spark(stage: Stage) -> bool:
    """Return whether Spark reads the rows of a stage, and gives them to tasks as it likes."""
    return any(operator.on_frames for operator in stage.operators) or any(
        source.connector.kind not in OWN_KINDS for source in stage.sources
    )


def _stage_view(stage: Stage, edges: Mapping[int, EdgeView], tasks_per_slot: int, *, live: bool) -> StageView:
    replicas = {operator.id: operator.replicas.initial for operator in stage.operators}
    slots = stage.slots(replicas)
    return StageView(
        stage.id,
        tuple(source.id for source in stage.sources),
        tuple(sink.id for sink in stage.sinks),
        replicas,
        stage.chains,
        _rounds(stage),
        tuple(edges[plan.number] for plan in stage.edges),
        reads=tuple(str(plan.edge) for plan in stage.inputs),
        writes=tuple(str(plan.edge) for plan in stage.edges if plan.parts),
        slots=slots,
        tasks_per_batch=0 if live else slots * tasks_per_slot * (1 + stage.rounds),
        live=live,
    )


def _edge_view(plan: EdgePlan, exchanged: bool, graph: StageGraph, stage: Stage) -> EdgeView:
    edge, exchanged = plan.edge, exchanged or (plan.link == "topic" and plan.edge.grouping.name != "shuffle")
    if plan.link == "sink":
        why = _sink_why(plan, graph.topology, _is_read_by_spark(stage))
    else:
        why = _why(plan, exchanged, graph.topology, live=stage.id in graph.live)
    return EdgeView(str(edge), edge.start, edge.end, str(edge.grouping), plan.link, exchanged, why)


def _sink_why(plan: EdgePlan, topology: Topology, by_spark: bool) -> str:
    [connector] = [sink.connector for sink in topology.sinks if sink.id == plan.edge.end]
    kind = connector.kind
    if kind in _BY_DRIVER and (by_spark or written_by(kind, connector.options) == "driver"):
        return _BY_DRIVER[kind]
    return _SINKS.get(kind, f"a sink of kind {kind!r}")


def _why(plan: EdgePlan, exchanged: bool, topology: Topology, *, live: bool) -> str:
    sinks, end = {sink.id for sink in topology.sinks}, plan.edge.end
    if end not in sinks and topology.operator(end).on_frames:
        return f"{end} works on DataFrames: Spark reads the rows for it" + (
            ", from a log" if plan.link == "queued" else ""
        )
    if plan.link == "queued":
        read = f"exchanged when read: {_reason(plan.edge)}" if exchanged else "dealt out evenly when read"
        return f"a durable log between two stages, {read}"
    if plan.link == "topic":
        spread = _reason(plan.edge) if exchanged else "its partitions take turns"
        return f"a Kafka topic of the run between two live stages: {spread}"
    why = _reason(plan.edge) if exchanged else _STAYS
    topics = {source.id for source in topology.sources if source.connector.kind == "kafka"}
    return f"{_PARTITIONS if live else _OFFSETS}; {why}" if plan.edge.start in topics else why


def _reason(edge: Edge) -> str:
    reason = _REASONS.get(edge.grouping.name, "its grouping looks at rows")
    return reason.format(fields=" and ".join(edge.grouping.fields) or "key")


def _rounds(stage: Stage) -> tuple[RoundView, ...]:
    """Return which elements run in which round; one that is reached over several ways runs in several."""
    active = _active(stage)
    changing = {plan.number for plan in stage.exchanges}
    views = []
    for number in range(stage.rounds + 1):
        here = [id for id in stage.elements if number in active[id]]
        leaving = tuple(
            str(plan.edge)
            for plan in (*stage.inputs, *stage.edges)
            if plan.number in changing and _leaves(plan, stage, active, number)
        )
        views.append(RoundView(number + 1, _joined(here, stage.edges), leaving))
    return tuple(views)


def _active(stage: Stage) -> Mapping[str, set[int]]:
    active: dict[str, set[int]] = defaultdict(set)
    exchanges = {plan.number for plan in stage.exchanges}
    for source in stage.sources:
        active[source.id].add(0)
    for plan in stage.inputs:
        active[plan.edge.end].add(int(plan.number in exchanges))
    for id in (*(source.id for source in stage.sources), *(operator.id for operator in stage.operators)):
        for plan in stage.edges:
            if plan.edge.start == id and not plan.parts:
                active[plan.edge.end] |= {number + (plan.number in exchanges) for number in active[id]}
    return active


def _leaves(plan: EdgePlan, stage: Stage, active: Mapping[str, set[int]], number: int) -> bool:
    return number == 0 if plan in stage.inputs else number in active[plan.edge.start]


def _joined(elements: Iterable[str], edges: Iterable[EdgePlan]) -> tuple[tuple[str, ...], ...]:
    """Group elements that rows pass between without leaving the task."""
    group = {element: {element: None} for element in elements}
    for plan in edges:
        start, end = group.get(plan.edge.start), group.get(plan.edge.end)
        if plan.link in ("chained", "sink") and start is not None and end is not None and start is not end:
            start.update(end)
            group.update(dict.fromkeys(end, start))
    unique = {id(members): tuple(element for element in group if element in members) for members in group.values()}
    return tuple(unique.values())
