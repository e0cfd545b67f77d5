"""Fronts as a page: for each trace a plot of cost and latency, and a table of who covers how much."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

from foretide.extras import needs_extra
from foretide.forecast.plots import COLOURS
from foretide.report.page import page_of
from foretide.sim.fronts.study import PolicyFront, TraceFronts

__all__ = ["fronts_figure", "fronts_html"]

_ROW, _BEST, _BOUND = 420, "#7f8fa0", "#bbbbbb"
_SYMBOLS = ("circle", "square", "diamond", "cross", "x", "triangle-up", "star")


def fronts_html(found: Sequence[TraceFronts], metric: str, how: Mapping[str, str]) -> str:
    """Return the page: a table of hypervolume and regret, then a plot for each trace."""
    facts = {"latency": metric, **how}
    legend = (
        "Lower left is better. Lines: points that no other setting of the policy beats; faint: the others. Grey: the "
        "clairvoyant plan; dotted: what no plan can cost less than. The plot ends at the reference point."
    )
    return page_of("Fronts of cost and waiting", facts, [_table(found)], fronts_figure(found, metric), legend)


def fronts_figure(found: Sequence[TraceFronts], metric: str) -> Any:
    """Return the figure: a plot for each trace, two in a row; a policy has the same colour in all of them."""
    with needs_extra("plots", "a page of fronts"):
        from plotly.subplots import make_subplots

    rows = math.ceil(len(found) / 2)
    columns = min(2, len(found))
    titles = [html.escape(trace.trace) for trace in found]
    figure = make_subplots(rows=rows, cols=columns, subplot_titles=titles, vertical_spacing=0.22 / rows)
    for number, trace in enumerate(found):
        place = {"row": number // columns + 1, "col": number % columns + 1}
        _bounds(figure, trace, place, number == 0)
        for at, policy in enumerate(trace.policies):
            _policy(figure, policy, place, at, number == 0)
        _axes(figure, trace, place, metric)
    figure.update_layout(
        height=_ROW * rows + 80,
        hovermode="closest",
        hoverlabel={"align": "left", "namelength": -1},
        legend={"orientation": "h", "y": -0.12 / rows, "x": 0},
        margin={"l": 70, "r": 20, "t": 40, "b": 60},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        template="none",
    )
    return figure


def _bounds(figure: Any, trace: TraceFronts, place: Mapping[str, int], first: bool) -> None:
    best = trace.clairvoyant.points[trace.clairvoyant.front]
    grey = {"color": _BEST, "width": 2}
    figure.add_scatter(
        x=best[:, 0], y=best[:, 1], name="clairvoyant plan", mode="lines+markers", line=grey, showlegend=first,
        legendgroup="clairvoyant", marker={"size": 5}, hovertemplate=_hover("clairvoyant plan"), **place,
    )  # fmt: skip
    dotted = {"color": _BOUND, "width": 1.5, "dash": "dot"}
    figure.add_scatter(
        x=trace.bound.cost, y=trace.bound.latency_ms, name="bound", mode="lines", line=dotted, showlegend=first,
        legendgroup="bound", hovertemplate=_hover("bound"), **place,
    )  # fmt: skip


def _policy(figure: Any, policy: PolicyFront, place: Mapping[str, int], at: int, first: bool) -> None:
    colour, symbol = COLOURS[at % len(COLOURS)], _SYMBOLS[at % len(_SYMBOLS)]
    common = {"legendgroup": policy.label, "hovertemplate": "%{text}<extra></extra>", **place}
    others = [number for number in range(len(policy.points)) if number not in policy.front]
    for chosen, mode, opacity in ((others, "markers", 0.3), (policy.front, "lines+markers", 1.0)):
        points = policy.points[chosen]
        figure.add_scatter(
            x=points[:, 0], y=points[:, 1], name=policy.label, mode=mode, opacity=opacity, line={"color": colour},
            marker={"color": colour, "symbol": symbol, "size": 7}, showlegend=first and chosen is policy.front,
            text=[_text(policy, number) for number in chosen], **common,
        )  # fmt: skip


def _text(policy: PolicyFront, number: int) -> str:
    cost, latency = policy.points[number]
    knob = ", ".join(f"{name} {value:g}" if isinstance(value, (int, float)) else f"{name} {value}"
                     for name, value in policy.knobs[number].items())  # fmt: skip
    return f"<b>{html.escape(policy.label)}</b> {html.escape(knob)}<br>cost {cost:.3f}, {latency:,.0f} ms"


def _axes(figure: Any, trace: TraceFronts, place: Mapping[str, int], metric: str) -> None:
    box = trace.box
    low = 10 ** math.floor(math.log10(box.least_ms * 0.8))
    y_range = [max(math.log10(box.least_ms * 0.85), math.log10(low)), math.log10(box.most_ms)]
    figure.update_xaxes(title="cost ÷ static peak", range=[0, box.most_cost], **place)
    figure.update_yaxes(title=f"{metric} ms", type="log", range=y_range, automargin=True, **place)


def _table(found: Sequence[TraceFronts]) -> str:
    labels = [policy.label for policy in found[0].policies]
    head = "".join(f"<th>{html.escape(label)}</th>" for label in (*labels, "clairvoyant"))
    rows = []
    for trace in found:
        by_label = {policy.label: policy for policy in (*trace.policies, trace.clairvoyant)}
        cells = "".join(_cell(by_label[label], trace) for label in (*labels, trace.clairvoyant.label))
        rows.append(f"<tr><td>{html.escape(trace.trace)}</td>{cells}</tr>")
    note = '<p class="note">Hypervolume, and after the stroke regret; the best policy is bold.</p>'
    return f"<table><thead><tr><th>trace</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{note}"


def _cell(policy: PolicyFront, trace: TraceFronts) -> str:
    regret = "–" if math.isnan(policy.regret) else f"{policy.regret:.2f}"
    text = f"{policy.hypervolume:.3f} / {regret}"
    return f"<td><b>{text}</b></td>" if policy is trace.best else f"<td>{text}</td>"


def _hover(what: str) -> str:
    return f"{what}: cost %{{x:.3f}}, %{{y:,.0f}} ms<extra></extra>"
