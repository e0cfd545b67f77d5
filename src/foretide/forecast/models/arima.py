"""Autoregression with moving averages on differences (SPEC B1 and I5, ARIMA)."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from foretide.forecast.base import Array
from foretide.forecast.gaussian import GaussianForecaster, is_flat, random_walk
from foretide.forecast.refitting import RefittingForecaster
from foretide.records import Floats

__all__ = ["Arima"]

_LOG = logging.getLogger(__name__)
# The orders that compete when none is set, the most usual first.
_ORDERS = ((2, 1, 1), (0, 1, 1), (1, 0, 0), (1, 1, 1), (2, 0, 1))

_Few = Annotated[int, Field(ge=0, le=5)]
_Once = Annotated[int, Field(ge=0, le=2)]


class Arima(RefittingForecaster, GaussianForecaster):
    """Fit an ARIMA model to the window now and then; in between, filter the window with its coefficients.

    The likelihood and the filter are those of statsmodels. Where it cannot be fitted (a window of fewer than ten
    values, or a search that fails) the window counts as a random walk.
    """

    name: ClassVar[str] = "arima"
    summary: ClassVar[str] = "an ARIMA model of the window, by maximum likelihood"
    spec: ClassVar[tuple[str, ...]] = ("B1", "I5")
    cost: ClassVar[Literal["cheap", "dear"]] = "dear"
    needs: ClassVar[str | None] = "statistics"
    check_settings: ClassVar[Mapping[str, Any]] = {"max_iter": 1, "window": 20, "order": (1, 1, 0)}

    order: tuple[_Few, _Once, _Few] | Literal["auto"] = Field(
        default=(2, 1, 1), description="p, d and q; `auto` takes the best of five by information criterion."
    )
    max_iter: int = Field(default=50, ge=1, description="Steps of the search for the coefficients at most.")

    def learn(self, values: Floats) -> dict[str, Array]:
        """Return order, coefficients and units; no coefficients if it cannot be fitted."""
        units = np.array([values.mean(), values.std()])
        nothing = {"order": np.zeros(3, dtype=np.int64), "coefficients": np.empty(0), "units": units}
        if values.size < 10 or is_flat(values):
            return nothing
        z = (values - units[0]) / units[1]
        fits = [self._fitted(z, order) for order in (_ORDERS if self.order == "auto" else (self.order,))]
        known = [fit for fit in fits if fit is not None]
        if not known:
            return nothing
        _, order, coefficients = min(known, key=lambda fit: fit[0])
        return {"order": np.array(order, dtype=np.int64), "coefficients": coefficients, "units": units}

    def forecast_moments(self, values: Floats, horizon: int) -> tuple[Floats, Floats]:
        """Filter the window and go on."""
        state = self.state_for(values)
        if not state["coefficients"].size or values.size < 10 or is_flat(values):
            return random_walk(values, horizon)
        center, deviation = state["units"].tolist()
        found = self._ahead((values - center) / deviation, state, horizon)
        if found is None:
            return random_walk(values, horizon)
        return found[0] * deviation + center, found[1] * deviation

    def _fitted(self, z: Floats, order: tuple[int, int, int]) -> tuple[float, tuple[int, int, int], Floats] | None:
        try:
            with _quiet():
                found = _model(z, order).fit(disp=False, maxiter=self.max_iter)
        except (ValueError, np.linalg.LinAlgError) as error:
            _LOG.debug("ARIMA%s cannot be fitted: %s", order, error)
            return None
        usable = np.isfinite(found.params).all() and np.isfinite(found.aic)
        return (float(found.aic), order, np.asarray(found.params)) if usable else None

    def _ahead(self, z: Floats, state: Mapping[str, Array], horizon: int) -> tuple[Floats, Floats] | None:
        try:
            with _quiet():
                p, d, q = state["order"].tolist()
                ahead = _model(z, (p, d, q)).filter(state["coefficients"]).get_forecast(horizon)
                mean, deviation = np.asarray(ahead.predicted_mean), np.asarray(ahead.se_mean)
        except (ValueError, np.linalg.LinAlgError) as error:
            _LOG.debug("ARIMA cannot go on: %s", error)
            return None
        return (mean, deviation) if np.isfinite(mean).all() and np.isfinite(deviation).all() else None


def _model(z: Floats, order: tuple[int, int, int]) -> Any:
    from statsmodels.tsa.statespace.sarimax import SARIMAX

    return SARIMAX(z, order=order, trend="c" if order[1] == 0 else "n")


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what statsmodels says about starting values and unfinished searches: the fallback deals with both."""
    from statsmodels.tools.sm_exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        for category in (ConvergenceWarning, UserWarning, RuntimeWarning):
            warnings.simplefilter("ignore", category)
        yield
