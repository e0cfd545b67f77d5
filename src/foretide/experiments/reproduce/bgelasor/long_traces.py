"""Two months of input of a production system, as published with BGElasor, or seasonal series in their place."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import numpy as np

from foretide.forecast import Series
from foretide.forecast.csv_history import read_history
from foretide.forecast.mixture.panel import filled
from foretide.records import Floats

__all__ = ["LOADS", "TRACES_VARIABLE", "long_trace", "traces_folder"]

#: The kinds of load, and the width of a bin in seconds; the file of the third, stable load could not be had.
LOADS = {"periodic": 300.0, "fluctuating": 600.0}
#: The environment variable that says where the published files are.
TRACES_VARIABLE = "FORETIDE_TRACES"
_DEFAULT_FOLDER = Path("..") / "shared" / "traces"
_DAYS, _DAY_S = 60, 86_400.0


def traces_folder() -> Path | None:
    """Return where the published files are: the folder that the variable names, or the default one; None if absent."""
    given = os.environ.get(TRACES_VARIABLE)
    for folder in (Path(given),) if given else (_DEFAULT_FOLDER,):
        if all((folder / f"bgelasor_{load}.csv").is_file() for load in LOADS):
            return folder
    return None


@lru_cache(maxsize=4)
def long_trace(load: str, published: bool) -> Series:
    """Return a load as a series of rates without gaps: the published one, or a series made to resemble it."""
    step_s = LOADS[load]
    folder = traces_folder() if published else None
    if folder is None:
        return Series(_made_up(load, step_s), step_s, 0.0, load)
    series = read_history(folder / f"bgelasor_{load}.csv", "tuples", "datetime").series
    return Series(filled(series.values) / series.step_s, series.step_s, series.ended_at_s, load)


def _made_up(load: str, step_s: float) -> Floats:
    """Return 60 days with a day and a week in them, and noise that lasts; the fluctuating load has bursts besides."""
    draw = np.random.default_rng([0xB6E1, len(load)])
    count = round(_DAYS * _DAY_S / step_s)
    day = 2 * np.pi * np.arange(count) * step_s / _DAY_S
    level = 1.0 - 0.55 * np.cos(day) - 0.15 * np.cos(2 * day) + 0.15 * np.cos(day / 7)
    noise = np.zeros(count)
    for place in range(1, count):
        noise[place] = 0.8 * noise[place - 1] + draw.normal(0.0, 0.06)
    rates = np.maximum(level, 0.1) * np.exp(noise)
    if load == "fluctuating":
        starts = draw.random(count) < 0.01
        burst = np.convolve(starts * draw.exponential(4.0, count), 0.6 ** np.arange(12))[:count]
        rates = 0.3 * rates + burst
    made: Floats = 1000.0 * rates
    return made
