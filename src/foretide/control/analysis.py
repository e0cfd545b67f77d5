"""The analyse stage: a forecast for every source, whatever the forecaster does."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from foretide.control.models.trained import TrainedModels
from foretide.errors import NotReadyError
from foretide.forecast import Forecaster, Series, last_value
from foretide.forecast.serving import Answer, ForecastServer, shifted
from foretide.records import Floats, Forecast, Window

__all__ = ["ForecastStage", "failed_sources"]


class ForecastStage:
    """Keeps one forecaster per source up to date and asks it; one that fails is replaced by the last value.

    Parameters
    ----------
    forecaster : Forecaster
        The model; every source gets a clone of it.
    trained : TrainedModels, optional
        Where trained models of the sources appear; each is taken over as soon as it is there.
    deadline_s : float, optional
        Seconds to wait for the forecasts, which are then made on threads of their own; the last forecast, shifted, or
        else the last value stands in for a late one. Without it they are made in line, however long that takes.
    ready : callable, optional
        Tells whether the forecaster is loaded; before that it is not asked, and the last value stands in.
    """

    def __init__(
        self,
        forecaster: Forecaster,
        trained: TrainedModels | None = None,
        deadline_s: float | None = None,
        ready: Callable[[], bool] | None = None,
    ) -> None:
        self._prototype, self._trained, self._ready = forecaster, trained, ready
        self._server = None if deadline_s is None else ForecastServer(deadline_s)
        self._models: dict[str, Forecaster] = {}
        self._seen: dict[str, int] = {}
        self._resumed: set[str] = set()
        self._past: dict[str, Series] = {}
        self._far_steps = 0
        #: By source, the last forecast as far as `beyond_s`; empty where nobody wanted one.
        self.outlook: dict[str, Forecast] = {}

    def forecast(
        self, window: Window, intervals: int, beyond_s: float = 0.0
    ) -> tuple[dict[str, Forecast], dict[str, Exception]]:
        """Return a forecast of the next `intervals` for each source, and the errors of forecasters that failed.

        Where `beyond_s` is further ahead than that, `outlook` has forecasts that reach so far.
        """
        steps = math.ceil(intervals * window.duration_s / window.sample_s)
        far_steps = math.ceil(beyond_s / window.sample_s)
        self._far_steps = far_steps if far_steps > steps else 0
        if not self._far_steps:
            self.outlook.clear()
        forecasts: dict[str, Forecast] = {}
        errors: dict[str, Exception] = {}
        columns = enumerate(window.layout.sources)
        every = {
            source: Series(window.arrival_rates[:, column], window.sample_s, window.ended_at_s, source)
            for column, source in columns
        }
        for source, answer in self._answers(every, window, steps).items():
            if answer.error is None and answer.forecast is not None:
                forecasts[source] = answer.forecast
                continue
            if answer.error is not None:
                errors[source] = answer.error
                self.outlook.pop(source, None)
            forecasts[source] = _stand_in(every[source], window, steps, answer)
        return forecasts, errors

    def states(self) -> dict[str, bytes]:
        """Return what the model of each source has learnt, but for those that are at work."""
        return {
            source: model.to_bytes()
            for source, model in dict(self._models).items()
            if self._server is None or not self._server.is_busy(source)
        }

    def resume(self, source: str, model: Forecaster) -> None:
        """Go on with a model of an earlier run: it keeps what it learnt, and forgets the values that are past."""
        model.update(Series(np.full(model.window, np.nan), model.step_s))
        self._models[source] = model
        self._resumed.add(source)

    def recall(self, source: str, past: Series) -> None:
        """Let the models of a source learn from minutes of earlier runs, the one at work and those to come."""
        self._past[source] = past
        if (model := self._models.get(source)) is not None:
            model.recall(past)

    @property
    def missed(self) -> Mapping[str, int]:
        """How many forecasts of each source were late."""
        return {} if self._server is None else dict(self._server.missed)

    def _answers(self, every: Mapping[str, Series], window: Window, steps: int) -> Mapping[str, Answer]:
        if self._ready is not None and not self._ready():
            waiting = NotReadyError(f"forecaster {self._prototype.name!r} is still being loaded")
            return dict.fromkeys(every, Answer(None, waiting))
        tasks = {source: partial(self._try, source, series, window, steps) for source, series in every.items()}
        if self._server is not None:
            return self._server.ask(tasks)
        return {source: _in_line(task) for source, task in tasks.items()}

    def _try(self, source: str, series: Series, window: Window, steps: int) -> Forecast:
        try:
            return self._ask(source, series, window, steps)
        except NotReadyError:
            raise
        except Exception:
            # What it has learnt may be at fault: the next cycle begins with a fresh one.
            self._models.pop(source, None)
            raise

    def _ask(self, source: str, series: Series, window: Window, steps: int) -> Forecast:
        model = self._models.get(source)
        # To a model of an earlier run, all values are new.
        new = series.values.size if source in self._resumed else window.samples - self._seen.get(source, 0)
        self._resumed.discard(source)
        self._seen[source] = window.samples
        late = not 0 <= new <= series.values.size
        trained = self._newly_trained(series, model is not None and late)
        if trained is not None:
            model = self._models[source] = trained
        elif model is None or late:
            model = self._models[source] = self._prototype.clone()
            # A network is trained beside the loop, never in it: until then it only follows.
            (model.update if self._trained is not None and model.offline else model.fit)(series)
            if source in self._past:
                model.recall(self._past[source])
        else:
            values: Floats = series.values[series.values.size - new :]
            model.update(replace(series, values=values))
        fallback = model.untrained is not None
        if self._far_steps:
            self.outlook[source] = replace(model.predict(self._far_steps), fallback=fallback, came_from=(window.id,))
        return replace(model.predict(steps), fallback=fallback, came_from=(window.id,))

    def _newly_trained(self, series: Series, again: bool) -> Forecaster | None:
        """Return a trained model that came meanwhile; the same one `again` where values were missed."""
        if self._trained is None:
            return None
        return self._trained.again(series) if again else self._trained.newer(series)


def _in_line(task: Callable[[], Forecast]) -> Answer:
    try:
        return Answer(task())
    except Exception as error:  # a model of anyone's may raise anything; the loop must go on
        return Answer(None, error)


def _stand_in(series: Series, window: Window, steps: int, answer: Answer) -> Forecast:
    """Return the last forecast, shifted, where there is one that reaches so far, else the last value."""
    last = None if answer.forecast is None else shifted(answer.forecast, window.ended_at_s, steps)
    if last is not None:
        return replace(last, came_from=(window.id,))
    return Forecast(
        series=series.name,
        model="last value",
        made_at_s=window.ended_at_s,
        step_s=window.sample_s,
        mean=last_value(series, steps),
        fallback=True,
        came_from=(window.id,),
    )


def failed_sources(errors: Mapping[str, Exception]) -> str:
    """Return the errors as one line."""
    return "; ".join(f"source {source!r}: {error}" for source, error in errors.items())
