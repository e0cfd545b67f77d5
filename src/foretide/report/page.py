"""The page of a report: one self-contained file, light and dark."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping
from typing import Any

from foretide._version import __version__
from foretide.extras import needs_extra
from foretide.report.figure import run_figure
from foretide.report.record import Figure, RunRecord
from foretide.topology.draw_theme import DARK, LIGHT, Theme

__all__ = ["page_of", "to_html"]

_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0 auto; max-width: 1280px; padding: 24px; background: var(--page); color: var(--text);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
header { display: flex; gap: 16px; align-items: baseline; flex-wrap: wrap; }
h1 { font-size: 22px; margin: 0; flex: 1; }
dl.facts { display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 8px 0 16px; color: var(--faint); }
dl.facts div { display: flex; gap: 6px; }
dl.facts dd { margin: 0; color: var(--text); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 5px 14px 5px 0; border-bottom: 1px solid var(--rule); }
td.value { text-align: right; font-weight: 600; white-space: nowrap; }
td.meaning, .note, footer { color: var(--faint); }
button { border: 1px solid var(--rule); border-radius: 6px; background: transparent; color: var(--text);
  padding: 4px 10px; font: inherit; cursor: pointer; }
footer { margin-top: 16px; font-size: 13px; }
"""

# Plotly uses its own colours, not those of the style sheet, so they are set along with the theme.
_SCRIPT = """
const themes = %(themes)s;
const dark = window.matchMedia("(prefers-color-scheme: dark)");
let chosen = null;
function paint() {
  const name = chosen || (dark.matches ? "dark" : "light"), theme = themes[name], root = document.documentElement;
  for (const key of ["page", "text", "faint", "rule"]) root.style.setProperty("--" + key, theme[key]);
  root.style.colorScheme = name;
  document.getElementById("theme").textContent = name === "dark" ? "light" : "dark";
  const plot = document.getElementById("plots"), change = {"font.color": theme.text, "hoverlabel.bgcolor": theme.page,
    "hoverlabel.font.color": theme.text, "hoverlabel.bordercolor": theme.faint};
  for (const axis of Object.keys(plot.layout).filter((key) => /^[xy]axis/.test(key))) {
    change[axis + ".gridcolor"] = theme.rule;
    change[axis + ".linecolor"] = theme.faint;
    change[axis + ".zerolinecolor"] = theme.rule;
  }
  Plotly.relayout(plot, change);
}
document.getElementById("theme").onclick = () => {
  chosen = (chosen || (dark.matches ? "dark" : "light")) === "dark" ? "light" : "dark";
  paint();
};
dark.addEventListener("change", paint);
paint();
"""


def to_html(record: RunRecord) -> str:
    """Return the report of a run as one page: metrics on top, plots below, reasons where the pointer rests."""
    notes = (f'<p class="note">{html.escape(note)}</p>' for note in record.notes)
    return page_of(
        record.title,
        record.facts,
        (_table(record.figures), *notes),
        run_figure(record),
        "Grey: before the part that counts.",
    )


def page_of(title: str, facts: Mapping[str, str], blocks: Iterable[str], figure: Any, legend: str) -> str:
    """Return a page of its own: title, facts, blocks of HTML, a figure below them, and how to read it."""
    with needs_extra("plots", "a report with figures"):
        from plotly.offline import get_plotlyjs

    plots = figure.to_html(
        include_plotlyjs=False, full_html=False, div_id="plots", config={"displaylogo": False, "responsive": True}
    )
    title = html.escape(title)
    script = _SCRIPT % {"themes": json.dumps({theme.name: _colours(theme) for theme in (LIGHT, DARK)})}
    return "\n".join(
        (
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title><style>{_STYLE}</style>",
            f"<script>{get_plotlyjs()}</script></head><body>",
            f'<header><h1>{title}</h1><button id="theme" title="Switch between light and dark">dark</button></header>',
            _facts(facts),
            *blocks,
            plots,
            f"<footer>{html.escape(legend)} Made by foretide {__version__}.</footer>",
            f"<script>{script}</script></body></html>\n",
        )
    )


def _facts(facts: Mapping[str, str]) -> str:
    shown = (f"<div><dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd></div>" for k, v in facts.items())
    return f'<dl class="facts">{"".join(shown)}</dl>'


def _table(figures: tuple[Figure, ...]) -> str:
    if not figures:
        return ""
    rows = "".join(
        f'<tr><td>{html.escape(figure.name)}</td><td class="value">{html.escape(figure.value)}</td>'
        f'<td class="meaning">{html.escape(figure.meaning)}</td></tr>'
        for figure in figures
    )
    return f"<table><tbody>{rows}</tbody></table>"


def _colours(theme: Theme) -> dict[str, str]:
    rule = "#dfe5ea" if theme is LIGHT else "#2b3744"
    return {"page": theme.page, "text": theme.text, "faint": theme.faint, "rule": rule}
