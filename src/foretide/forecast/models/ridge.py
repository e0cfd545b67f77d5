"""Ridge regression on lags and seasonal lags."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from foretide.errors import ConfigError
from foretide.forecast.base import Forecaster
from foretide.forecast.gaussian import is_flat
from foretide.forecast.lagged import lag_rows, running_mean
from foretide.records import Floats, Ints

__all__ = ["Ridge", "solve_ridge"]

# Rows below which a regression is not worth fitting.
_ROWS = 8


class Ridge(Forecaster):
    r"""Regress each step ahead on the last values, directly, shrunk towards the last value.

    For each lead h, :math:`y_{t+h} - y_t` is regressed on how far the earlier lags, their mean, the mean so far and
    (with a season m) the values one and two seasons before :math:`t + h` are from :math:`y_t`. The penalty λ counts in
    units of each feature's mean square; the greater it is, the closer the forecast stays to the last value. Leads for
    which the window holds too few rows repeat the longest lead it has.

    >>> Ridge(lags=2, penalty=1e-9).fit([1.0, 3.0] * 20).predict(3).mean.round(3)
    array([1., 3., 1.])
    """

    name: ClassVar[str] = "ridge"
    summary: ClassVar[str] = "ridge regression of each step ahead on lags and seasonal lags"
    spec: ClassVar[tuple[str, ...]] = ("P6",)

    lags: int = Field(default=12, ge=1, description="Past values that it looks at.")
    season: int | None = Field(default=None, ge=2, description="Values in one season; unset, no season.")
    penalty: float = Field(default=0.05, gt=0, description="λ, in units of the features' mean squares.")

    @model_validator(mode="after")
    def _window_holds_seasons(self) -> Self:
        if self.season is not None and self.window < 3 * self.season:
            raise ConfigError("window", expected=f"at least 3 seasons ({3 * self.season} values)", got=self.window)
        return self

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Solve one small system for each lead, all at once, and apply them to the last origin."""
        lags = max(min(self.lags, values.size // 4), 1)
        seasons = self._seasons(values.size)
        first = max(lags - 1, seasons * (self.season or 0))
        longest = min(horizon, values.size - first - _ROWS)
        if longest < 1 or is_flat(values):
            return np.full(horizon, values[-1])
        leads = np.arange(1, longest + 1)[:, None]
        origins = np.arange(first, values.size)
        features = self._features(values, lags, leads, origins, seasons)
        known = origins + leads < values.size
        changes = values[np.minimum(origins + leads, values.size - 1)] - values[origins]
        coefficients = solve_ridge(features * known[:, :, None], changes, self.penalty)
        steps: Floats = values[-1] + (features[:, -1] * coefficients).sum(axis=1)
        mean: Floats = steps[np.minimum(np.arange(horizon), longest - 1)]
        return mean

    def _features(self, values: Floats, lags: int, leads: Ints, origins: Ints, seasons: int) -> Floats:
        """Return the features by lead and origin: how far other values are from the origin's."""
        past = lag_rows(values, lags)[origins[0] - lags + 1 :]
        common = (past[:, 1:], past.mean(axis=1, keepdims=True), running_mean(values)[origins, None])
        shape = (len(leads), origins.size, lags + 1)
        columns = [np.broadcast_to(np.concatenate(common, axis=1), shape)]
        for number in range(seasons):
            season = self.season or 0
            back = (-(-leads // season) + number) * season - leads
            columns.append(values[origins - back][:, :, None])
        away: Floats = np.concatenate(columns, axis=2) - past[:, :1]
        return away

    def _seasons(self, size: int) -> int:
        """Return how many seasons back it looks: two, or as many as leave another one to learn from."""
        return 0 if self.season is None else min(2, max(size // self.season - 1, 0))


def solve_ridge(features: Floats, targets: Floats, penalty: float) -> Floats:
    r"""Return the coefficients of each regression of a stack, :math:`(X^T X + \lambda diag(X^T X))^{-1} X^T y`.

    Parameters
    ----------
    features : array over regressions, rows, features
        Rows of zeros have no effect.
    targets : array over regressions, rows
        What the features are to give.
    penalty : float
        λ, in units of each feature's mean square.

    Examples
    --------
    >>> solve_ridge(np.array([[[1.0], [2.0]]]), np.array([[2.0, 4.0]]), penalty=1.0)
    array([[1.]])
    """
    turned = features.transpose(0, 2, 1)
    gram = turned @ features
    own = np.einsum("hpp->hp", gram)
    # Where all features of a regression are 0 so are its coefficients.
    own += penalty * own + 1e-12 * own.max(axis=1, keepdims=True) + 1e-300
    return np.asarray(np.linalg.solve(gram, turned @ targets[:, :, None])[:, :, 0], dtype=np.float64)
