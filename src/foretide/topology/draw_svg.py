"""A topology as an SVG picture, drawn from left to right without other programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from foretide.topology.draw_labels import Element, connector_label, edge_label, elements_of, operator_label
from foretide.topology.draw_layout import Grid, Node, spread
from foretide.topology.draw_shapes import POINT, arrow_head, box, legend, legend_width, text, text_width
from foretide.topology.draw_theme import LIGHT, Theme
from foretide.topology.elements import Edge, Operator
from foretide.topology.graph import Topology

__all__ = ["to_svg"]

_MARGIN, _TITLE, _LEGEND = 24.0, 30.0, 34.0
_HEIGHT, _GAP, _WAY_HEIGHT = 54.0, 26.0, 8.0
_NARROW_GAP = 64.0


@dataclass(frozen=True)
class _Box:
    """An element's place in the picture; a waypoint is a flat one without text."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width


def to_svg(topology: Topology, *, theme: Theme = LIGHT) -> str:
    """Return a picture of the topology: solid lines are inline edges, dashed ones are queued.

    The same topology always gives the same text. `THEMES` holds a light and a dark theme.

    >>> from foretide.topology import flow
    >>> job = flow("line")
    >>> _ = job.source("in").operator("count")
    >>> to_svg(job.build()).startswith("<svg ")
    True
    """
    elements = {element.id: element for element in elements_of(topology)}
    grid = Grid.of(topology)
    boxes = _boxes(grid, elements, topology)
    lines = _lines(grid, boxes, topology)
    right = max(shape.right for shape in boxes.values())
    bottom = max(shape.y + shape.height / 2 for shape in boxes.values())
    width = max(right, legend_width() + _MARGIN, text_width(topology.name, 15) + _MARGIN) + _MARGIN
    height = bottom + _LEGEND + _MARGIN
    parts = [
        *(_path(edge, points, theme) for edge, points in lines),
        *(box(element, boxes[id], theme) for id, element in elements.items()),
        *_labels(lines, theme),
        text(_MARGIN, _MARGIN + 10, topology.name, theme.text, size=15, weight=600, anchor="start"),
        legend(_MARGIN, height - _MARGIN, theme),
    ]
    return _document(topology.name, width, height, parts, theme)


def _document(name: str, width: float, height: float, parts: Iterable[str], theme: Theme) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    family = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family={quoteattr(family)}>',
        f"<title>{escape(f'Topology {name}')}</title>",
        arrow_head(theme),
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="12" fill="{theme.page}"/>',
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def _box_width(element: Element) -> float:
    below = operator_label(element) if isinstance(element, Operator) else connector_label(element.connector)
    mark = 18.0 if isinstance(element, Operator) and element.stateful else 0.0
    return max(text_width(element.id, 14) * 1.06 + mark, text_width(below, 11), 44.0) + 32.0


def _boxes(grid: Grid, elements: Mapping[str, Element], topology: Topology) -> dict[Node, _Box]:
    size: dict[Node, float] = {node: _WAY_HEIGHT for nodes in grid.layers for node in nodes}
    size |= dict.fromkeys(elements, _HEIGHT)
    centre = grid.heights(size, _GAP)
    top = min(centre[node] - size[node] / 2 for node in centre) - _MARGIN - _TITLE
    boxes: dict[Node, _Box] = {}
    x = _MARGIN
    for number, nodes in enumerate(grid.layers):
        widest = max(_box_width(elements[node]) for node in nodes if isinstance(node, str))
        for node in nodes:
            boxes[node] = _Box(x, centre[node] - top, widest, size[node])
        x += widest + _gap_after(number, grid, topology)
    return boxes


def _gap_after(layer: int, grid: Grid, topology: Topology) -> float:
    """Return the room behind a layer: as much as the widest label of the edges that start there."""
    starting = {node for node in grid.layers[layer] if isinstance(node, str)}
    labels = [edge_label(edge) for edge in topology.edges if edge.start in starting]
    widest = max((text_width(label, 11) for label in labels if label), default=0.0)
    return max(_NARROW_GAP, widest + 48.0 if widest else 0.0)


def _lines(grid: Grid, boxes: Mapping[Node, _Box], topology: Topology) -> list[tuple[Edge, list[tuple[float, float]]]]:
    """Return the points that each edge goes through; edges of one box leave and enter it side by side."""
    leaving: dict[Node, list[int]] = defaultdict(list)
    entering: dict[Node, list[int]] = defaultdict(list)
    for number, route in grid.routes.items():
        leaving[route[0]].append(number)
        entering[route[-1]].append(number)
    start_y = _ports(leaving, boxes, {number: route[1] for number, route in grid.routes.items()})
    end_y = _ports(entering, boxes, {number: route[-2] for number, route in grid.routes.items()})
    sources = {source.id for source in topology.sources}
    lines = []
    for number, edge in enumerate(topology.edges):
        route = grid.routes[number]
        # Lines lie under the boxes: one that leaves next to a source's tip starts where the box is still full.
        under = POINT if edge.start in sources else 0.0
        points = [(boxes[route[0]].right - under, start_y[number])]
        for node in route[1:-1]:
            points += [(boxes[node].x, boxes[node].y), (boxes[node].right, boxes[node].y)]
        lines.append((edge, [*points, (boxes[route[-1]].x, end_y[number])]))
    return lines


def _ports(by_box: Mapping[Node, list[int]], boxes: Mapping[Node, _Box], other: Mapping[int, Node]) -> dict[int, float]:
    heights: dict[int, float] = {}
    for node, numbers in by_box.items():
        ordered = sorted(numbers, key=lambda number: (boxes[other[number]].y, number))
        step = min(14.0, (boxes[node].height - 16.0) / len(ordered))
        for position, number in enumerate(ordered):
            heights[number] = boxes[node].y + step * (position - (len(ordered) - 1) / 2)
    return heights


def _path(edge: Edge, points: list[tuple[float, float]], theme: Theme) -> str:
    """Return the line of an edge: curves between layers, straight along the waypoints."""
    (x, y), rest = points[0], points[1:]
    steps = [f"M{x:.1f},{y:.1f}"]
    for position, (next_x, next_y) in enumerate(rest):
        if position % 2 == 0:
            bend = (next_x - x) / 2
            steps.append(f"C{x + bend:.1f},{y:.1f} {next_x - bend:.1f},{next_y:.1f} {next_x:.1f},{next_y:.1f}")
        else:
            steps.append(f"L{next_x:.1f},{next_y:.1f}")
        x, y = next_x, next_y
    dashes = ' stroke-dasharray="6 4"' if edge.transport == "queued" else ""
    about = escape(f"{edge}, {edge.grouping}, {edge.transport}")
    style = f'fill="none" stroke="{theme.line}" stroke-width="1.6"{dashes} marker-end="url(#arrow-{theme.name})"'
    return f'<path d="{" ".join(steps)}" {style}><title>{about}</title></path>'


def _labels(lines: list[tuple[Edge, list[tuple[float, float]]]], theme: Theme) -> list[str]:
    """Return the labels, each at the middle of its edge's first curve, moved apart if two would touch."""
    by_column: dict[tuple[float, float], list[tuple[float, str]]] = defaultdict(list)
    for edge, points in lines:
        label = edge_label(edge)
        if label:
            (x, y), (next_x, next_y) = points[0], points[1]
            by_column[x, next_x].append(((y + next_y) / 2 - 9.0, label))
    parts = []
    for (x, next_x), found in by_column.items():
        ordered = sorted(found)
        heights = spread([height for height, _ in ordered], [15.0] * (len(ordered) - 1))
        for height, (_, label) in zip(heights, ordered, strict=True):
            parts.append(text((x + next_x) / 2 - 3, height + 4, label, theme.faint, size=11, halo=theme.page))
    return parts
