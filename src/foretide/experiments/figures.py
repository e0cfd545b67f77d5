"""The figures: panels of curves or bars, as files that are the same for the same numbers."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from foretide.experiments.report import Line, Panel
from foretide.extras import needs_extra

__all__ = ["to_svg"]

# Colours that colour-blind readers can distinguish (Okabe and Ito); input is black or grey.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999")
_INPUT = "input"
_WIDTH_INCHES, _PANEL_INCHES = 9.0, 2.7
_SETTINGS: Any = {
    # Without these two the file differs from run to run.
    "svg.hashsalt": "foretide",
    "path.simplify_threshold": 0.5,
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def to_svg(panels: tuple[Panel, ...]) -> str:
    """Return the panels, one below the other, as an SVG picture on white.

    >>> picture = to_svg((Panel("rate", "s", "events/s", (Line("input", [0, 1], [2, 3]),)),))
    >>> picture.startswith("<?xml"), "rate" in picture
    (True, True)
    """
    with needs_extra("plots", "the figures of an experiment"):
        import matplotlib
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(_WIDTH_INCHES, _PANEL_INCHES * len(panels)), layout="constrained", facecolor="white")
        FigureCanvasSVG(figure)
        for axes, panel in zip(np.atleast_1d(figure.subplots(len(panels), 1)), panels, strict=True):
            _draw(axes, panel)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _draw(axes: Any, panel: Panel) -> None:
    draw = _bars if panel.labels else _curves
    draw(axes, panel)
    axes.set_title(panel.title, loc="left")
    axes.set(xlabel=panel.x_title, ylabel=panel.y_title)
    if panel.log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3, axis="y" if panel.labels else "both")
    if len(panel.lines) > 1:
        # Above the axes, where it hides nothing; the title is on the left.
        axes.legend(
            frameon=False, fontsize="small", ncols=7, loc="lower right", bbox_to_anchor=(1.0, 0.97), borderpad=0
        )


def _curves(axes: Any, panel: Panel) -> None:
    for mark in panel.marks:
        axes.axvline(mark, color="#d55e00", linewidth=0.8, linestyle="--")
    for line, colour in zip(panel.lines, _colours(panel), strict=True):
        if line.style == "shade":
            axes.fill_between(line.x, line.y, color="#000000", alpha=0.12, linewidth=0, label=line.title)
        else:
            drawn = "steps-post" if line.style == "steps" else "default"
            axes.plot(line.x, line.y, color=colour, linewidth=1.1, drawstyle=drawn, label=line.title)


def _bars(axes: Any, panel: Panel) -> None:
    places = np.arange(len(panel.labels), dtype=np.float64)
    width = 0.8 / len(panel.lines)
    for number, (line, colour) in enumerate(zip(panel.lines, _colours(panel), strict=True)):
        offset = (number - (len(panel.lines) - 1) / 2) * width
        axes.bar(
            places + offset,
            np.nan_to_num(np.asarray(line.y, dtype=np.float64)),
            width * 0.92,
            color=colour,
            label=line.title,
        )
    axes.set_xticks(places, panel.labels)


def _colours(panel: Panel) -> list[str]:
    plain = iter(_COLOURS * (1 + len(panel.lines) // len(_COLOURS)))
    return ["#000000" if _is_input(line) else next(plain) for line in panel.lines]


def _is_input(line: Line) -> bool:
    return line.title == _INPUT or line.style == "shade"
