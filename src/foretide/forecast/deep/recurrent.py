"""What the recurrent forecasters share: a network trained on a history's windows (SPEC B1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, PrivateAttr, model_validator

from foretide.errors import ConfigError, ForecastError
from foretide.extras import needs_extra
from foretide.forecast.base import Array, Forecaster, Series, bridged
from foretide.forecast.deep.settings import TrainingOptions, TrainingSettings
from foretide.forecast.deep.trained import Trained
from foretide.forecast.deep.weights import Cell
from foretide.forecast.deep.windows import Windows, cut_windows, split_windows
from foretide.forecast.mixture.lead_errors import LeadErrors
from foretide.forecast.scaling import scale_of
from foretide.forecast.training.archive import Arrays
from foretide.records import Floats

__all__ = ["Recurrent"]

# With fewer windows than these a network learns noise, and its validation error is noise too.
_FEWEST_TRAINING, _FEWEST_VALIDATION = 20, 5
# Validation errors with which the quantiles begin: as many as `LeadErrors` keeps per step ahead.
_FIRST_ERRORS = 128


class Recurrent(Forecaster, TrainingOptions):
    """A recurrent network from the past b values to the next f.

    `fit` trains on the whole history: the last `validation_share` of it stops the training and chooses among the seeds,
    the range of the part before becomes [0, 1]. `update` only moves the window; train again with `fit` now and then
    (B1: offline, refreshed periodically). A forecast is one forward pass without JAX; past `steps` it continues from
    its own forecasts. Quantiles begin with the errors on the validation part.

    On a history shorter than four windows the network's window is a quarter of the history, in whole frames; one that
    is not full yet is filled up with its first value.

    A history too short to train on, or a constant one, is not an error: the last value is repeated, and `untrained`
    says why.
    """

    cell: ClassVar[Cell]
    bidirectional: ClassVar[bool]
    cost: ClassVar[Literal["cheap", "dear"]] = "dear"
    offline: ClassVar[bool] = True
    needs: ClassVar[str | None] = "deep"
    spec: ClassVar[tuple[str, ...]] = ("B1",)
    check_settings: ClassVar[Mapping[str, Any]] = {
        "window": 6,
        "frame": 2,
        "steps": 2,
        "hidden": 4,
        "epochs": 3,
        "seeds": 1,
    }

    window: int = Field(default=288, ge=2, description="Past values it forecasts from (b), at most.")
    steps: int = Field(default=6, ge=1, description="Steps ahead it learns at once (f).")
    validation_share: float = Field(
        default=0.2, gt=0, lt=1, description="The last part of the history, which is held back from training."
    )
    _trained: Trained | None = PrivateAttr(default=None)
    _untrained: str | None = PrivateAttr(default="it was not trained yet; call fit")

    @model_validator(mode="after")
    def _frames_fill_the_window(self) -> Self:
        if self.window % self.frame:
            raise ConfigError("frame", expected=f"a divisor of the window of {self.window}", got=self.frame)
        return self

    @property
    def untrained(self) -> str | None:
        """Why the last value is repeated instead of a network's forecast; None once there is a network."""
        return self._untrained

    @property
    def trained(self) -> Trained | None:
        """The network with its scaling and validation error, if there is one."""
        return self._trained

    @property
    def training_settings(self) -> TrainingSettings:
        """Its settings as `train_windows` takes them."""
        options = {name: getattr(self, name) for name in TrainingOptions.model_fields}
        return TrainingSettings(cell=self.cell, bidirectional=self.bidirectional, **options)

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Run the network forward as often as the horizon takes."""
        if self._trained is None:
            return np.full(horizon, values[-1])
        # The network has a scaling of its own, fitted on rates as they were measured.
        known, window = bridged(self._series.values), self._trained.window
        path = np.concatenate((np.full(max(window - known.size, 0), known[0]), known[-window:]))
        while path.size < window + horizon:
            path = np.concatenate((path, self.predict_many(path[None, -window:])[0]))
        mean: Floats = path[window : window + horizon] / scale_of(known)
        return mean

    def predict_many(self, windows: npt.ArrayLike) -> Floats:
        """Return the next `steps` of many series, given a row of their last values each, without gaps.

        Rows have as many values as the network's window (`trained.window`). They need not be of the series it was
        trained on, but of about its range.
        """
        if self._trained is not None:
            return np.maximum(self._trained.predict_many(windows), 0.0)
        last = np.asarray(windows, dtype=np.float64)[:, -1:]
        return np.maximum(np.repeat(last, self.steps, axis=1), 0.0)

    def adopt(self, trained: Trained) -> Self:
        """Take a network that was trained elsewhere, for instance by `train_windows` on a cluster.

        Raises
        ------
        ForecastError
            When it is of another kind or shape than the settings say.
        """
        weights = trained.weights
        got = (weights.cell, len(weights.recurrent), trained.steps, weights.recurrent.shape[1])
        expected = (self.cell, 2 if self.bidirectional else 1, self.steps, self.hidden)
        if got != expected:
            raise ForecastError(
                f"network for {self.name!r}: expected cell, directions, steps, hidden units {expected}, got {got}; "
                "train it again, or set what it was trained with"
            )
        if trained.window > self.window:
            raise ForecastError(
                f"network for {self.name!r}: expected a window of at most {self.window}, got {trained.window}; "
                f"set window to that"
            )
        self._trained, self._untrained = trained, None
        return self

    def _train(self, history: Series) -> None:
        self._trained = None
        frames = max(min(self.window, history.values.size // 4) // self.frame, 1)
        windows = cut_windows(history.values, frames * self.frame, self.steps)
        boundary = round(history.values.size * (1 - self.validation_share))
        train, later = split_windows(windows, boundary)
        self._untrained = self._why_not(history, train, later)
        if self._untrained is None:
            self.adopt(self._best_network(train, later))
            self._begin_errors(history, later)

    def _why_not(self, history: Series, train: Windows, later: Windows) -> str | None:
        if len(train) < _FEWEST_TRAINING or len(later) < _FEWEST_VALIDATION:
            return (
                f"a history of {history.values.size} values gives {len(train)} windows to train on and {len(later)} to "
                f"validate with; it takes {_FEWEST_TRAINING} and {_FEWEST_VALIDATION}"
            )
        if np.ptp(train.inputs / 2) == 0 and np.ptp(train.targets / 2) == 0:
            return "the history is constant"
        return None

    def _best_network(self, train: Windows, later: Windows) -> Trained:
        # Imported here, because the forecaster can be made, loaded and used without JAX.
        with needs_extra("deep", f"training of forecaster {self.name!r}"):
            from foretide.forecast.deep.training import train_windows
        validation = (later.inputs, later.targets)
        return train_windows(train.inputs, train.targets, validation, self.training_settings)

    def _begin_errors(self, history: Series, later: Windows) -> None:
        recent = later.where(later.origins >= later.origins[-1] - _FIRST_ERRORS)
        self._errors = LeadErrors()
        means = dict(zip((recent.origins + 1).tolist(), self.predict_many(recent.inputs), strict=True))
        for position in range(min(means), history.values.size):
            if position in means:
                self._errors.remember(position, means[position])
            self._errors.observe(position, history.values[position : position + 1])

    def _learnt(self) -> dict[str, Array]:
        return {} if self._trained is None else self._trained.arrays()

    def _restore(self, arrays: Arrays) -> None:
        if arrays:
            self.adopt(Trained.from_arrays(self.cell, arrays))
