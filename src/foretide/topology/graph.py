"""A topology: a directed acyclic graph of sources, operators and sinks (SPEC P1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from foretide.errors import Declaration
from foretide.records import Floats, Ints, Layout
from foretide.topology.elements import Edge, GroupingSpec, Operator, Sink, Source
from foretide.topology.flow import FlowGraph
from foretide.topology.validation import topological_order, validate

__all__ = ["Topology"]


@dataclass(frozen=True)
class Topology:
    """A valid topology; making an invalid one raises every error found.

    Declare one with `foretide.flow`, load one with `foretide.load_topology`, or build it from its parts.

    Parameters
    ----------
    name : str
        Its name.
    sources, operators, sinks : tuples
        Its elements. Operators are kept in a topological order, ties in the order of declaration.
    edges : tuple of Edge
        The streams between them.

    Raises
    ------
    TopologyErrors
        Naming every error and where it was declared.

    Examples
    --------
    >>> topology = Topology(
    ...     "line",
    ...     sources=(Source("in"),),
    ...     operators=(Operator("b"), Operator("a")),
    ...     edges=(Edge("in", "a"), Edge("a", "b")),
    ... )
    >>> [operator.id for operator in topology.operators]
    ['a', 'b']
    """

    name: str
    sources: tuple[Source, ...]
    operators: tuple[Operator, ...]
    sinks: tuple[Sink, ...] = ()
    edges: tuple[Edge, ...] = ()
    declared: Declaration | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", _by_key(self.operators, self.edges))
        validate(self.name, self.sources, self.operators, self.sinks, self.edges)
        order = topological_order([operator.id for operator in self.operators], self.edges)
        by_id = {operator.id: operator for operator in self.operators}
        object.__setattr__(self, "operators", tuple(by_id[id] for id in order))

    @cached_property
    def layout(self) -> Layout:
        """The names behind the columns of every record about this topology."""
        operators = tuple(operator.id for operator in self.operators)
        sources = tuple(source.id for source in self.sources)
        rank = {id: position for position, id in enumerate((*sources, *operators))}
        known = set(operators)
        inner = sorted((edge for edge in self.edges if edge.end in known), key=lambda edge: rank[edge.start])
        return Layout(sources, operators, tuple((edge.start, edge.output, edge.end) for edge in inner))

    @cached_property
    def flow(self) -> FlowGraph:
        """The same graph as arrays, for computing shares and loads down the DAG."""
        return FlowGraph.of(self.layout)

    @cached_property
    def declared_share(self) -> Floats:
        """θ_i^p of every edge as declared, 1 where nothing is declared."""
        selectivity = {operator.id: operator.selectivity for operator in self.operators}
        shares = [selectivity.get(start, {}).get(output, 1.0) for start, output, _ in self.layout.edges]
        return np.array(shares, dtype=np.float64)

    @cached_property
    def declared_execution_s(self) -> Floats:
        """et_i of every operator as declared, NaN where nothing is declared."""
        declared = [operator.execution_s for operator in self.operators]
        return np.array([np.nan if seconds is None else seconds for seconds in declared], dtype=np.float64)

    @cached_property
    def minimum_replicas(self) -> Ints:
        """The fewest replicas of every operator."""
        return np.array([operator.replicas.minimum for operator in self.operators], dtype=np.int64)

    @cached_property
    def maximum_replicas(self) -> Ints:
        """The most replicas of every operator."""
        return np.array([operator.replicas.maximum for operator in self.operators], dtype=np.int64)

    @cached_property
    def initial_replicas(self) -> Ints:
        """The replicas that every operator starts with."""
        return np.array([operator.replicas.initial for operator in self.operators], dtype=np.int64)

    def bounded(self, replicas: npt.ArrayLike) -> Ints:
        """Return whole replicas by operator, cut to what each operator may have."""
        cut: Ints = np.clip(replicas, self.minimum_replicas, self.maximum_replicas).astype(np.int64)
        return cut

    @cached_property
    def outgoing(self) -> Mapping[str, tuple[Edge, ...]]:
        """The edges that leave each element."""
        edges: dict[str, list[Edge]] = defaultdict(list)
        for edge in self.edges:
            edges[edge.start].append(edge)
        return {start: tuple(found) for start, found in edges.items()}

    @cached_property
    def incoming(self) -> Mapping[str, tuple[Edge, ...]]:
        """The edges that enter each element."""
        edges: dict[str, list[Edge]] = defaultdict(list)
        for edge in self.edges:
            edges[edge.end].append(edge)
        return {end: tuple(found) for end, found in edges.items()}

    def operator(self, id: str) -> Operator:
        """Return the operator called `id`."""
        return self.operators[self.layout.operator_index[id]]

    def with_execution_times(self, seconds: Mapping[str, float]) -> Self:
        """Return it with other execution times declared, by operator; those not named stay.

        >>> from foretide.topology import flow
        >>> job = flow("line")
        >>> _ = job.source("in").operator("count", execution_s=1.0)
        >>> job.build().with_execution_times({"count": 0.5}).declared_execution_s
        array([0.5])
        """
        operators = tuple(
            replace(operator, execution_s=seconds[operator.id]) if operator.id in seconds else operator
            for operator in self.operators
        )
        return replace(self, operators=operators)


def _by_key(operators: tuple[Operator, ...], edges: tuple[Edge, ...]) -> tuple[Edge, ...]:
    """Return the edges, those into operators with a key grouped by it where no grouping is declared."""
    keys = {operator.id: operator.key for operator in operators if operator.key}
    return tuple(
        replace(edge, grouping=GroupingSpec("fields", keys[edge.end]))
        if edge.end in keys and edge.grouping == GroupingSpec()
        else edge
        for edge in edges
    )
