"""Laying out a topology in layers: which layer, which order within it, and where.

Sources are in layer 0, everything else one behind the last of its predecessors. Edges that cross layers get a
waypoint in each, so that they are led around the boxes there. Orders come from repeated barycentres (each node to
the mean position of its neighbours), positions from the same with the distances kept. Nothing is random.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from foretide.topology.draw_labels import elements_of
from foretide.topology.elements import Edge
from foretide.topology.graph import Topology

__all__ = ["Grid", "Node", "layers_of", "spread"]

#: An element's id, or (number of the edge, layer) for a waypoint.
Node: TypeAlias = str | tuple[int, int]
_SWEEPS = 12


def layers_of(topology: Topology) -> dict[str, int]:
    """Return the layer of every element, by the longest path from a source.

    >>> from foretide.topology import flow
    >>> job = flow("line")
    >>> _ = job.source("in").operator("a").sink("out")
    >>> layers_of(job.build())
    {'in': 0, 'a': 1, 'out': 2}
    """
    layer: dict[str, int] = {}
    for element in elements_of(topology):
        before = topology.incoming.get(element.id, ())
        layer[element.id] = max((1 + layer[edge.start] for edge in before), default=0)
    return layer


@dataclass(frozen=True)
class Grid:
    """The layers of a topology with their nodes in order, and the path of each edge through them.

    Parameters
    ----------
    layers : list of list of Node
        The nodes of each layer, top to bottom.
    routes : mapping of Edge number to tuple of Node
        The nodes that each edge touches, its ends included.
    """

    layers: list[list[Node]]
    routes: Mapping[int, tuple[Node, ...]]

    @classmethod
    def of(cls, topology: Topology) -> Grid:
        """Return the grid of `topology`, in the order with the fewest crossings that the sweeps found."""
        layer = layers_of(topology)
        routes = {number: _route(number, edge, layer) for number, edge in enumerate(topology.edges)}
        layers: list[list[Node]] = [[] for _ in range(1 + max(layer.values()))]
        for id, position in layer.items():
            layers[position].append(id)
        for route in routes.values():
            for node in route:
                if isinstance(node, tuple):
                    layers[node[1]].append(node)
        return cls(_ordered(layers, _links(routes)), routes)

    def heights(self, height: Mapping[Node, float], gap: float) -> dict[Node, float]:
        """Return the vertical centre of every node, near its neighbours and `gap` from its neighbours in the layer."""
        before, after = _links(self.routes)
        centre: dict[Node, float] = {}
        for nodes in self.layers:
            centre |= _stacked(nodes, dict.fromkeys(nodes, 0.0), height, gap)
        for sweep in range(_SWEEPS):
            forward = sweep % 2 == 0
            for nodes in self.layers if forward else reversed(self.layers):
                near = before if forward else after
                wanted = {node: _mean([centre[other] for other in near[node]], centre[node]) for node in nodes}
                centre |= _stacked(nodes, wanted, height, gap)
        return centre


def spread(wanted: Sequence[float], distances: Sequence[float]) -> list[float]:
    """Return positions as near to `wanted` as they can be, in order and at least the distances apart.

    `distances` holds one less. Least squares, by pooling neighbours that are too close.

    >>> spread([0.0, 1.0, 10.0], [4.0, 4.0])
    [-1.5, 2.5, 10.0]
    """
    offset, offsets = 0.0, [0.0]
    for distance in distances:
        offset += distance
        offsets.append(offset)
    pools: list[tuple[float, int]] = []
    for value, moved in zip(wanted, offsets, strict=True):
        mean, count = value - moved, 1
        while pools and pools[-1][0] > mean:
            other, size = pools.pop()
            mean, count = (mean * count + other * size) / (count + size), count + size
        pools.append((mean, count))
    flat = [mean for mean, count in pools for _ in range(count)]
    return [mean + moved for mean, moved in zip(flat, offsets, strict=True)]


def _route(number: int, edge: Edge, layer: Mapping[str, int]) -> tuple[Node, ...]:
    waypoints = ((number, between) for between in range(layer[edge.start] + 1, layer[edge.end]))
    return (edge.start, *waypoints, edge.end)


_Links: TypeAlias = tuple[defaultdict[Node, list[Node]], defaultdict[Node, list[Node]]]


def _links(routes: Mapping[int, tuple[Node, ...]]) -> _Links:
    """Return the neighbours of every node in the layer before and in the layer after it."""
    before: defaultdict[Node, list[Node]] = defaultdict(list)
    after: defaultdict[Node, list[Node]] = defaultdict(list)
    for route in routes.values():
        for start, end in pairwise(route):
            after[start].append(end)
            before[end].append(start)
    return before, after


def _ordered(layers: list[list[Node]], links: _Links) -> list[list[Node]]:
    best, fewest = layers, _crossings(layers, links)
    current = layers
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        current = _swept(current, links, forward=sweep % 2 == 0)
        crossings = _crossings(current, links)
        if crossings < fewest:
            best, fewest = current, crossings
    return best


def _swept(layers: list[list[Node]], links: _Links, *, forward: bool) -> list[list[Node]]:
    near = links[0] if forward else links[1]
    place = {node: float(position) for nodes in layers for position, node in enumerate(nodes)}
    ordered = [list(nodes) for nodes in layers]
    for nodes in ordered if forward else reversed(ordered):
        wanted = {node: _mean([place[other] for other in near[node]], place[node]) for node in nodes}
        nodes.sort(key=wanted.__getitem__)
        place |= {node: float(position) for position, node in enumerate(nodes)}
    return ordered


def _crossings(layers: list[list[Node]], links: _Links) -> int:
    """Count the pairs of lines that cross between neighbouring layers."""
    total = 0
    for left, right in pairwise(layers):
        place = {node: position for position, node in enumerate(right)}
        lines = [place[end] for start in left for end in sorted(links[1][start], key=place.__getitem__)]
        total += sum(1 for i, end in enumerate(lines) for other in lines[i + 1 :] if other < end)
    return total


def _stacked(
    nodes: Sequence[Node], wanted: Mapping[Node, float], height: Mapping[Node, float], gap: float
) -> dict[Node, float]:
    distances = [(height[upper] + height[lower]) / 2 + gap for upper, lower in pairwise(nodes)]
    return dict(zip(nodes, spread([wanted[node] for node in nodes], distances), strict=True))


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default
