"""The two long traces: a recurrent network chosen on validation data, and `auto` going through the test period."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foretide.forecast import Auto, Series
from foretide.forecast.backtest import Progress
from foretide.forecast.csv_history import read_history
from foretide.forecast.deep import BiGru
from foretide.forecast.mixture.panel import KEPT
from foretide.forecast.series import carried
from foretide.records import Floats, Ints

HORIZON = 6
TRAIN_DAYS, VALIDATE_DAYS = 40, 10
_DAY_S = 86_400
# The networks that validation chooses among, the same for every trace.
CANDIDATES: tuple[dict[str, Any], ...] = (
    {"window": 288, "frame": 12},
    {"window": 288, "frame": 12, "learning_rate": 0.01},
    {"window": 288, "frame": 12, "anchored": True},
)


@dataclass(frozen=True, eq=False)
class Protocol:
    """A trace, split by days.

    Attributes
    ----------
    series : Series
        All of it, NaN where a bin is missing.
    validate_from, test_from : int
        Where the later parts begin.
    low, high : float
        The range of the training part, which errors are in units of.
    origins : array of int
        Values known at each test forecast: those after which the whole horizon was measured.
    """

    series: Series
    validate_from: int
    test_from: int
    low: float
    high: float
    origins: Ints

    @classmethod
    def of(cls, path: Path, stride: int) -> Protocol:
        series = read_history(path, "tuples", "datetime").series
        day = round(_DAY_S / series.step_s)
        train = series.values[: TRAIN_DAYS * day]
        first = (TRAIN_DAYS + VALIDATE_DAYS) * day
        ahead = np.lib.stride_tricks.sliding_window_view(series.values, HORIZON)
        origins = np.arange(first, series.values.size - HORIZON + 1)
        measured = np.isfinite(ahead[origins]).all(axis=1)
        low, high = float(np.nanmin(train)), float(np.nanmax(train))
        return cls(series, TRAIN_DAYS * day, first, low, high, origins[measured][::stride])

    def errors(self, paths: Floats) -> dict[str, float]:
        """Return the RMSE one step ahead, over all steps, and at the last one, in units of the training range."""
        ahead = np.lib.stride_tricks.sliding_window_view(self.series.values, HORIZON)[self.origins]
        squares = np.square((ahead - paths) / (self.high - self.low))
        return {
            "h1": float(np.sqrt(squares[:, 0].mean())),
            "all": float(np.sqrt(squares.mean())),
            "h6": float(np.sqrt(squares[:, -1].mean())),
        }


def choose_network(protocol: Protocol, quick: bool) -> tuple[BiGru, list[dict[str, Any]]]:
    """Train every candidate on the training days, and return the one with the least error on the validation days."""
    known = protocol.series.part(0, protocol.test_from)
    share = 1 - protocol.validate_from / protocol.test_from
    found, tried = [], []
    for candidate in CANDIDATES[:1] if quick else CANDIDATES:
        settings = {**candidate, **({"epochs": 4, "seeds": 1} if quick else {})}
        started = time.perf_counter()
        network = BiGru(steps=HORIZON, validation_share=share, **settings).fit(known)
        loss = float("inf") if network.trained is None else network.trained.validation_loss
        rmse = loss**0.5
        tried.append({**settings, "validation_rmse": rmse, "seconds": time.perf_counter() - started})
        found.append((loss, network))
    return min(found, key=lambda pair: pair[0])[1], tried


def network_paths(network: BiGru, protocol: Protocol) -> Floats:
    """Return the network's forecasts at every origin of the test period."""
    known = carried(protocol.series.values)
    size = network.trained.window if network.trained is not None else network.window
    windows = np.lib.stride_tricks.sliding_window_view(known, size)[protocol.origins - size]
    return network.predict_many(windows)


def naive_paths(protocol: Protocol) -> Floats:
    """Return the last value, at every origin."""
    last = carried(protocol.series.values)[protocol.origins - 1]
    return np.repeat(last[:, None], HORIZON, axis=1)


def auto_paths(network: BiGru, protocol: Protocol, progress: Progress) -> tuple[Floats, dict[str, float], float]:
    """Return what `auto` says at every origin of the test period, its mean weights, and milliseconds per forecast.

    It has learnt from the training and validation days; the network joins with what it says about the end of the
    validation days as its record. From then on `auto` sees one value after the other and trains anew as it goes.
    """
    series = protocol.series
    model = Auto(background=False).fit(series.part(0, protocol.test_from))
    expert = network.clone()
    if network.trained is not None:
        expert.adopt(network.trained)
        model.supply(expert.update(series.part(0, protocol.test_from - KEPT)))
    paths, known, weights = [], protocol.test_from, dict.fromkeys(model.weights(), 0.0)
    started = time.perf_counter()
    for row, origin in enumerate(protocol.origins.tolist()):
        model.update(series.part(known, origin))
        known = origin
        forecast = model.predict(HORIZON, levels=())
        paths.append(forecast.mean)
        for name, part in forecast.weights.items():
            weights[name] = weights.get(name, 0.0) + part / protocol.origins.size
        progress("auto", row + 1, protocol.origins.size)
    spent_ms = 1e3 * (time.perf_counter() - started) / protocol.origins.size
    leading = dict(sorted(weights.items(), key=lambda item: -item[1])[:6])
    return np.array(paths), leading, spent_ms
