"""Well-known automatic models of statsforecast (extra ``baselines``), for comparison."""

from __future__ import annotations

import logging
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from foretide.extras import needs_extra
from foretide.forecast.base import Forecaster
from foretide.forecast.gaussian import is_flat, random_walk
from foretide.forecast.models.seasonal import find_season
from foretide.forecast.zero.quantiles import level_weights
from foretide.records import Floats

__all__ = ["AutoArima", "AutoEts", "AutoTheta", "Mstl"]

_LOG = logging.getLogger(__name__)
# With fewer values none of them can be fitted.
_FEWEST = 12


class _Baseline(Forecaster):
    """A model of statsforecast, fitted to the window at every forecast.

    Where it cannot be fitted (fewer than twelve values, or a search that fails) the window counts as a random walk.
    """

    spec: ClassVar[tuple[str, ...]] = ()
    cost: ClassVar[Literal["cheap", "dear"]] = "dear"
    needs: ClassVar[str | None] = "baselines"
    check_settings: ClassVar[Mapping[str, Any]] = {"window": 30, "season": 1}

    window: int = Field(default=480, ge=1, description="Observations that it is fitted to.")
    season: int | None = Field(default=None, ge=1, description="Values in a season; unset, found by autocorrelation.")

    @abstractmethod
    def _model(self, season: int) -> Any:
        """Return the library's model."""

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Return the mean alone."""
        return self.mean_and_quantiles(values, horizon, np.empty(0))[0]

    def mean_and_quantiles(self, values: Floats, horizon: int, levels: Floats) -> tuple[Floats, Floats]:
        """Fit the model, and ask for the intervals that the levels are ends of."""
        found = None if values.size < _FEWEST or is_flat(values) else self._asked(values, horizon, levels)
        if found is not None and all(np.isfinite(part).all() for part in found):
            return found
        mean, deviation = random_walk(values, horizon)
        # A normal curve has its .5 and .8413 quantiles a deviation apart.
        return mean, level_weights((0.5, 0.8413447460685429), levels) @ np.stack((mean, mean + deviation))

    def _asked(self, values: Floats, horizon: int, levels: Floats) -> tuple[Floats, Floats] | None:
        season = self.season or find_season(values) or 1
        sides = np.round(100 * np.abs(2 * levels - 1), 6)
        wanted = sorted({float(side) for side in sides if side > 0})
        with needs_extra("baselines", f"forecaster {self.name!r}"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                told = self._model(season).forecast(y=values, h=horizon, level=wanted or None)
            except (ArithmeticError, ValueError, IndexError, np.linalg.LinAlgError) as error:
                _LOG.debug("%s could not be fitted to %d values: %s", self.name, values.size, error)
                return None
        mean = np.asarray(told["mean"], dtype=np.float64)
        rows = [
            mean if side == 0 else np.asarray(told[f"{'hi' if level > 0.5 else 'lo'}-{side}"], dtype=np.float64)
            for level, side in zip(levels.tolist(), sides.tolist(), strict=True)
        ]
        return mean, np.stack(rows) if rows else np.empty((0, horizon))


class AutoEts(_Baseline):
    """Choose among the exponential smoothing models by information criterion, as statsforecast does."""

    name: ClassVar[str] = "auto-ets"
    summary: ClassVar[str] = "statsforecast's AutoETS, for comparison"

    def _model(self, season: int) -> Any:
        from statsforecast.models import AutoETS

        return AutoETS(season_length=season)


class AutoArima(_Baseline):
    """Choose an ARIMA model step by step, as statsforecast does; with a season one forecast takes half a minute."""

    name: ClassVar[str] = "auto-arima"
    summary: ClassVar[str] = "statsforecast's AutoARIMA, for comparison"

    season: int | None = Field(default=1, ge=1, description="Values in a season; unset, found by autocorrelation.")

    def _model(self, season: int) -> Any:
        from statsforecast.models import AutoARIMA

        return AutoARIMA(season_length=season)


class Mstl(_Baseline):
    """Take the season out by MSTL, forecast what is left by exponential smoothing, as statsforecast does."""

    name: ClassVar[str] = "mstl"
    summary: ClassVar[str] = "statsforecast's MSTL with AutoETS, for comparison"

    def _model(self, season: int) -> Any:
        from statsforecast.models import MSTL, AutoETS

        return MSTL(season_length=season) if season > 1 else AutoETS(model="ZZN")


class AutoTheta(_Baseline):
    """Choose among the variants of the Theta method, as statsforecast does."""

    name: ClassVar[str] = "auto-theta"
    summary: ClassVar[str] = "statsforecast's AutoTheta, for comparison"

    def _model(self, season: int) -> Any:
        from statsforecast.models import AutoTheta as Theta

        return Theta(season_length=season)
