"""The forecaster `zero`: no training on the stream, good from its first values on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PrivateAttr

from foretide.forecast.base import LEVELS as ASKED
from foretide.forecast.base import Forecaster
from foretide.forecast.gaussian import is_flat
from foretide.forecast.scaling import rates, scale_of, scaled
from foretide.forecast.series import Series, bridged
from foretide.forecast.training.archive import Arrays
from foretide.forecast.zero.loading import load_weights
from foretide.forecast.zero.quantiles import level_weights
from foretide.forecast.zero.reader import Reader
from foretide.forecast.zero.shape import CONTEXT, LEADS, LEVELS, STEP_LEVELS
from foretide.records import Floats, Forecast

__all__ = ["Zero"]

_FIRST_STEP = len(LEVELS) + 1


class Zero(Forecaster):
    """Expect what series that begin like this one went on with, among millions of made-up ones.

    A causal network of .81 M (`full`) or .16 M numbers (`small`), trained on made-up series alone; `weights/card.json`
    says how, and how good it was. It looks back on the last 512 values directly, and further through running means.

    >>> round(float(Zero().fit([10.0, 20.0] * 30).predict(1).mean[0]))
    10
    """

    name: ClassVar[str] = "zero"
    summary: ClassVar[str] = "a network that has seen made-up series alone, ready from the first values on"
    spec: ClassVar[tuple[str, ...]] = ()

    window: int = Field(
        default=CONTEXT, ge=1, description="Observations that it keeps; a fit reads as many, or 512 if that is more."
    )
    size: Literal["full", "small"] = Field(default="full", description="Which of the two networks.")
    tuned: str | None = Field(
        default=None, description="Weights that `foretide forecast tune` wrote, in place of those of the package."
    )
    _reader: Reader | None = PrivateAttr(default=None)

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Return the median of each step."""
        return self.mean_and_quantiles(values, horizon, np.empty(0))[0]

    def mean_and_quantiles(self, values: Floats, horizon: int, levels: Floats) -> tuple[Floats, Floats]:
        """Return the medians, and quantiles between and beyond those that the network tells."""
        if is_flat(values):
            return np.full(horizon, values[-1]), np.full((levels.size, horizon), values[-1])
        steps = np.maximum.accumulate(self._at(np.arange(1, horizon + 1), slice(_FIRST_STEP, None)), axis=0)
        return steps[1], level_weights(STEP_LEVELS, levels) @ steps

    def predict(self, horizon: int, levels: Sequence[float] = ASKED) -> Forecast:
        """Return the forecast of the next `horizon` steps, also with quantiles of their mean."""
        found = super().predict(horizon, levels)
        wanted, (values, scale) = np.array(sorted(found.quantiles)), scaled(bridged(self._series.values))
        if is_flat(values):
            means = np.full(wanted.size, values[-1])
        else:
            told = np.maximum.accumulate(self._at(np.array([horizon]), slice(0, len(LEVELS))), axis=0)
            means = level_weights(LEVELS, wanted) @ told[:, 0]
        return replace(found, mean_quantiles=dict(zip(wanted.tolist(), rates(means, scale).tolist(), strict=True)))

    def _train(self, history: Series) -> None:
        self._reader = None
        read = history.values[-max(self.window, CONTEXT) :]
        self._observe(Series(read, history.step_s, history.ended_at_s, history.name))

    def _observe(self, new: Series) -> None:
        if self._reader is None:
            self._reader = Reader(load_weights(self.size, self.tuned))
        self._reader.read(new.values)

    def _learnt(self) -> dict[str, Any]:
        return {} if self._reader is None else self._reader.state()

    def _restore(self, arrays: Arrays) -> None:
        self._reader = None
        if arrays:
            self._reader = Reader(load_weights(self.size, self.tuned))
            self._reader.restore(arrays)

    def _at(self, leads: Any, outputs: slice) -> Floats:
        """Return outputs at any leads, between those that the network tells; beyond the last, the last.

        They are scaled as the values that a model is given.
        """
        assert self._reader is not None, "a forecaster predicts after it has seen a value"
        told = self._reader.told[:, outputs] * (self._reader.unit / scale_of(bridged(self._series.values)))
        place = np.log(np.minimum(leads, LEADS[-1]))
        return np.stack([np.interp(place, np.log(LEADS), column) for column in told.T])
