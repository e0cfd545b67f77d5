"""The page of advice: what was paid, what would have been, and executors then and foretold."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from foretide.advise.advice import Advice
from foretide.extras import needs_extra
from foretide.forecast.plots import COLOURS
from foretide.report.page import page_of

__all__ = ["advice_figure", "advice_page"]

_HEIGHT = 300
# More applications than this only make the page large; the table has all.
_SHOWN = 12
_BINS = 400


def advice_page(found: Sequence[Advice]) -> str:
    """Return the report as one page: a table of all applications, plots below."""
    paid_s, foretold_s = sum(one.paid_s for one in found), sum(one.foretold_s for one in found)
    facts = {
        "applications": f"{len(found)}",
        "executor-seconds then": f"{paid_s:,.0f}",
        "foretold": f"{foretold_s:,.0f}",
        "saved": f"{1 - foretold_s / paid_s:.0%}" if paid_s else "–",
    }
    notes = (
        f'<p class="note">{html.escape(one.application.log)}: {html.escape(note)}</p>'
        for one in found
        for note in one.notes
    )
    legend = "Executors then are those of the event log; foretold are those that the policy would have had."
    return page_of("Advice from event logs", facts, (_table(found), *notes), advice_figure(found[:_SHOWN]), legend)


def advice_figure(found: Sequence[Advice]) -> Any:
    """Return the plots: of every application what came, and the executors then and foretold."""
    with needs_extra("plots", "a report with figures"):
        from plotly.subplots import make_subplots

    titles = [text for one in found for text in (f"{_name(one)}: input", f"{_name(one)}: executors")]
    figure = make_subplots(rows=2 * len(found), cols=1, subplot_titles=titles, vertical_spacing=0.25 / (2 * len(found)))
    for number, advice in enumerate(found):
        row = 2 * number + 1
        at_s, then, foretold = advice.course()
        edges = np.linspace(0.0, advice.seconds, _BINS + 1)
        for place, query in enumerate(advice.queries):
            curve = query.model.curve
            rate = np.diff(np.interp(edges, curve.at_s, curve.rows)) / np.diff(edges)
            line = {"color": COLOURS[place % len(COLOURS)], "width": 1.2}
            figure.add_scatter(x=edges[1:], y=rate, name=query.model.name, mode="lines", line=line, row=row, col=1)
        for name, counts, colour in (("then", then, "#7f8fa0"), ("foretold", foretold, COLOURS[0])):
            line = {"color": colour, "width": 1.6, "shape": "hv"}
            figure.add_scatter(
                x=at_s, y=counts, name=name, mode="lines", line=line, row=row + 1, col=1, showlegend=number == 0
            )
        figure.update_yaxes(title="rows/s", rangemode="tozero", row=row, col=1)
        figure.update_yaxes(title="executors", rangemode="tozero", row=row + 1, col=1)
    figure.update_xaxes(title="seconds", row=2 * len(found), col=1)
    figure.update_layout(
        height=2 * _HEIGHT * len(found),
        legend={"orientation": "h", "y": -0.08, "x": 0},
        margin={"l": 70, "r": 20, "t": 40, "b": 60},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        template="none",
    )
    return figure


def _name(advice: Advice) -> str:
    return html.escape(advice.application.name or advice.application.log)


def _table(found: Sequence[Advice]) -> str:
    head = ("application", "paid", "foretold", "saved", "p95 then", "p95 foretold", "changes")
    rows = [
        (
            _name(one),
            f"{one.paid_s:,.0f} s",
            f"{one.foretold_s:,.0f} s",
            f"{one.saved:.0%}",
            f"{one.then.p95_s:.2f} s",
            f"{one.foretold.p95_s:.2f} s",
            f"{one.run.changes}",
        )
        for one in found
    ]
    cells = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f"<table><thead><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr></thead><tbody>{cells}</tbody></table>"
    )
