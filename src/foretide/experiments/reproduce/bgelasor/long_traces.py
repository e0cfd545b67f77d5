"""Two months of input of a production system, as published with BGElasor, or seasonal series in their place."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path

import numpy as np

from foretide.errors import ConfigError
from foretide.forecast import Series
from foretide.forecast.csv_history import read_history
from foretide.forecast.series import interpolated
from foretide.records import Floats

__all__ = ["LOADS", "TRACES_VARIABLE", "input_lines", "long_trace", "traces_folder"]

#: The kinds of load, and the width of a bin in seconds; the file of the third, stable load could not be had.
LOADS = {"periodic": 300.0, "fluctuating": 600.0}
#: The environment variable that says where the published files are, unless ``--traces`` does.
TRACES_VARIABLE = "FORETIDE_TRACES"
_DAYS, _DAY_S = 60, 86_400.0


def traces_folder(given: Path | None) -> Path | None:
    """Return the folder with the published files: the one given, or that of the variable if it holds them; else None.

    Raises
    ------
    ConfigError
        When the folder given does not hold them.
    """
    if given is not None:
        if missing := _missing(given):
            raise ConfigError(
                "--traces",
                expected=f"a folder with {' and '.join(map(_file, LOADS))}",
                got=f"{str(given)!r} without {' and '.join(missing)}",
                remedy="leave the option out to use made-up series",
            )
        return given
    named = os.environ.get(TRACES_VARIABLE)
    return Path(named) if named and not _missing(Path(named)) else None


def input_lines(given: Path | None) -> tuple[str, ...]:
    """Return which data `long_trace` reads: the published files with their digests, or why the series are made up."""
    folder = traces_folder(given)
    if folder is not None:
        return tuple(
            f"`{_file(load)}` (sha256 {hashlib.sha256((folder / _file(load)).read_bytes()).hexdigest()[:12]}), "
            f"published with BGElasor, {step_s / 60:.0f} min bins"
            for load, step_s in LOADS.items()
        )
    named = os.environ.get(TRACES_VARIABLE)
    missing = _missing(Path(named)) if named else [_file(load) for load in LOADS]
    were = "were" if len(missing) > 1 else "was"
    why = f"{were} not found in {named}" if named else f"{were} not looked for: no folder is given"
    return (
        f"**made up**, because {' and '.join(missing)} {why}; a folder with the files published with BGElasor "
        f"is named by `--traces` or the environment variable {TRACES_VARIABLE}",
    )


@lru_cache(maxsize=4)
def long_trace(load: str, folder: Path | None) -> Series:
    """Return a load as a series of rates without gaps: the one in the folder, or a series made to resemble it."""
    step_s = LOADS[load]
    if folder is None:
        return Series(_made_up(load, step_s), step_s, 0.0, load)
    series = read_history(folder / _file(load), "tuples", "datetime").series
    return Series(interpolated(series.values) / series.step_s, series.step_s, series.ended_at_s, load)


def _file(load: str) -> str:
    return f"bgelasor_{load}.csv"


def _missing(folder: Path) -> list[str]:
    return [_file(load) for load in LOADS if not (folder / _file(load)).is_file()]


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
