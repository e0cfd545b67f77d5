"""The baselines of the paper (SPEC I5): ARIMA and support vector regression, one series at a time.

Both are fitted once on the training part, then predict every later value one step ahead from the values before it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from foretide.health.dataset import MachineTable
from foretide.records import Floats

__all__ = ["BASELINES", "arima_ahead", "last_value_ahead", "predict_each", "svr_ahead"]

# The orders that compete by information criterion, as an automatic ARIMA would search them.
_ORDERS = ((1, 0, 0), (2, 0, 0), (1, 0, 1), (2, 0, 1), (0, 1, 1), (1, 1, 1), (2, 1, 1))
_LAGS = 12

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
    """Predict by support vectors on the last twelve values, min-max scaled, with scikit-learn's defaults."""
    from sklearn.svm import SVR

    low, span = float(values[:train].min()), float(np.ptp(values[:train])) or 1.0
    scaled = (values - low) / span
    lags = min(_LAGS, train // 3)
    rows = np.lib.stride_tricks.sliding_window_view(scaled, lags)[:-1]
    machine = SVR().fit(rows[: train - lags], scaled[lags:train])
    found = np.full(len(values), np.nan)
    found[lags:] = machine.predict(rows) * span + low
    return found


#: The baselines by name.
BASELINES: Mapping[str, Ahead] = MappingProxyType({"arima": arima_ahead, "svr": svr_ahead})


def predict_each(table: MachineTable, train: int, ahead: Ahead) -> Floats:
    """Predict the targets of every worker by a method for single series; over steps, workers and targets."""
    targets = table.targets()
    found = np.empty_like(targets)
    for worker in range(targets.shape[1]):
        for target in range(targets.shape[2]):
            found[:, worker, target] = ahead(targets[:, worker, target], train)
    return found
