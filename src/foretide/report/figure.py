"""The plots of a report, one above the other over the same time."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from foretide.extras import needs_extra
from foretide.forecast.plots import COLOURS
from foretide.records import Floats
from foretide.report.record import DecisionMark, Expected, RunRecord

__all__ = ["ROWS", "run_figure"]

#: What is plotted, from top to bottom, with the title of its axis.
ROWS = (
    ("Input and what was expected", "events/s"),
    ("Replicas", "replicas"),
    ("Throughput", "events/s"),
    ("Queue", "events"),
    ("Latency", "ms"),
)
_HEIGHT = 1500
# More points than a screen has columns only make the page large.
_POINTS = 4000
_INPUT, _BAND = "#7f8fa0", "rgba(0, 114, 178, 0.18)"
_EXPECTED = ("p50 expected", "p95 expected")
_LATENCY = {"p50": COLOURS[2], "mean": COLOURS[0], "p95": COLOURS[4], "p99": COLOURS[1]}


def run_figure(record: RunRecord) -> Any:
    """Return the figure: input and forecast, replicas with decisions, throughput, queues, latency.

    The axes share their time, so that zooming into one zooms into all. Colours of page and text are left to the page.
    """
    with needs_extra("plots", "a report with figures"):
        from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=len(ROWS),
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.045,
        subplot_titles=[title for title, _ in ROWS],
        row_heights=[1.0, 1.2, 0.8, 0.8, 1.0],
    )
    _input(figure, record)
    _replicas(figure, record)
    _throughput(figure, record)
    _queues(figure, record)
    _latencies(figure, record)
    _arrange(figure, record)
    return figure


def _input(figure: Any, record: RunRecord) -> None:
    expected = record.expected
    if expected is not None and expected.low_per_s is not None and expected.high_per_s is not None:
        edge: dict[str, Any] = {"mode": "lines", "line": {"width": 0, "shape": "hv"}, "hoverinfo": "skip"}
        at_s, high = _steps(expected, expected.high_per_s)
        _add(figure, 1, x=at_s, y=high, showlegend=False, **edge)
        band = {"name": f"forecast, {expected.band}", "fill": "tonexty", "fillcolor": _BAND}
        _add(figure, 1, x=at_s, y=_steps(expected, expected.low_per_s)[1], **edge, **band)
    at_s, came = _thin(record.at_s, record.input_per_s, "mean")
    _add(
        figure, 1, x=at_s, y=came, name="input", line={"color": _INPUT, "width": 1.5}, hovertemplate=_hover("events/s")
    )
    if expected is not None:
        at_s, rates = _steps(expected, expected.rate_per_s)
        line = {"color": COLOURS[0], "width": 1.5, "shape": "hv"}
        name = f"forecast ({expected.made_by})" if expected.made_by else "forecast"
        _add(figure, 1, x=at_s, y=rates, name=name, line=line, hovertemplate=_hover("events/s expected"))


def _replicas(figure: Any, record: RunRecord) -> None:
    for column, operator in enumerate(record.operators):
        at_s, counts = _thin(record.at_s, record.replicas[:, column].astype(np.float64), "max")
        line = {"color": COLOURS[column % len(COLOURS)], "width": 0.8, "shape": "hv"}
        _add(
            figure, 2, x=at_s, y=counts, name=operator, legendgroup=operator, line=line, stackgroup="replicas",
            hovertemplate=_hover(f"replicas of {html.escape(operator)}"),
        )  # fmt: skip
    total = record.replicas.sum(axis=1)
    for changed, name in ((True, "decision, with its reasons"), (False, "decision that changed nothing")):
        marks = [mark for mark in record.decisions if mark.changed is changed]
        if marks:
            _marks(figure, record, total, marks, name, changed)


def _marks(figure: Any, record: RunRecord, total: Floats, marks: list[DecisionMark], name: str, changed: bool) -> None:
    at_s = np.array([mark.at_s for mark in marks])
    # A decision stands where the count that it found ends.
    rows = np.clip(np.searchsorted(record.at_s, at_s - 1e-6), 0, max(len(record.at_s) - 1, 0))
    marker = {"size": 7 if changed else 4, "color": "#d62728" if changed else _INPUT, "symbol": "diamond"}
    _add(
        figure, 2, x=at_s, y=total[rows] if len(total) else at_s * 0, name=name, mode="markers", marker=marker,
        text=[_label(mark) for mark in marks], hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip


def _label(mark: DecisionMark) -> str:
    lines = [f"<b>{html.escape(mark.headline)}</b>", *(html.escape(reason) for reason in mark.reasons)]
    return "<br>".join(lines)


def _throughput(figure: Any, record: RunRecord) -> None:
    for name, values, colour in (
        ("in", record.input_per_s, _INPUT),
        ("out", record.throughput_per_s, COLOURS[2]),
    ):
        at_s, rates = _thin(record.at_s, values, "mean")
        _add(figure, 3, x=at_s, y=rates, name=name, line={"color": colour, "width": 1.5}, hovertemplate=_hover(name))


def _queues(figure: Any, record: RunRecord) -> None:
    for column, operator in enumerate(record.operators):
        at_s, waiting = _thin(record.at_s, record.queued[:, column], "max")
        line = {"color": COLOURS[column % len(COLOURS)], "width": 1.2}
        _add(
            figure, 4, x=at_s, y=waiting, name=operator, legendgroup=operator, showlegend=False, line=line,
            stackgroup="queued", hovertemplate=_hover(f"waiting for {html.escape(operator)}"),
        )  # fmt: skip


def _latencies(figure: Any, record: RunRecord) -> None:
    for name, values in record.latency_ms.items():
        at_s, found = _thin(record.latency_at_s, values, "max")
        line = {"color": _LATENCY.get(name, COLOURS[3]), "width": 1.4}
        _add(figure, 5, x=at_s, y=found, name=f"latency {name}", line=line, hovertemplate=_hover(f"ms {name}"))
    for name, values in record.outlook_ms.items():
        colour = _LATENCY.get(name.split()[0], _INPUT)
        line = {"color": colour, "width": 1.4, "shape": "hv", "dash": "dot" if name in _EXPECTED else "dash"}
        _add(figure, 5, x=record.outlook_at_s, y=values, name=f"latency {name}", line=line, hovertemplate=_hover("ms"))


def _arrange(figure: Any, record: RunRecord) -> None:
    for row, (_, title) in enumerate(ROWS, start=1):
        figure.update_yaxes(title=title, row=row, col=1, rangemode="tozero", automargin=True)
    # From milliseconds to minutes: a linear axis would show nothing but the worst.
    figure.update_yaxes(type="log", row=len(ROWS), col=1)
    figure.update_xaxes(title="seconds", row=len(ROWS), col=1)
    if record.counted_from_s > 0:
        shade = {"fillcolor": "rgba(128, 128, 128, 0.15)", "line_width": 0, "layer": "below"}
        for row in range(1, len(ROWS) + 1):
            figure.add_vrect(x0=0, x1=record.counted_from_s, row=row, col=1, **shade)
    figure.update_layout(
        height=_HEIGHT,
        hovermode="closest",
        hoverlabel={"align": "left", "namelength": -1},
        legend={"orientation": "h", "y": -0.04, "x": 0},
        margin={"l": 70, "r": 20, "t": 40, "b": 60},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        template="none",
    )


def _add(figure: Any, row: int, **trace: Any) -> None:
    figure.add_scatter(row=row, col=1, **{"mode": "lines", **trace})


def _hover(what: str) -> str:
    return f"%{{x:,.0f}} s: %{{y:,.4~g}} {what}<extra></extra>"


def _steps(expected: Expected, values: Floats) -> tuple[Floats, Floats]:
    """Return a line that holds each value over its stretch, the last one to its end."""
    at_s: Floats = np.append(expected.from_s, expected.to_s[-1:])
    return at_s, np.append(values, values[-1:])


def _thin(at_s: Floats, values: Floats, how: str) -> tuple[Floats, Floats]:
    """Return at most `_POINTS` points: of every few values their mean, or the largest."""
    each = -(-len(values) // _POINTS)
    if each <= 1:
        return at_s, values
    rows = -(-len(values) // each)
    filled = np.full(rows * each, np.nan)
    filled[: len(values)] = values
    blocks = filled.reshape(rows, each)
    known = ~np.isnan(blocks).all(axis=1)
    thin = np.full(rows, np.nan)
    thin[known] = np.nanmean(blocks[known], axis=1) if how == "mean" else np.nanmax(blocks[known], axis=1)
    return at_s[np.minimum(np.arange(1, rows + 1) * each, len(at_s)) - 1], thin
