"""Baselines (SPEC I5): ARIMA, tuned support vector regression and the last value, one series at a time.

They are fitted once on the training part, then predict every later value one step ahead from the values before it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from itertools import product
from types import MappingProxyType

import numpy as np

from foretide.health.dataset import MachineTable
from foretide.records import Floats

__all__ = ["BASELINES", "arima_ahead", "last_value_ahead", "predict_each", "svr_ahead"]

# The orders that compete by information criterion, as an automatic ARIMA would search them.
_ORDERS = ((1, 0, 0), (2, 0, 0), (1, 0, 1), (2, 0, 1), (0, 1, 1), (1, 1, 1), (2, 1, 1))
# What support vectors are tuned over, in units of the series' deviation, and the later part that chooses.
_LAGS, _COSTS, _TUBES, _CHOOSING = (4, 12), (0.1, 1.0, 10.0, 100.0), (0.01, 0.1), 0.2

#: Predicts every value of a series from the ones before, having learnt from the first so many.
Ahead = Callable[[Floats, int], Floats]


def last_value_ahead(values: Floats, train: int) -> Floats:
    """Predict that nothing changes; NaN for the first value."""
    return np.concatenate((np.full(1, np.nan), values[:-1]))


def arima_ahead(values: Floats, train: int) -> Floats:
    """Predict by the ARIMA model that fits the first `train` values best, by information criterion (AIC)."""
    from statsmodels.tsa.statespace.sarimax import SARIMAX
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    center, deviation = float(values[:train].mean()), float(values[:train].std()) or 1.0
    z = (values - center) / deviation
    best = None
    # The matrices are tiny: threads would only wait for one another (measured: 25 times as long on a busy machine).
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for order in _ORDERS:
            model = SARIMAX(z[:train], order=order, trend="c" if order[1] == 0 else "n")
            try:
                fit = model.fit(disp=False, maxiter=50)
            except (ValueError, IndexError, np.linalg.LinAlgError):
                continue
            if np.isfinite(fit.aic) and (best is None or fit.aic < best.aic):
                best = fit
        if best is None:
            return last_value_ahead(values, train)
        # The coefficients stay, the values go on: one step ahead at a time.
        ahead = np.asarray(best.apply(z).predict(), dtype=np.float64)
    found: Floats = ahead * deviation + center
    found[0] = np.nan
    return found


def svr_ahead(values: Floats, train: int) -> Floats:
    """Predict by support vectors on past values, all in units of their deviation; tuned where that looks ahead best.

    Lags, cost and tube are chosen on the last fifth of the training part; then all of it is learnt from.
    """
    from sklearn.svm import SVR

    center, deviation = float(values[:train].mean()), float(values[:train].std()) or 1.0
    z = (values - center) / deviation
    chosen = train - max(1, round(_CHOOSING * train))

    def predicted(lags: int, cost: float, tube: float, learnt: int) -> Floats:
        rows = np.lib.stride_tricks.sliding_window_view(z, lags)[:-1]
        machine = SVR(C=cost, epsilon=tube).fit(rows[: learnt - lags], z[lags:learnt])
        return np.concatenate((np.full(lags, np.nan), machine.predict(rows)))

    def error(choice: tuple[int, float, float]) -> float:
        return float(np.square(predicted(*choice, chosen)[chosen:train] - z[chosen:train]).mean())

    best = min(product([lags for lags in _LAGS if lags < chosen // 2] or [2], _COSTS, _TUBES), key=error)
    return predicted(*best, train) * deviation + center


#: The baselines by name.
BASELINES: Mapping[str, Ahead] = MappingProxyType(
    {"arima": arima_ahead, "svr": svr_ahead, "last value": last_value_ahead}
)


def predict_each(table: MachineTable, train: int, ahead: Ahead) -> Floats:
    """Predict the targets of every worker by a method for single series; over steps, workers and targets."""
    targets = table.targets()
    found = np.empty_like(targets)
    for worker in range(targets.shape[1]):
        for target in range(targets.shape[2]):
            found[:, worker, target] = ahead(targets[:, worker, target], train)
    return found
