"""The labels of boxes and lines, the same in every picture."""

from __future__ import annotations

from typing import TypeAlias

from foretide.topology.elements import DEFAULT_OUTPUT, Connector, Edge, Operator, ReplicaBounds, Sink, Source
from foretide.topology.graph import Topology

__all__ = ["Element", "connector_label", "edge_label", "elements_of", "operator_label", "replicas_label"]

Element: TypeAlias = Source | Operator | Sink


def elements_of(topology: Topology) -> tuple[Element, ...]:
    """Return sources, operators and sinks, in this order."""
    return (*topology.sources, *topology.operators, *topology.sinks)


def replicas_label(bounds: ReplicaBounds) -> str:
    """Return the bounds in words.

    >>> replicas_label(ReplicaBounds(1, 8, 2)), replicas_label(ReplicaBounds(1, 1, 1))
    ('1–8 replicas', '1 replica')
    """
    if bounds.minimum != bounds.maximum:
        return f"{bounds.minimum}–{bounds.maximum} replicas"
    return f"{bounds.minimum} replica{'' if bounds.minimum == 1 else 's'}"


def operator_label(operator: Operator) -> str:
    """Return replicas and, if declared, the execution time.

    >>> operator_label(Operator("a", execution_s=0.0025))
    '1–32 replicas · 2.5 ms'
    """
    time = [] if operator.execution_s is None else [f"{operator.execution_s * 1000:.3g} ms"]
    return " · ".join([replicas_label(operator.replicas), *time])


def connector_label(connector: Connector) -> str:
    """Return the kind of a source or sink, empty if it has none."""
    return "" if connector.kind == "none" else connector.kind


def edge_label(edge: Edge) -> str:
    """Return the output and grouping of an edge, if they are not the defaults.

    >>> from foretide.topology.elements import GroupingSpec
    >>> edge_label(Edge("a", "b", "news", GroupingSpec.of("fields:word")))
    'news · fields:word'
    """
    output = [] if edge.output == DEFAULT_OUTPUT else [edge.output]
    grouping = [] if edge.grouping.name == "shuffle" else [str(edge.grouping)]
    return " · ".join([*output, *grouping])
