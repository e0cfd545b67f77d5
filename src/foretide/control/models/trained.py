"""Models that were trained elsewhere, taken over by a running control loop without a restart."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from foretide.events import Event, EventLog, EventSink, Severity
from foretide.forecast import Forecaster, Series
from foretide.forecast.training.model_store import ModelStore, StoredModel

__all__ = ["TrainedModels", "catch_up"]

_LOG = logging.getLogger(__name__)
# A gap after training is passed on step by step, so that a model with seasons keeps its phase; past this many steps
# only that there was a gap is.
_LONGEST_GAP = 10_000


class TrainedModels:
    """Watches a directory of trained models for those of the control loop's series.

    A model that cannot be loaded, or not brought up to date, is reported as an event and left alone until a newer
    version comes.

    Parameters
    ----------
    store : ModelStore
        Where they are.
    model : str
        The forecaster's name.
    events : EventSink, optional
        Hears of models that were taken over (``model.loaded``) and of those that were not (``model.broken``).
    """

    def __init__(self, store: ModelStore, model: str, events: EventSink | None = None) -> None:
        self._store, self._model = store, model
        self._events: EventSink = EventLog() if events is None else events
        self._tried: dict[str, int] = {}

    def newer(self, series: Series) -> Forecaster | None:
        """Return a model of `series` that came since the last look, brought up to date with it; else None."""
        name, stored = series.name, None
        try:
            stored = self._store.newer_than(name, self._model, self._tried.get(name))
            if stored is None:
                return None
            self._tried[name] = stored.version
            forecaster = catch_up(stored, series)
        except Exception as error:  # a file may hold anything, a model raise anything; the loop must go on
            which = "" if stored is None else f" version {stored.version}"
            message = f"model {self._model!r}{which} of source {name!r} is not taken over: {error}"
            self._tell("model.broken", message, series, "error", None if stored is None else stored.version)
            return None
        message = f"model {self._model!r} version {stored.version} of source {name!r}, trained {stored.card.trained_at}"
        self._tell("model.loaded", message, series, "info", stored.version)
        return forecaster

    def again(self, series: Series) -> Forecaster | None:
        """Return the model last taken over, as it was stored and brought up to date again; None where there is none."""
        self._tried.pop(series.name, None)
        return self.newer(series)

    def _tell(self, kind: str, message: str, series: Series, severity: Severity, version: int | None) -> None:
        data = {"source": series.name, "model": self._model, "version": version}
        try:
            self._events.emit(Event(series.ended_at_s, kind, message, severity, data))
        except Exception:
            _LOG.exception("the event sink failed on %s: %s", kind, message)


def catch_up(stored: StoredModel, series: Series) -> Forecaster:
    """Return a stored model that knows `series` too: what came since its training, with the gap between the two.

    Where the two have nothing to do with each other in time (a replay, a simulation), `series` follows after a gap.

    Raises
    ------
    ForecastError, ConfigError
        When its file is damaged, or the series has another step than the one it was trained on.
    """
    forecaster = stored.load()
    size, step_s = series.values.size, series.step_s
    since = round((series.ended_at_s - stored.card.data["ended_at_s"]) / step_s) if size else 0
    if 0 <= since <= size:
        new = series.values[size - since :]
    else:
        gap = min(since - size, _LONGEST_GAP) if since > size else forecaster.window
        new = np.concatenate((np.full(gap, np.nan), series.values))
    forecaster.update(replace(series, values=new))
    forecaster.predict(1)  # one that cannot forecast is of no use
    return forecaster
