"""Where the elements of a topology are drawn: boxes and lines, for a page that fills in what happens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, TypeAlias

from foretide.errors import TopologyError
from foretide.store import RunInfo
from foretide.topology import DEFAULT_OUTPUT, Edge, Operator, ReplicaBounds, Sink, Source, Topology
from foretide.topology.draw_labels import connector_label, elements_of
from foretide.topology.draw_layout import Grid, Node

__all__ = ["drawn", "topology_of"]

_WIDTH, _HEIGHT, _END_HEIGHT, _WAY_HEIGHT = 152.0, 92.0, 54.0, 10.0
_GAP_X, _GAP_Y, _MARGIN = 82.0, 26.0, 14.0
_STEP = 14.0

_Point: TypeAlias = tuple[float, float]


def topology_of(info: RunInfo) -> Topology:
    """Return what ran; if its document could not be stored, the bare graph that its records have."""
    try:
        return info.topology()
    except TopologyError:
        layout = info.layout
        return Topology(
            info.name,
            sources=tuple(Source(name) for name in layout.sources),
            operators=tuple(Operator(name, outputs=_outputs(info, name)) for name in layout.operators),
            edges=tuple(Edge(start, end, output) for start, output, end in layout.edges),
        )


def _outputs(info: RunInfo, operator: str) -> tuple[str, ...]:
    used = dict.fromkeys(output for start, output, _ in info.layout.edges if start == operator)
    return tuple(used) or ("out",)


def drawn(topology: Topology) -> dict[str, Any]:
    """Return the elements with their places, and the points that each edge goes through.

    >>> from foretide.topology import flow
    >>> job = flow("line")
    >>> _ = job.source("in").operator("count", replicas=(1, 8))
    >>> picture = drawn(job.build())
    >>> [(node["id"], node["kind"]) for node in picture["nodes"]], len(picture["edges"])
    ([('in', 'source'), ('count', 'operator')], 1)
    """
    grid = Grid.of(topology)
    places = _places(grid, topology)
    nodes = [{**_described(element), **_box(places[element.id], element)} for element in elements_of(topology)]
    lines = _lines(grid, places, topology)
    return {
        "width": max(node["x"] + node["width"] for node in nodes) + _MARGIN,
        "height": max(node["y"] + node["height"] for node in nodes) + _MARGIN,
        "nodes": nodes,
        "edges": [
            {
                "start": edge.start,
                "output": edge.output,
                "end": edge.end,
                "label": "" if edge.output == DEFAULT_OUTPUT else edge.output,
                "grouping": str(edge.grouping),
                "transport": edge.transport,
                "points": [[round(x, 1), round(y, 1)] for x, y in lines[number]],
            }
            for number, edge in enumerate(topology.edges)
        ],
    }


def _described(element: Source | Operator | Sink) -> dict[str, Any]:
    if not isinstance(element, Operator):
        kind = "source" if isinstance(element, Source) else "sink"
        return {"id": element.id, "kind": kind, "connector": connector_label(element.connector)}
    bounds: ReplicaBounds = element.replicas
    return {
        "id": element.id,
        "kind": "operator",
        "stateful": element.stateful,
        "execution_s": element.execution_s,
        "minimum": bounds.minimum,
        "maximum": bounds.maximum,
        "initial": bounds.initial,
    }


def _box(place: _Point, element: Source | Operator | Sink) -> dict[str, float]:
    height = _HEIGHT if isinstance(element, Operator) else _END_HEIGHT
    return {
        "x": round(place[0], 1),
        "y": round(place[1] - height / 2, 1),
        "width": _WIDTH,
        "height": height,
    }


def _places(grid: Grid, topology: Topology) -> dict[Node, _Point]:
    """Return the left edge and the vertical centre of every element and waypoint."""
    size: dict[Node, float] = {node: _WAY_HEIGHT for nodes in grid.layers for node in nodes}
    size |= {element.id: _HEIGHT if isinstance(element, Operator) else _END_HEIGHT for element in elements_of(topology)}
    centre = grid.heights(size, _GAP_Y)
    top = min(centre[node] - size[node] / 2 for node in centre) - _MARGIN
    return {
        node: (_MARGIN + number * (_WIDTH + _GAP_X), centre[node] - top)
        for number, nodes in enumerate(grid.layers)
        for node in nodes
    }


def _lines(grid: Grid, places: Mapping[Node, _Point], topology: Topology) -> dict[int, list[_Point]]:
    """Return the points of each edge: it leaves to the right, passes its waypoints, and enters from the left."""
    leaving = _ports(grid, places, start=True)
    entering = _ports(grid, places, start=False)
    lines: dict[int, list[_Point]] = {}
    for number in range(len(topology.edges)):
        route = grid.routes[number]
        points = [(places[route[0]][0] + _WIDTH, leaving[number])]
        for node in route[1:-1]:
            x, y = places[node]
            points += [(x, y), (x + _WIDTH, y)]
        lines[number] = [*points, (places[route[-1]][0], entering[number])]
    return lines


def _ports(grid: Grid, places: Mapping[Node, _Point], *, start: bool) -> dict[int, float]:
    """Return where each edge leaves or enters its box: side by side, in the order of what they lead to."""
    by_box: dict[Node, list[int]] = defaultdict(list)
    for number, route in grid.routes.items():
        by_box[route[0] if start else route[-1]].append(number)
    heights: dict[int, float] = {}
    for node, numbers in by_box.items():
        ordered = sorted(numbers, key=lambda n: (places[grid.routes[n][1 if start else -2]][1], n))
        step = min(_STEP, (_END_HEIGHT - 16.0) / len(ordered))
        for position, number in enumerate(ordered):
            heights[number] = places[node][1] + step * (position - (len(ordered) - 1) / 2)
    return heights
