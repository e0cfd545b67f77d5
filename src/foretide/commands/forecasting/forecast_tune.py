"""``foretide forecast tune``: the pretrained network, trained on with one's own history."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from foretide.commands.group import console_for, write_file

if TYPE_CHECKING:
    from foretide.forecast.csv_history import History
    from foretide.records import Floats

__all__ = ["tune"]

_WIDE = 120


def tune(
    csv: Annotated[list[Path], typer.Option(help="A history, one value a row; may be repeated.", metavar="FILE")],
    value: Annotated[list[str], typer.Option(help="A column of values; may be repeated.", metavar="COL")],
    out: Annotated[Path, typer.Option(help="Where the weights go if they win, with their card.", metavar="FILE")],
    time: Annotated[
        str | None, typer.Option(help="The column of instants; without it, rows are evenly spaced.", metavar="COL")
    ] = None,
    size: Annotated[Literal["full", "small"], typer.Option(help="Which network to begin with.")] = "small",
    steps: Annotated[int, typer.Option(min=1, help="Steps of training; about a second each on a core.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="What stretches are drawn from.")] = 0,
    json_out: Annotated[
        Path | None, typer.Option("--json", help="Write the scores to this file; - prints it.", metavar="OUT")
    ] = None,
) -> None:
    """Train the pretrained network `zero` on your own history, and keep it only if it wins.

    It is trained on the first three quarters of each series and judged on the last one, which it never sees: the
    weights are written only if the .9 quantile is at least 1 % better there and the median is no worse. It runs beside
    everything else at the lowest priority, and needs the extra `train`. Histories are CSV files, such as
    `foretide runs export` writes, of at least 1,024 bins each.

    [bold]Example:[/] foretide forecast tune --csv trace.csv --value events_per_second --out mine.npz

    Use it with `zero = "small"` and `tuned = "mine.npz"` among the settings of the forecaster `auto`.
    """
    from foretide.extras import needs_extra
    from foretide.forecast.csv_history import read_history
    from foretide.forecast.zero.loading import load_weights, write_weights

    with needs_extra("train", "foretide forecast tune"):
        from foretide.forecast.zero.learning.tune import FEWEST
        from foretide.forecast.zero.learning.tune import tune as train_on

    console = console_for(json_out, _WIDE)
    histories = [(f"{file}, {column}", read_history(file, column, time)) for file in csv for column in value]
    series = _usable(histories, FEWEST)
    if hasattr(os, "nice"):
        os.nice(19)
    found = train_on(series, load_weights(size), steps=steps, seed=seed, progress=_progress)
    for name in ("pinball_90", "coverage_90", "mape_median", "mape_point"):
        console.print(f"{name:<12} {found.before[name]:.4f} before, {found.after[name]:.4f} after", highlight=False)
    if json_out is not None:
        data = {"kept": found.wins, "before": dict(found.before), "after": dict(found.after)}
        write_file(json_out, json.dumps(data, indent=2) + "\n", "--json")
    if not found.wins:
        console.print("not kept: it is not better on what was held back, so the network of the package stays")
        return
    card = {
        "begun_with": size,
        "trained_on": [name for name, _ in histories],
        "steps": steps,
        "seed": seed,
        "before": dict(found.before),
        "after": dict(found.after),
    }
    write_weights(out, found.weights, card)
    console.print(f"wrote {out}; use it with the settings zero = '{size}' and tuned = '{out}' of auto", highlight=False)


def _usable(histories: Sequence[tuple[str, History]], fewest: int) -> list[Floats]:
    """Return the series, gaps closed with the last value; one that is too short or empty is an error."""
    import numpy as np

    from foretide.errors import ConfigError
    from foretide.forecast.series import carried

    found = []
    for name, history in histories:
        values = np.maximum(carried(history.series.values), 0.0)
        if values.size < fewest or not values.any():
            raise ConfigError(
                name,
                expected=f"at least {fewest:,} bins, not all of them 0",
                got=f"{values.size:,} bins" if values.any() else "nothing but 0",
                remedy="tune on a longer history, or use the network as it is",
            )
        found.append(values)
    return found


def _progress(done: int, total: int) -> None:
    if done % 20 == 0 or done == total:
        typer.echo(f"{done}/{total} steps", err=True)
