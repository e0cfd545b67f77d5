"""Which stages can be live: run in tasks that stay, and commit every few tens of milliseconds (ADR 0027)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from foretide.compile.queues import QueueLimits
from foretide.compile.stages import Stage, StageGraph, compile_stages
from foretide.errors import ConfigError
from foretide.topology import Sink, Source

__all__ = ["check_live", "cluster_anchor", "live_stages", "over_topics"]

# Groupings that go by the rows alone: others ask about tasks, of which a topic knows nothing.
_BY_ROWS = ("shuffle", "fields", "partial-key", "global")


def live_stages(graph: StageGraph, live: bool | Sequence[str]) -> frozenset[str]:
    """Return the ids of the stages that are to be live: all, none, or those that are named.

    Raises
    ------
    ConfigError
        When there is no stage of that name.
    """
    stages = [stage.id for stage in graph.stages]
    if isinstance(live, bool):
        return frozenset(stages if live else ())
    for name in live:
        if name not in stages:
            near = difflib.get_close_matches(name, stages, 1)
            remedy = f"did you mean {near[0]!r}?" if near else "`foretide plan-spark` shows the stages"
            raise ConfigError(
                "live", expected=f"stages among {', '.join(stages)}, or true for all", got=name, remedy=remedy
            )
    return frozenset(live)


def over_topics(graph: StageGraph, live: frozenset[str]) -> StageGraph:
    """Return the stages with those marked that are live, cut where their rows change tasks, and topics between them.

    Where rows would be exchanged inside a live stage, they go through a topic to a live stage of its own.

    Raises
    ------
    TopologyError
        When a stage cannot be cut there, since rows come another way, too.
    """
    inside = {element for stage in graph.stages if stage.id in live for element in stage.elements}
    topics = frozenset(
        plan.number
        for stage in graph.stages
        for plan in stage.edges
        if plan.link in ("exchanged", "queued") and {plan.edge.start, plan.edge.end} <= inside
    )
    found = compile_stages(graph.topology, topics) if topics else graph
    return replace(found, live=frozenset(stage.id for stage in found.stages if stage.elements[0] in inside))


def check_live(graph: StageGraph, limits: Mapping[str, QueueLimits] | None = None) -> None:
    """Refuse to run stages live that cannot be, with all reasons, stage by stage.

    Parameters
    ----------
    graph : StageGraph
        The stages, with those marked that are to be live.
    limits : mapping of str to QueueLimits, optional
        What queues may hold, by input.

    Raises
    ------
    ConfigError
        Naming what is in the way.
    """
    bounded = {name for name, own in (limits or {}).items() if own != QueueLimits()}
    found = {stage.id: tuple(_reasons(graph, stage, bounded)) for stage in graph.stages if stage.id in graph.live}
    if refused := {id: reasons for id, reasons in found.items() if reasons}:
        raise ConfigError(
            "live",
            expected="stages from Kafka topics or traces through operators without state to Kafka or to PostgreSQL",
            got="; ".join(f"stage {id!r}: {', '.join(reasons)}" for id, reasons in refused.items()),
            remedy="run them in batches: leave --live (live=) out, or name the other stages in live=",
        )


def _reasons(graph: StageGraph, stage: Stage, bounded: set[str]) -> Iterator[str]:
    """Yield why a stage cannot be live."""
    for source in stage.sources:
        if source.connector.kind not in ("kafka", "trace"):
            yield f"source {source.id!r} is of kind {source.connector.kind!r}, which has no offsets in Kafka"
    for plan in stage.inputs:
        if plan.link == "queued":
            yield f"it reads the queued edge '{plan.edge}' from a stage that runs in batches"
    for operator in stage.operators:
        if operator.on_frames:
            yield f"operator {operator.id!r} works on DataFrames, which Spark runs in batches"
        elif operator.state or operator.stateful:
            yield f"operator {operator.id!r} keeps state, which is committed with a batch"
    for plan in stage.edges:
        if plan.link == "queued":
            yield f"it writes the queued edge '{plan.edge}' for a stage that runs in batches"
        elif plan.link == "topic" and plan.edge.grouping.name not in _BY_ROWS:
            yield f"rows change tasks on the edge '{plan.edge}' ({plan.edge.grouping}), which asks about tasks"
    for sink in stage.sinks:
        if sink.connector.kind not in ("kafka", "postgres"):
            yield f"sink {sink.id!r} is of kind {sink.connector.kind!r}, which has no transactions with offsets in them"
    for name in _inputs(stage):
        if name in bounded:
            yield f"the queue of {name!r} has a limit, which drops events when a batch is planned"
    written = {sink.id: sink.connector.kind for sink in stage.sinks}
    written |= {str(plan.edge): "kafka" for plan in stage.edges if plan.link == "topic"}
    if len(set(written.values()) & {"kafka", "postgres"}) > 1:
        yield f"{_and(written)} are in Kafka and in PostgreSQL, and a transaction is of one"
    ends = [*_origins(graph, stage), *stage.sinks]
    if (anchor := cluster_anchor(graph, stage)) is not None and anchor not in ends:
        ends.append(anchor)
    for kind, option, where in (("kafka", "servers", "clusters"), ("postgres", "url", "databases")):
        places = {str(end.connector.options.get(option)): end.id for end in ends if end.connector.kind == kind}
        if len(places) > 1:
            yield f"{_and(places.values())} are in different {where}, and a transaction is of one"


def _origins(graph: StageGraph, stage: Stage) -> tuple[Source | Sink, ...]:
    """Return the sources of a stage, and of all stages before it: topics between them are in the same cluster."""
    before = (graph.stage_of(plan.edge.start) for plan in stage.inputs)
    return (*stage.sources, *(source for other in before for source in _origins(graph, other)))


def cluster_anchor(graph: StageGraph, stage: Stage) -> Source | Sink | None:
    """Return whose Kafka cluster the topics are in that a stage reads and only this run writes; None without any.

    It is that of the first source that is in one, of this stage or of one before it; else that of the first sink.
    """
    if not stage.inputs and all(source.connector.kind != "trace" for source in stage.sources):
        return None
    ends = (*_origins(graph, stage), *graph.topology.sinks)
    return next((end for end in ends if end.connector.kind == "kafka"), None)


def _and(names: Iterable[str]) -> str:
    return " and ".join(names)


def _inputs(stage: Stage) -> tuple[str, ...]:
    return (*(source.id for source in stage.sources), *(plan.name for plan in stage.inputs))
