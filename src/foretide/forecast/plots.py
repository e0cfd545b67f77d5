"""Pictures of a backtest: what was measured, what each model expected, and its upper band."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from foretide.errors import ConfigError
from foretide.extras import needs_extra
from foretide.records import Floats

if TYPE_CHECKING:
    from foretide.forecast.backtest import Backtest

__all__ = ["COLOURS", "to_html", "write_png"]

# Colours that colour-blind readers can distinguish (Okabe and Ito); measured values are black.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999")
_PNG_INCHES = (12.0, 5.0)


def to_html(found: Backtest) -> str:
    """Return a self-contained page: lines can be zoomed and switched off."""
    with needs_extra("plots", "a plot of forecasts"):
        import plotly.graph_objects as go

    figure = go.Figure()
    for title, colour, style, values in _lines(found):
        hidden = "legendonly" if style == "dot" else True
        line = {"color": colour, "width": 1.5, "dash": style}
        figure.add_scatter(x=_places(found), y=values, name=title, mode="lines", line=line, visible=hidden)
    figure.update_layout(title=_title(found), template="plotly_white", hovermode="x unified", height=560)
    figure.update_xaxes(title="seconds")
    figure.update_yaxes(title=f"mean of the next {found.options.horizon} steps", rangemode="tozero")
    page: str = figure.to_html(include_plotlyjs=True, full_html=True)
    return page


def write_png(found: Backtest, path: Path) -> None:
    """Write the same as a picture, its bands only for the first model."""
    with needs_extra("plots", "a plot of forecasts"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

    figure = Figure(figsize=_PNG_INCHES, layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots()
    styles = {"solid": "-", "dot": ":"}
    first_band = next((title for title, _, style, _ in _lines(found) if style == "dot"), None)
    for title, colour, style, values in _lines(found):
        if style == "solid" or title == first_band:
            axes.plot(_places(found), values, styles[style], color=colour, linewidth=1.2, label=title)
    axes.set(title=_title(found), xlabel="seconds", ylabel=f"mean of the next {found.options.horizon} steps")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize="small", ncols=4)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120, format="png")
    except OSError as error:
        reason = f"{str(path)!r}: {(error.strerror or str(error)).lower()}"
        raise ConfigError(
            "--png", expected="a file that can be written", got=reason, remedy="choose another path"
        ) from error


def _lines(found: Backtest) -> list[tuple[str, str, str, Floats]]:
    """Return title, colour, style and values of each line."""
    lines = [("measured", "#000000", "solid", found.actual)]
    for number, (name, run) in enumerate(found.models.items()):
        colour = COLOURS[number % len(COLOURS)]
        lines.append((f"{name} ({run.scores['mape']:.1%})", colour, "solid", run.mean.mean(axis=1)))
        lines.append((f"{name} .9 quantile", colour, "dot", run.upper))
    return lines


def _places(found: Backtest) -> Floats:
    """Return the instant of each origin."""
    series = found.series
    places: Floats = (series.values.size - found.origins).astype(np.float64)
    return series.ended_at_s - series.step_s * places


def _title(found: Backtest) -> str:
    return f"{found.series.name}: forecasts from every bin, MAPE in brackets"
