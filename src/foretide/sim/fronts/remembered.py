"""Forecasts that are the same for every setting of a policy, made once."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import PrivateAttr

from foretide.forecast import Forecaster, Series
from foretide.forecast.base import LEVELS
from foretide.records import Floats, Forecast

__all__ = ["Remembered"]

# Forecasts that a process keeps: those of a few long runs.
_KEPT = 20_000
_made: OrderedDict[bytes, Forecast] = OrderedDict()


class Remembered(Forecaster):
    """Answers as another forecaster does, and remembers the answers for the next run in this process.

    What a forecaster answers depends on its settings and on all that it was given and asked before, nothing else. So
    the answers of one run serve the next one that gives and asks the same. The model itself is brought up to date
    only when something is asked that was never asked before.

    >>> from foretide.forecast import Basic
    >>> Remembered.of(Basic()).fit([1.0, 2.0]).predict(2).mean
    array([2., 2.])
    """

    name: ClassVar[str] = "remembered"
    summary: ClassVar[str] = "the answers of another forecaster, made once"
    spec: ClassVar[tuple[str, ...]] = ()

    model: Forecaster
    _key: bytes = PrivateAttr(default=b"")
    _behind: list[tuple[str, Any]] = PrivateAttr(default_factory=list)

    @classmethod
    def of(cls, model: Forecaster) -> Remembered:
        """Return one that answers as `model` does, from the beginning."""
        return cls(model=model.clone(), window=model.window)

    def clone(self) -> Self:
        """Return one that has learnt nothing."""
        return type(self)(model=self.model.clone(), window=self.window)

    def fit(self, history: Series | npt.ArrayLike) -> Self:
        """Note what is to be learnt from now on."""
        return self._note("fit", Series.of(history))

    def update(self, values: Series | npt.ArrayLike) -> Self:
        """Note what is to be learnt."""
        return self._note("update", Series.of(values))

    def predict(self, horizon: int, levels: Sequence[float] = LEVELS) -> Forecast:
        """Return what the model answered when it was given and asked the same, or else what it answers now."""
        asked = (horizon, tuple(levels))
        self._extend("predict", repr(asked).encode())
        self._behind.append(("predict", asked))
        found = _made.get(self._key)
        if found is None:
            found = _made[self._key] = self._catch_up()
            if len(_made) > _KEPT:
                _made.popitem(last=False)
        return found

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Return the model's mean."""
        return self.model.forecast_mean(values, horizon)

    def _note(self, what: str, series: Series) -> Self:
        # Values may be a view of a buffer that goes on being written.
        series = Series(series.values.copy(), series.step_s, series.ended_at_s, series.name)
        head = repr((series.step_s, series.ended_at_s, series.name)).encode()
        self._extend(what, head, np.ascontiguousarray(series.values).tobytes())
        self._behind.append((what, series))
        return self

    def _extend(self, *parts: str | bytes) -> None:
        """Let the key stand for one more call."""
        before = self._key or f"{type(self.model).__qualname__} {self.model.model_dump_json()}".encode()
        digest = hashlib.sha256(before)
        for part in parts:
            digest.update(b"\0" + (part.encode() if isinstance(part, str) else part))
        self._key = digest.digest()

    def _catch_up(self) -> Forecast:
        """Let the model have all that it has missed, and return its last answer; its errors are what they were."""
        behind, self._behind = self._behind, []
        found: Forecast | None = None
        for what, given in behind:
            if what == "predict":
                found = self.model.predict(*given)
            else:
                getattr(self.model, what)(given)
        assert found is not None, "the last call asks"
        return found
