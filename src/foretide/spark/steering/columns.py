"""Where the amounts of a running topology stand in the columns of its records."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from foretide.records import Floats
from foretide.topology import Topology

__all__ = ["TopologyColumns"]


class TopologyColumns:
    """Where sources, edges and operators of a topology are in the columns of its records."""

    def __init__(self, topology: Topology) -> None:
        self.layout = topology.layout
        edges = self.layout.edge_index
        keys = {number: (edge.start, edge.output, edge.end) for number, edge in enumerate(topology.edges)}
        self.edge_by_number = {number: edges[key] for number, key in keys.items() if key in edges}
        #: Edges from sources: the column of the source, by the column of the edge.
        self._from_source = {
            place: self.layout.sources.index(start)
            for (start, _, _), place in edges.items()
            if start in self.layout.sources
        }
        self._by_name = {f"{start}.{output}-{end}": place for (start, output, end), place in edges.items()}
        #: The operators that the rows of an input wait for; those on their way to a sink wait for none.
        self._ends = {name: (self.layout.edges[place][2],) for name, place in self._by_name.items()} | {
            source: tuple(end for start, _, end in self.layout.edges if start == source)
            for source in self.layout.sources
        }

    def passed(self, arrived: Floats, crossed: Floats, queued: Mapping[str, int]) -> Floats:
        """Return what each edge's end received: arrivals behind a source, rows written to a log, else rows crossed."""
        found = crossed.copy()
        for place, source in self._from_source.items():
            found[place] = arrived[source]
        for name, rows in queued.items():
            written = self._by_name.get(name)
            if written is not None and written not in self._from_source:
                found[written] = rows
        return found

    def by_operator(self, amounts: Mapping[str, float]) -> Floats:
        """Return amounts that some operators have."""
        return np.array([amounts.get(operator, 0.0) for operator in self.layout.operators])

    def queued(self, waiting: Mapping[str, float]) -> Floats:
        """Return the events that wait before each operator, from those that wait at each input."""
        found: Floats = np.zeros(len(self.layout.operators))
        for name, events in waiting.items():
            for end in self._ends.get(name, ()):
                found[self.layout.operator_index[end]] += events
        return found
