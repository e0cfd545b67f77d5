"""Training the expensive experts of `auto`, as a task that can run in the background."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from foretide.forecast.base import Forecaster, Series
from foretide.forecast.models.seasonal import SeasonalRegression
from foretide.forecast.series import carried

__all__ = ["Study", "study"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Study:
    """The outcome of one.

    Parameters
    ----------
    seen : int
        The number of the last value that was learnt from.
    seasonal : SeasonalRegression, optional
        The regression, if the series is long enough.
    models : mapping of str to Forecaster
        The trained models by name.
    """

    seen: int
    seasonal: SeasonalRegression | None
    models: Mapping[str, Forecaster]


def study(history: Series, seen: int, ahead: int, names: tuple[str, ...]) -> Callable[[], Study]:
    """Return the task that trains the regression and the models of these names on `history`, which ends with `seen`."""

    def task() -> Study:
        known = carried(history.values)
        seasonal = SeasonalRegression.learn(known, seen - known.size, ahead)
        return Study(seen, seasonal, {name: model for name in names if (model := _trained(name, history)) is not None})

    return task


def _trained(name: str, history: Series) -> Forecaster | None:
    """Return the model called `name` after training; None if it fails, which does not affect the others."""
    from foretide.forecast.registry import make_forecaster  # the registry knows `auto`, which knows this module

    try:
        return make_forecaster(name).fit(history)
    except Exception:
        _LOG.exception("expert %r of %r could not be trained and is left out", name, history.name)
        return None
