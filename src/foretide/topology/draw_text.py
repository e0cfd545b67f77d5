"""A topology as text for a terminal, layer by layer; thirty operators still fit eighty columns."""

from __future__ import annotations

from rich import box
from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from foretide.topology.draw_labels import Element, connector_label, edge_label, elements_of, replicas_label
from foretide.topology.draw_layout import layers_of
from foretide.topology.elements import DEFAULT_OUTPUT, Edge, Operator, Source
from foretide.topology.graph import Topology

__all__ = ["to_text"]

_COLUMNS: tuple[tuple[str, JustifyMethod], ...] = (
    ("element", "left"),
    ("reads", "left"),
    ("replicas", "right"),
    ("time", "right"),
    ("gives", "left"),
)


def to_text(topology: Topology) -> RenderableType:
    """Return a rich renderable: every element in the order of the flow, what it reads, and its bounds.

    >>> from rich.console import Console
    >>> from foretide.topology import flow
    >>> job = flow("line")
    >>> _ = job.source("in").operator("count", grouping="fields:word", queued=True)
    >>> Console(width=60).print(to_text(job.build()))  # doctest: +ELLIPSIS
    line  1 source, 1 operator, 0 sinks, 1 edge...
    """
    layer = layers_of(topology)
    elements = sorted(elements_of(topology), key=lambda element: layer[element.id])
    rows = [_row(element, topology) for element in elements]
    used = [column for column in range(len(_COLUMNS)) if any(row[column] for row in rows)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for column in used:
        name, justify = _COLUMNS[column]
        table.add_column(name, justify=justify, overflow="fold", no_wrap=justify == "right")
    for position, row in enumerate(rows):
        following = elements[position + 1 : position + 2]
        last = any(layer[element.id] != layer[elements[position].id] for element in following)
        table.add_row(*(row[column] for column in used), end_section=last)
    return Group(_heading(topology), Text(), table, Text(), _legend())


def _heading(topology: Topology) -> Text:
    parts = {
        "source": len(topology.sources),
        "operator": len(topology.operators),
        "sink": len(topology.sinks),
        "edge": len(topology.edges),
    }
    counts = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for name, count in parts.items())
    return Text.assemble((topology.name, "bold"), "  ", (counts, "dim"))


def _legend() -> Text:
    marks = (("▷", "green", "source"), ("■", "blue", "operator"), ("◆", "magenta", "stateful"), ("◉", "yellow", "sink"))
    shown = [part for mark, style, name in marks for part in ((mark, style), (f" {name}   ", "dim"))]
    return Text.assemble(*shown, ("← inline   ⇠ queued", "dim"))


def _row(element: Element, topology: Topology) -> tuple[Text, Text, str, str, Text]:
    reads = Text("\n").join(_reading(edge) for edge in topology.incoming.get(element.id, ()))
    if isinstance(element, Operator):
        mark, style = ("◆ ", "magenta") if element.stateful else ("■ ", "blue")
        replicas = replicas_label(element.replicas).split()[0]
        time = "" if element.execution_s is None else f"{element.execution_s * 1000:.3g} ms"
        return Text.assemble((mark, style), (element.id, "bold")), reads, replicas, time, _gives(element)
    mark, style = ("▷ ", "green") if isinstance(element, Source) else ("◉ ", "yellow")
    return Text.assemble((mark, style), (element.id, "bold")), reads, "", "", Text(connector_label(element.connector))


def _reading(edge: Edge) -> Text:
    arrow = "⇠ " if edge.transport == "queued" else "← "
    label = edge_label(edge)
    return Text.assemble((arrow, "dim"), edge.start, (f"  {label}" if label else "", "cyan"))


def _gives(operator: Operator) -> Text:
    """Return the outputs that have a name or a declared selectivity."""
    parts = []
    for output in operator.outputs:
        ratio = operator.selectivity.get(output)
        name = [] if output == DEFAULT_OUTPUT else [output]
        parts.append(" ".join([*name, *([] if ratio is None else [f"×{ratio:.3g}"])]))
    return Text("\n").join(Text(part) for part in parts if part)
