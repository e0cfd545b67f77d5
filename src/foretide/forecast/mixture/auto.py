"""The product's default: an online mixture of many models, with calibrated quantiles."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, PrivateAttr, field_validator

from foretide.errors import ConfigError, ForecastError
from foretide.forecast.background import Job
from foretide.forecast.base import LEVELS, Array, Forecaster, Series
from foretide.forecast.calendar.profile import DayProfile
from foretide.forecast.calendar.settings import Calendar
from foretide.forecast.gaussian import is_flat
from foretide.forecast.mixture.cheap_experts import CHEAP_EXPERTS, CHEAP_TABLE, cheap_names, damped_sums
from foretide.forecast.mixture.lead_errors import stand_in_offsets
from foretide.forecast.mixture.many_series import ManyForecasts, forecast_many
from foretide.forecast.mixture.mixed_pass import Experts, block_ends, look_ahead
from foretide.forecast.mixture.panel import KEPT, ExpertPanel
from foretide.forecast.mixture.pretrained import NAMES as PRETRAINED
from foretide.forecast.mixture.pretrained import Pretrained
from foretide.forecast.mixture.study import Study, study
from foretide.forecast.models.seasonal_trees import SeasonalTrees
from foretide.forecast.scaling import rates, scale_of
from foretide.forecast.series import carried
from foretide.forecast.training.archive import Arrays
from foretide.records import Floats, Forecast

__all__ = ["Auto", "ManyForecasts"]

_LOG = logging.getLogger(__name__)
_NONE: Floats = np.empty(0)
# The weight of the pretrained network before any outcome. It was chosen on windows of public traces, see `docs`.
_PRETRAINED_PRIOR = 0.8
# A window that holds so many days shows their cycle by itself.
_DAYS_SEEN, _DAY_S = 3, 86_400.0
# Below this many values a regression on seasons has nothing to learn.
_LONG = 400
# A gap at the end up to this long is forecast over; beyond a longer one there is no basis for a forecast.
_LONGEST_GAP = 64
_NAMES = cheap_names(CHEAP_EXPERTS)


class Auto(Forecaster):
    """Mix many models online, trusting each as far as its recent forecasts were accurate.

    - Some thirty cheap experts (exponential smoothing of values, logarithms and roots at several rates, damped trends,
      medians, lines) are refitted at every step.
    - Unless `zero` is off, the pretrained network of that name takes part from the first values on, as two experts
      and with the distances of its quantiles; it reads each value once, and the last 512 again after it was loaded.
    - With 400 values and more, a regression on lags, seasonal lags and the time of the season takes part; it is
      refitted every `refit_every` values, in the background.
    - So do expensive models, retrained every `retrain_every` values: those named in `dear`, or by default
      `seasonal-trees` if the extra ``boost`` is installed. Models trained elsewhere join by `supply`.

    Weights are kept for blocks of lead times (1, 2-3, 4-7, ...) and follow the absolute errors of the experts over the
    last few hundred values; trained experts are then averaged with that mixture by the inverse of their squared errors,
    see `foretide.forecast.mixture.mixing`. An expert that is not trained yet has no weight. Since experts
    are compared by absolute errors the mixture is nearer to the median than to the mean of skewed rates. Quantiles of
    each step, and of the mean over all steps (`Forecast.mean_quantiles`), are those of the mixture's own errors,
    calibrated by adaptive conformal inference (`foretide.forecast.mixture.conformal`). `Forecast.dependence` has how
    the errors of the steps went together.

    `weights` shows which expert leads, and every forecast carries the same as `Forecast.weights`.

    Examples
    --------
    >>> forecast = Auto().fit(100.0 + 5.0 * np.arange(40.0)).predict(3)
    >>> bool(np.allclose(forecast.mean, [300.0, 305.0, 310.0], rtol=0.02))
    True
    >>> sorted(forecast.mean_quantiles)
    [0.1, 0.5, 0.9]
    """

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = "a mixture of many models, weighted by how accurate each has recently been; the default"
    spec: ClassVar[tuple[str, ...]] = ("P6", "B1")
    check_settings: ClassVar[Mapping[str, Any]] = {"background": False}

    window: int = Field(default=16_384, ge=1, description="Observations that it keeps, for seasons and for training.")
    ahead: int = Field(default=12, ge=1, le=1024, description="Steps ahead for which trained experts take part.")
    refit_every: int = Field(default=200, ge=1, description="New values after which the regression is refitted.")
    dear: tuple[str, ...] | None = Field(
        default=None,
        description="Expensive models to train as experts; unset, seasonal-trees if the extra boost is installed.",
    )
    retrain_every: int = Field(default=1000, ge=1, description="New values after which expensive models are retrained.")
    background: bool = Field(
        default=True, description="Train in the background; if false, results do not depend on timing."
    )
    zero: Literal["off", "full", "small"] = Field(
        default="full", description="Which pretrained network takes part; `off`: none."
    )
    tuned: str | None = Field(
        default=None, description="Weights that `foretide forecast tune` wrote, for `zero` in place of the package's."
    )
    calendar: Calendar = Field(default_factory=Calendar, description="Whose days these are, and what is known ahead.")
    _panel: ExpertPanel | None = PrivateAttr(default=None)
    _profile: DayProfile | None = PrivateAttr(default=None)
    _pretrained: Pretrained | None = PrivateAttr(default=None)
    _refused: bool = PrivateAttr(default=False)
    _unread: Floats = PrivateAttr(default_factory=lambda: _NONE)
    _job: Job[Study] = PrivateAttr(default_factory=Job)
    _studied_at: int = PrivateAttr(default=0)
    _trained_at: int = PrivateAttr(default=0)
    _weights: dict[str, float] = PrivateAttr(default_factory=dict)
    _mean_offsets: Floats = PrivateAttr(default_factory=lambda: _NONE)
    _dependence: Floats = PrivateAttr(default_factory=lambda: _NONE)

    @field_validator("dear")
    @classmethod
    def _known_models(cls, dear: tuple[str, ...] | None) -> tuple[str, ...] | None:
        from foretide.forecast.registry import make_forecaster  # the registry knows this class

        if dear is not None and cls.name in dear:
            raise ConfigError("dear", expected="models other than auto itself", got=list(dear))
        for name in dear or ():
            make_forecaster(name)
        return dear

    def weights(self) -> Mapping[str, float]:
        """Return the part of each expert in the last forecast, on average over its steps, the greatest first.

        >>> model = Auto(zero="off").fit(100.0 + 5.0 * np.arange(40.0))
        >>> _ = model.predict(6)
        >>> next(iter(model.weights()))[:4]
        'line'
        """
        return dict(self._weights)

    def supply(self, model: Forecaster) -> Self:
        """Let a trained forecaster take part; it belongs to this one from now on.

        It first goes through the values that came after its training, step by step: the forecasts it makes of them are
        the record by which it is weighed. Train it on all but the last few hundred values, or it starts with none.

        Raises
        ------
        ForecastError
            When it has seen values that this one has not, or misses some that are not kept any more.
        """
        mine, its = self._series, model._series
        missed = round((mine.ended_at_s - its.ended_at_s) / mine.step_s)
        if not math.isclose(mine.step_s, its.step_s) or not 0 <= missed <= mine.values.size or not its.values.size:
            raise ForecastError(
                f"expert {model.name!r} of {mine.name!r}: expected one that was trained on the same series up to at "
                f"most {mine.values.size} steps of {mine.step_s:g} s before {mine.ended_at_s:g} s, got one up to "
                f"{its.ended_at_s:g} s in steps of {its.step_s:g} s; fit this one first, and train the expert on part "
                f"of the same history"
            )
        self._experts().admit(model.name, model, mine.part(mine.values.size - missed, mine.values.size), self._seen)
        return self

    def predict(self, horizon: int, levels: Sequence[float] = LEVELS) -> Forecast:
        """Return the forecast of the next `horizon` steps, with quantiles of their mean and the experts' weights."""
        forecast = super().predict(horizon, levels)
        scale = scale_of(_finite(self._series.values))
        found = np.sort(rates((forecast.mean / scale).mean() + self._mean_offsets, scale))
        offsets = dict(zip(forecast.quantiles, found.tolist(), strict=True))
        return replace(forecast, mean_quantiles=offsets, weights=self.weights(), dependence=self._dependence)

    def recall(self, past: Series) -> Self:
        """Learn the level of the day and the week from a history of minutes or hours.

        With at least two days of it, and if its own window is too short to see three of them, forecasts follow the
        growth that the same hour had on other days, as far as days are alike.
        """
        self._profile = DayProfile.learn(past, self.calendar)
        return self

    def _growth(self, gap: int, mean: Floats) -> Floats:
        """Return by how much the calendar multiplies each step, beginning after the last known value."""
        series, growth = self._series, np.ones(mean.size)
        known_at_s = series.ended_at_s - gap * series.step_s
        if self._profile is not None and self.window * series.step_s < _DAYS_SEEN * _DAY_S:
            rates_ahead = mean * scale_of(_finite(series.values))
            growth = self._profile.growth(known_at_s, series.step_s, rates_ahead, self.calendar)
        if self.calendar.events:
            places: Floats = np.arange(mean.size + 1, dtype=np.float64) - 0.5
            times = self.calendar.times(known_at_s + series.step_s * places)
            growth = growth * times[1:] / times[0]
        return growth

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Return the mean alone."""
        return self.mean_and_quantiles(values, horizon, np.empty(0))[0]

    def mean_and_quantiles(self, values: Floats, horizon: int, levels: Floats) -> tuple[Floats, Floats]:
        """Run all experts over the last values, mix them, and calibrate."""
        gap = min(_gap(self._series.values), _LONGEST_GAP)
        steps = horizon + gap
        measured, recent = _as_known(self._series.values)
        ends = block_ends(steps)
        pretrained = None if is_flat(recent) else self._read_on()
        experts, spreads = self._asked(pretrained, recent.size, steps, levels)
        mean, offsets, weights, dependence = look_ahead(recent, measured, experts, ends, levels, spreads)
        self._dependence = dependence[gap:, gap:]
        self._note_weights(weights, ends, PRETRAINED[: experts.untrained])
        offsets = np.where(np.isnan(offsets), stand_in_offsets(recent, levels, steps), offsets)
        growth = self._growth(gap, mean)
        self._mean_offsets = offsets[:, -1] * growth[gap:].mean()
        mean, offsets = mean * growth, offsets[:, :-1] * growth
        return mean[gap:], mean[gap:] + offsets[:, gap:]

    def predict_many(self, rows: npt.ArrayLike, horizon: int, levels: Sequence[float] = LEVELS) -> ManyForecasts:
        """Return the forecasts of many series at once, by the cheap experts alone; nothing learnt is used or changed.

        `rows` holds one series a row, NaN where nothing was measured; their steps are all the same. Each forecast is
        what a fresh forecaster would say after `fit` on that row, without experts that train and without `zero`, which
        would take a hundred times as long.

        >>> many = Auto().predict_many(np.full((3, 30), 7.0), horizon=2)
        >>> many.mean[0], many.mean_quantiles[0.9].shape
        (array([7., 7.]), (3,))
        """
        return forecast_many(rows, horizon, levels)

    def finish(self) -> Self:
        """Wait for what trains in the background, and use it."""
        self._take(self._job.wait())
        return self

    def _train(self, history: Series) -> None:
        self._panel, self._weights, self._studied_at, self._trained_at = None, {}, self._seen, 0
        self._job.drop()
        self._profile = None
        self._pretrained, self._refused, self._unread = None, False, history.values[-KEPT:].copy()
        known = carried(self._series.values)
        if known.size >= _LONG:
            self._experts().learn_season(known, self._seen)
            self._trained_at = self._seen
            self._begin_study(min(KEPT, known.size // 4), self._dear_models())

    def _observe(self, new: Series) -> None:
        self._unread = np.concatenate((self._unread, new.values))
        if self._unread.size > KEPT:
            self._read_on()
        if self._panel is None and self._series.values.size < _LONG:
            return
        known = carried(self._series.values)
        self._experts().follow(new, known, self._seen)
        self._take(self._job.result())
        if self._seen - self._studied_at >= self.refit_every and not self._job.running:
            self._studied_at = self._seen
            due = not self._trained_at or self._seen - self._trained_at >= self.retrain_every
            self._trained_at = self._seen if due else self._trained_at
            self._begin_study(0, self._dear_models() if due else ())

    def _dear_models(self) -> tuple[str, ...]:
        if self.dear is not None:
            return self.dear
        return () if SeasonalTrees.missing() else (SeasonalTrees.name,)

    def _begin_study(self, held: int, models: tuple[str, ...]) -> None:
        """Train on all but the last `held` values, here or in the background."""
        if held and not models:
            return
        size = self._series.values.size - held
        task = study(self._series.part(0, size), self._seen - held, self.ahead, models)
        if self.background:
            self._job.start(task)
        else:
            self._take(task())

    def _take(self, learnt: Study | None) -> None:
        """Use what was learnt."""
        if learnt is None:
            return
        panel, size = self._experts(), self._series.values.size
        panel.take_season(learnt.seasonal)
        missed = self._series.part(size - min(self._seen - learnt.seen, size), size)
        for name, model in learnt.models.items():
            panel.admit(name, model, missed, self._seen)

    def _experts(self) -> ExpertPanel:
        if self._panel is None:
            self._panel = ExpertPanel(self.ahead)
        return self._panel

    def _read_on(self) -> Pretrained | None:
        """Return the pretrained network after it has read all values; None if it is off or its weights are bad."""
        if self.zero == "off" or self._refused:
            self._unread = _NONE
            return None
        try:
            if self._pretrained is None:
                self._pretrained = Pretrained(self.zero, _LONGEST_GAP, self.tuned)
        except ForecastError as error:
            _LOG.warning("forecasts of %r do without the pretrained network: %s", self._series.name, error)
            self._unread, self._refused = _NONE, True
            return None
        self._pretrained.read(self._unread)
        self._unread = _NONE
        return self._pretrained

    def _asked(self, pretrained: Pretrained | None, size: int, steps: int, levels: Floats) -> tuple[Experts, Floats]:
        """Return the experts at the last `size` origins, and the distances of the quantiles of the pretrained one."""
        others, sums = self._others(size, steps), damped_sums(CHEAP_TABLE, steps)
        if pretrained is None:
            count = len(CHEAP_TABLE) + others.shape[1]
            return Experts(CHEAP_TABLE, sums, others, 0, np.full(count, 1.0 / count)), np.empty((0, 0, 0))
        place = (size, steps, _gap(self._series.values), scale_of(_finite(self._series.values)))
        both = np.full((size, len(PRETRAINED) + others.shape[1], steps), np.nan)
        both[:, : len(PRETRAINED)] = pretrained.experts(*place)
        both[:, len(PRETRAINED) :, : others.shape[2]] = others
        count = len(CHEAP_TABLE) + both.shape[1]
        prior = np.full(count, (1.0 - _PRETRAINED_PRIOR) / (count - len(PRETRAINED)))
        prior[len(CHEAP_TABLE) : len(CHEAP_TABLE) + len(PRETRAINED)] = _PRETRAINED_PRIOR / len(PRETRAINED)
        return Experts(CHEAP_TABLE, sums, both, len(PRETRAINED), prior), pretrained.spreads(*place, levels)

    def _others(self, size: int, steps: int) -> Floats:
        """Return what the trained experts predicted at the last origins, in the units of the values."""
        if self._panel is None or not self._panel.names:
            return np.empty((size, 0, 0))
        end = self._seen - _gap(self._series.values)
        return self._panel.record(end, size)[:, :, :steps] / scale_of(_finite(self._series.values))

    def _note_weights(self, weights: Floats, ends: npt.NDArray[np.int64], pretrained: tuple[str, ...]) -> None:
        part = weights @ np.diff(ends, prepend=0) / ends[-1]
        names = (*_NAMES, *pretrained, *(() if self._panel is None else self._panel.names))
        order = np.argsort(-part, kind="stable").tolist()
        self._weights = {names[k]: float(part[k]) for k in order}

    def _learnt(self) -> dict[str, Array]:
        found: dict[str, Array] = {}
        if self._panel is not None:
            found = {"at": np.array([self._studied_at, self._trained_at]), **self._panel.arrays()}
        if self._profile is not None:
            found |= {f"profile.{name}": array for name, array in self._profile.arrays().items()}
        return found

    def _restore(self, arrays: Arrays) -> None:
        if "at" in arrays:
            self._studied_at, self._trained_at = arrays["at"].tolist()
            self._panel = ExpertPanel.of(arrays)
        profile = {name.removeprefix("profile."): array for name, array in arrays.items() if "profile." in name}
        self._profile = DayProfile.of(profile) if profile else None
        self._unread = self._series.values[-KEPT:]


def _as_known(values: Floats) -> tuple[Floats, Floats]:
    """Return the last values from the first known to the last, scaled: NaN where missing, and the last one there."""
    known = np.flatnonzero(np.isfinite(values))
    inside = values[known[0] : known[-1] + 1]
    scale = scale_of(inside[np.isfinite(inside)])
    measured = inside[-KEPT:] / scale
    return measured, measured if known.size == inside.size else carried(inside)[-KEPT:] / scale


def _finite(values: Floats) -> Floats:
    return values[np.isfinite(values)]


def _gap(values: Floats) -> int:
    """Return how many values are missing at the end."""
    known = np.flatnonzero(np.isfinite(values[-_LONGEST_GAP - 1 :]))
    if known.size:
        return min(values.size, _LONGEST_GAP + 1) - 1 - int(known[-1])
    everywhere = np.flatnonzero(np.isfinite(values))
    return values.size - 1 - int(everywhere[-1]) if everywhere.size else 0
