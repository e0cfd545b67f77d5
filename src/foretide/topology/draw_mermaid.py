"""A topology as a Mermaid flowchart, which many documentation tools can render."""

from __future__ import annotations

from foretide.topology.draw_labels import Element, connector_label, edge_label, elements_of, operator_label
from foretide.topology.draw_theme import LIGHT
from foretide.topology.elements import Edge, Operator, Source
from foretide.topology.graph import Topology

__all__ = ["to_mermaid"]


def to_mermaid(topology: Topology) -> str:
    """Return a Mermaid flowchart: solid arrows are inline edges, dotted ones are queued.

    >>> from foretide.topology import flow
    >>> job = flow("line")
    >>> _ = job.source("in").operator("a", replicas=(1, 4), queued=True)
    >>> print(to_mermaid(job.build()).splitlines()[3])
        n0 -.-> n1
    """
    elements = elements_of(topology)
    node = {element.id: f"n{number}" for number, element in enumerate(elements)}
    lines = [
        "flowchart LR",
        *(f"    {node[element.id]}{_shape(element)}" for element in elements),
        *(f"    {node[edge.start]} {_arrow(edge)} {node[edge.end]}" for edge in topology.edges),
        *_classes(topology, node),
    ]
    return "\n".join(lines) + "\n"


def _shape(element: Element) -> str:
    if isinstance(element, Operator):
        state = ["stateful"] if element.stateful else []
        return f'("{_lines(element.id, operator_label(element), *state)}")'
    text = _lines(element.id, connector_label(element.connector))
    return f'(["{text}"])' if isinstance(element, Source) else f'[("{text}")]'


def _arrow(edge: Edge) -> str:
    label = edge_label(edge)
    arrow = "-.->" if edge.transport == "queued" else "-->"
    return f'{arrow}|"{_escaped(label)}"|' if label else arrow


def _classes(topology: Topology, node: dict[str, str]) -> list[str]:
    members = {
        "source": [source.id for source in topology.sources],
        "operator": [operator.id for operator in topology.operators if not operator.stateful],
        "stateful": [operator.id for operator in topology.operators if operator.stateful],
        "sink": [sink.id for sink in topology.sinks],
    }
    colours = {
        "source": LIGHT.source,
        "operator": LIGHT.operator,
        "stateful": (LIGHT.operator[0], LIGHT.state),
        "sink": LIGHT.sink,
    }
    lines = []
    for kind, ids in members.items():
        if ids:
            fill, border = colours[kind]
            width = ",stroke-width:3px" if kind == "stateful" else ""
            lines.append(f"    classDef {kind} fill:{fill},stroke:{border},color:{LIGHT.text}{width}")
            lines.append(f"    class {','.join(node[id] for id in ids)} {kind}")
    return lines


def _lines(*texts: str) -> str:
    return "<br/>".join(_escaped(text) for text in texts if text)


def _escaped(text: str) -> str:
    named = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;"}
    return "".join(named.get(letter, letter) for letter in text)
