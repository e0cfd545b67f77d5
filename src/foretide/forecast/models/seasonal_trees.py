"""Boosted trees on lags, seasonal lags and the time of the season (extra ``boost``), for long series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PrivateAttr

from foretide.forecast.base import Array, Forecaster, Series
from foretide.forecast.models.seasonal import SeasonalRegression, find_cycle
from foretide.forecast.scaling import scale_of
from foretide.forecast.series import carried
from foretide.forecast.training.archive import Arrays
from foretide.records import Floats, Ints

__all__ = ["SeasonalTrees"]

_LAGS = 12
_CYCLES = 6
_FAR = (15, 18, 24, 30, 36)
_AROUND = 2
_MEAN = 12
# With fewer rows than this trees learn noise.
_ROWS = 300


class SeasonalTrees(Forecaster):
    """Learn by boosted trees how far each step ahead will be from the last value, and from a regression's forecast.

    The forecast is the mean of the two, which err differently. Features are what `SeasonalRegression` says, and, all as
    distances from the mean of the last short cycle (such as three values that repeat in bursts): the last values, the
    values at the same place of earlier cycles, and those one, two, three and seven seasons before; then how much the
    series swings, and the time of season and cycle. Each lead up to `leads` has trees of its own; longer horizons go on
    with the last one.

    `fit` trains and may take minutes; `update` only moves the window. On a history too short to train on, the last
    value is repeated.
    """

    name: ClassVar[str] = "seasonal-trees"
    summary: ClassVar[str] = "boosted trees on lags, seasonal lags and the time of the season, for long histories"
    spec: ClassVar[tuple[str, ...]] = ("P6",)
    cost: ClassVar[Literal["cheap", "dear"]] = "dear"
    needs: ClassVar[str | None] = "boost"
    check_settings: ClassVar[Mapping[str, Any]] = {"trees": 5, "leads": 2}

    window: int = Field(default=16_384, ge=1, description="Observations that it learns from.")
    leads: int = Field(default=6, ge=1, le=64, description="Steps ahead that have trees of their own.")
    trees: int = Field(default=300, ge=1, description="Trees per lead, of each of the two kinds.")
    learning_rate: float = Field(default=0.06, gt=0, le=1, description="Weight of each tree.")
    leaves: int = Field(default=15, ge=2, description="Leaves of a tree at most.")
    seed: int = Field(default=1, ge=0, lt=2**31, description="Seed of the trees.")
    _learnt_forest: _Forest | None = PrivateAttr(default=None)

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Add the expected differences to the last value."""
        known = carried(self._series.values)
        if self._learnt_forest is None or known.size <= self._learnt_forest.reach:
            return np.full(horizon, values[-1])
        path = self._learnt_forest.paths(known, self._seen - known.size, np.array([known.size - 1]))[0]
        # `values` may be scaled, what was learnt is not.
        mean: Floats = path[np.minimum(np.arange(horizon), self.leads - 1)] / scale_of(known)
        return mean

    def _train(self, history: Series) -> None:
        known = carried(self._series.values)
        self._learnt_forest = None
        if known.size < _ROWS or not np.isfinite(self._series.values).any():
            return
        settings = {
            "objective": "regression",
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": 60,
            "feature_fraction": 0.4,
            "bagging_fraction": 0.7,
            "bagging_freq": 1,
            "lambda_l2": 10.0,
            "max_bin": 63,
            "seed": self.seed,
            "deterministic": True,
            "force_col_wise": True,
            "num_threads": 1,
            "verbose": -1,
        }
        self._learnt_forest = _Forest.learn(known, self._seen - known.size, self.leads, (settings, self.trees))

    def _learnt(self) -> dict[str, Array]:
        return {} if self._learnt_forest is None else self._learnt_forest.arrays()

    def _restore(self, arrays: Arrays) -> None:
        self._learnt_forest = _Forest.of(arrays) if arrays else None


@dataclass(frozen=True, eq=False)
class _Forest:
    """Two sets of trees for every lead, from the last value and from the regression's forecast to the actual value."""

    regression: SeasonalRegression
    cycle: int
    boosters: tuple[tuple[Any, Any], ...]

    @classmethod
    def learn(cls, known: Floats, first: int, leads: int, settings: tuple[dict[str, Any], int]) -> _Forest | None:
        import lightgbm

        regression = SeasonalRegression.learn(known, first, leads)
        if regression is None:
            return None
        blank = cls(regression, find_cycle(known / regression.scale), ())
        origins = np.arange(blank.reach, known.size - leads)
        if origins.size < _ROWS:
            return None
        scaled, lines = known / regression.scale, regression.paths(known, first, origins) / regression.scale
        boosters = []
        for lead in range(1, leads + 1):
            rows = blank._features(scaled, first, origins, lead, lines[:, lead - 1])
            pair = []
            for start in (scaled[origins], lines[:, lead - 1]):
                data = lightgbm.Dataset(rows, scaled[origins + lead] - start, params={"verbose": -1, "max_bin": 63})
                pair.append(lightgbm.train(settings[0], data, num_boost_round=settings[1]))
            boosters.append((pair[0], pair[1]))
        return cls(regression, blank.cycle, tuple(boosters))

    @property
    def reach(self) -> int:
        """How many values an origin must have before it."""
        far = max(*_FAR, _CYCLES * self.cycle) + 2 * self.cycle
        back = int(self.regression.seasons.max(initial=0)) * self.regression.season
        return max(self.regression.reach, far, back + 2 * self.cycle + _AROUND)

    def paths(self, known: Floats, first: int, origins: Ints) -> Floats:
        """Return the forecasts of every lead at places `origins`, of shape (origins, leads)."""
        start = int(origins.min()) - self.reach
        part, first, places = known[start:], first + start, origins - start
        lines = self.regression.paths(part, first, places) / self.regression.scale
        scaled = part / self.regression.scale
        found = np.empty(lines.shape)
        for lead, pair in enumerate(self.boosters, start=1):
            line = lines[:, lead - 1]
            rows = self._features(scaled, first, places, lead, line)
            from_last, from_line = (booster.predict(rows, num_threads=1) for booster in pair)
            found[:, lead - 1] = 0.5 * (scaled[places] + from_last + line + from_line)
        paths: Floats = np.clip(found, 0.0, 1.5) * self.regression.scale
        return paths

    def _features(self, values: Floats, first: int, origins: Ints, lead: int, line: Floats) -> Floats:
        sums, cycle = np.concatenate(([0.0], np.cumsum(values))), self.cycle

        def mean(at: Ints, size: int = cycle) -> Floats:
            """Return the mean of the `size` values up to and with `at`."""
            found: Floats = (sums[at + 1] - sums[at + 1 - size]) / size
            return found

        level, ahead = mean(origins), origins + lead
        columns = [values[origins], level, mean(origins, _MEAN), line - level, line]
        columns += [values[origins - lag] - level for lag in range(_LAGS)]
        columns += [mean(origins - lag) - level for lag in _FAR]
        same = origins - (-lead) % cycle
        columns += [values[same - k * cycle] - mean(same - k * cycle) for k in range(_CYCLES)]
        columns += self._seasonal(values, origins, lead, mean, level)
        recent = np.stack([values[origins - lag] for lag in range(2 * _MEAN)])
        columns += [recent[: _MEAN // 2].std(axis=0), recent.std(axis=0)]
        number, season = first + ahead, max(self.regression.season, 1)
        columns += [
            np.asarray(part, dtype=np.float64) for part in (number % season, number // season % 7, number % cycle)
        ]
        return np.stack(columns, axis=1)

    def _seasonal(self, values: Floats, origins: Ints, lead: int, mean: Any, level: Floats) -> list[Floats]:
        columns: list[Floats] = []
        ahead = origins + lead
        for back in self.regression.seasons.tolist():
            shift = back * self.regression.season
            around = [np.minimum(ahead - shift + k, origins) for k in range(-_AROUND, _AROUND + 1)]
            columns += [values[place] - level for place in around]
            then = np.minimum(ahead - shift, origins)
            before = mean(origins - shift)
            columns += [mean(then) - before, before - level, values[then] - mean(then)]
        return columns

    def arrays(self) -> dict[str, Array]:
        found: dict[str, Array] = {f"regression.{name}": array for name, array in self.regression.arrays().items()}
        found["cycle"] = np.array(self.cycle)
        for number, booster in enumerate(chain.from_iterable(self.boosters)):
            found[f"trees.{number:04d}"] = np.frombuffer(booster.model_to_string().encode(), dtype=np.uint8)
        return found

    @classmethod
    def of(cls, arrays: Arrays) -> _Forest:
        import lightgbm

        parts = {name.removeprefix("regression."): array for name, array in arrays.items() if "regression." in name}
        texts = [arrays[name].tobytes().decode() for name in sorted(arrays) if name.startswith("trees.")]
        boosters = [lightgbm.Booster(model_str=text) for text in texts]
        pairs = tuple(zip(boosters[::2], boosters[1::2], strict=True))
        return cls(SeasonalRegression.of(parts), int(arrays["cycle"]), pairs)
