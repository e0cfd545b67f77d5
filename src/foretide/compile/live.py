"""Which stages can be live: run in tasks that stay, and commit every few tens of milliseconds (ADR 0027)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from foretide.compile.queues import QueueLimits
from foretide.compile.stages import Stage, StageGraph
from foretide.errors import ConfigError
from foretide.topology import Sink, Source

__all__ = ["check_live", "live_stages"]


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


def check_live(graph: StageGraph, live: frozenset[str], limits: Mapping[str, QueueLimits] | None = None) -> None:
    """Refuse to run stages live that cannot be, with all reasons, stage by stage.

    Parameters
    ----------
    graph : StageGraph
        The stages.
    live : frozenset of str
        Those that are to be live.
    limits : mapping of str to QueueLimits, optional
        What queues may hold, by input.

    Raises
    ------
    ConfigError
        Naming what is in the way.
    """
    bounded = {name for name, own in (limits or {}).items() if own != QueueLimits()}
    found = {stage.id: tuple(_reasons(stage, bounded)) for stage in graph.stages if stage.id in live}
    if refused := {id: reasons for id, reasons in found.items() if reasons}:
        raise ConfigError(
            "live",
            expected="stages from Kafka topics through operators without state to Kafka topics, or to PostgreSQL",
            got="; ".join(f"stage {id!r}: {', '.join(reasons)}" for id, reasons in refused.items()),
            remedy="run them in batches: leave --live (live=) out, or name the other stages in live=",
        )


def _reasons(stage: Stage, bounded: set[str]) -> Iterator[str]:
    """Yield why a stage cannot be live."""
    for source in stage.sources:
        if source.connector.kind != "kafka":
            yield f"source {source.id!r} is of kind {source.connector.kind!r}, which has no offsets in Kafka"
    for plan in stage.inputs:
        yield f"it reads the queued edge '{plan.edge}', whose log is read in batches"
    for operator in stage.operators:
        if operator.on_frames:
            yield f"operator {operator.id!r} works on DataFrames, which Spark runs in batches"
        elif operator.state or operator.stateful:
            yield f"operator {operator.id!r} keeps state, which is committed with a batch"
    for plan in stage.edges:
        if plan.link == "exchanged":
            yield f"rows change tasks on the edge '{plan.edge}' ({plan.edge.grouping})"
        elif plan.link == "queued":
            yield f"it writes the queued edge '{plan.edge}', whose log is written in batches"
    for sink in stage.sinks:
        if sink.connector.kind not in ("kafka", "postgres"):
            yield f"sink {sink.id!r} is of kind {sink.connector.kind!r}, which has no transactions with offsets in them"
    for name in _inputs(stage):
        if name in bounded:
            yield f"the queue of {name!r} has a limit, which drops events when a batch is planned"
    if len({sink.connector.kind for sink in stage.sinks} & {"kafka", "postgres"}) > 1:
        yield f"{_and(sink.id for sink in stage.sinks)} are in Kafka and in PostgreSQL, and a transaction is of one"
    ends: tuple[Source | Sink, ...] = (*stage.sources, *stage.sinks)
    for kind, option, where in (("kafka", "servers", "clusters"), ("postgres", "url", "databases")):
        places = {str(end.connector.options.get(option)): end.id for end in ends if end.connector.kind == kind}
        if len(places) > 1:
            yield f"{_and(places.values())} are in different {where}, and a transaction is of one"


def _and(names: Iterable[str]) -> str:
    return " and ".join(names)


def _inputs(stage: Stage) -> tuple[str, ...]:
    return (*(source.id for source in stage.sources), *(plan.name for plan in stage.inputs))
