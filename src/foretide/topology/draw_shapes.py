"""The shapes of the SVG picture: boxes by kind of element, text, the arrow head and the legend."""

from __future__ import annotations

import unicodedata
from typing import Protocol
from xml.sax.saxutils import escape

from foretide.topology.draw_labels import Element, connector_label, operator_label
from foretide.topology.draw_theme import Theme
from foretide.topology.elements import Operator, Sink, Source

__all__ = ["POINT", "Area", "arrow_head", "box", "legend", "legend_width", "text", "text_width"]

_LEGEND = ("source", "operator", "stateful", "sink", "inline", "queued")
_SWATCH = 24.0
#: How far a source points to the right.
POINT = 16.0


class Area(Protocol):
    """A place in the picture: left edge, vertical centre, size."""

    @property
    def x(self) -> float:
        """The left edge."""

    @property
    def y(self) -> float:
        """The vertical centre."""

    @property
    def width(self) -> float:
        """The width."""

    @property
    def height(self) -> float:
        """The height."""


def text_width(content: str, size: float) -> float:
    """Return about how wide a text is; fonts differ, so it is a generous estimate.

    >>> text_width("abc", 10) < text_width("日本語", 10)
    True
    """
    wide = sum(1 for letter in content if unicodedata.east_asian_width(letter) in "WF")
    return size * (0.58 * (len(content) - wide) + 1.05 * wide)


def text(
    x: float,
    y: float,
    content: str,
    colour: str,
    *,
    size: int = 11,
    weight: int = 400,
    anchor: str = "middle",
    halo: str = "",
) -> str:
    """Return a line of text; a halo keeps it readable where it crosses a line."""
    around = f' stroke="{halo}" stroke-width="4" stroke-linejoin="round" paint-order="stroke"' if halo else ""
    style = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="{colour}"{around}'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(content)}</text>'


def box(element: Element, area: Area, theme: Theme) -> str:
    """Return the shape of an element with its texts."""
    left, middle = area.x, area.y
    top = middle - area.height / 2
    if isinstance(element, Operator):
        shape = _rounded(left, top, area, theme, stateful=element.stateful)
        below = operator_label(element)
    else:
        below = connector_label(element.connector)
        outline = _flag if isinstance(element, Source) else _cylinder
        shape = outline(left, top, area.width, area.height, theme)
    # A source's point and a sink's lid take room that its text must avoid.
    centre = left + (area.width - (POINT if isinstance(element, Source) else 0.0)) / 2
    lower = 5.0 if isinstance(element, Sink) else 0.0
    name = text(centre, middle + (5 if not below else -3) + lower, element.id, theme.text, size=14, weight=600)
    detail = text(centre, middle + 15 + lower, below, theme.faint) if below else ""
    return f"<g>{shape}{name}{detail}</g>"


def arrow_head(theme: Theme) -> str:
    """Return the definition of the arrow at the end of every line."""
    shape = f'<path d="M0,0.6 L8,4 L0,7.4 z" fill="{theme.line}"/>'
    size = 'viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse"'
    return f'<defs><marker id="arrow-{theme.name}" {size} orient="auto">{shape}</marker></defs>'


def legend(x: float, y: float, theme: Theme) -> str:
    """Return what the shapes and lines mean, in one row."""
    parts = []
    for name in _LEGEND:
        parts.append(_swatch(name, x, y - 8, theme))
        parts.append(text(x + _SWATCH + 6, y, name, theme.faint, anchor="start"))
        x += _SWATCH + 6 + text_width(name, 11) + 16
    return f"<g>{''.join(parts)}</g>"


def legend_width() -> float:
    """Return how wide the legend is."""
    return sum(_SWATCH + 22 + text_width(name, 11) for name in _LEGEND)


def _swatch(name: str, x: float, y: float, theme: Theme) -> str:
    if name == "source":
        return _flag(x, y, _SWATCH, 12, theme)
    if name == "sink":
        return _cylinder(x + 4, y - 2, _SWATCH - 8, 15, theme)
    if name in ("inline", "queued"):
        dashes = ' stroke-dasharray="6 4"' if name == "queued" else ""
        line = f'd="M{x:.1f},{y + 5:.1f} h{_SWATCH - 2:.0f}"'
        return f'<path {line} stroke="{theme.line}" stroke-width="1.6"{dashes} marker-end="url(#arrow-{theme.name})"/>'
    fill, border = theme.operator
    shape = _rectangle(x, y, (_SWATCH, 12), 4, fill, theme.state if name == "stateful" else border)
    return shape + (_drum(x + _SWATCH / 2 - 4, y + 1.5, theme) if name == "stateful" else "")


def _rounded(left: float, top: float, area: Area, theme: Theme, *, stateful: bool) -> str:
    fill, border = theme.operator
    shape = _rectangle(left, top, (area.width, area.height), 10, fill, theme.state if stateful else border)
    return shape + (_drum(left + area.width - 17, top + 8, theme) if stateful else "")


def _rectangle(x: float, y: float, size: tuple[float, float], radius: float, fill: str, border: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{size[0]:.1f}" height="{size[1]:.1f}" rx="{radius:.0f}"'
    return f'<rect {place} fill="{fill}" stroke="{border}" stroke-width="1.6"/>'


def _flag(x: float, y: float, width: float, height: float, theme: Theme) -> str:
    """Return a box with a point to the right: events come in."""
    point = min(height / 3, POINT)
    outline = (
        f"M{x:.1f},{y:.1f} H{x + width - point:.1f} L{x + width:.1f},{y + height / 2:.1f} "
        f"L{x + width - point:.1f},{y + height:.1f} H{x:.1f} Z"
    )
    fill, border = theme.source
    return f'<path d="{outline}" fill="{fill}" stroke="{border}" stroke-width="1.6" stroke-linejoin="round"/>'


def _cylinder(x: float, y: float, width: float, height: float, theme: Theme) -> str:
    fill, border = theme.sink
    return _can(x, y, (width, height, min(5.5, height / 5)), fill, border, 1.6)


def _drum(x: float, y: float, theme: Theme) -> str:
    """Return the mark of an operator that keeps state."""
    return _can(x, y, (8.0, 9.0, 2.0), theme.page, theme.state, 1.3)


def _can(x: float, y: float, size: tuple[float, float, float], fill: str, border: str, stroke: float) -> str:
    width, height, lid = size
    arc = f"a{width / 2:.1f},{lid:.1f} 0 0"
    body = f"M{x:.1f},{y + lid:.1f} {arc} 1 {width:.1f},0 v{height - 2 * lid:.1f} {arc} 1 {-width:.1f},0 Z"
    front = f"M{x:.1f},{y + lid:.1f} {arc} 0 {width:.1f},0"
    return f'<path d="{body} {front}" fill="{fill}" stroke="{border}" stroke-width="{stroke}"/>'
