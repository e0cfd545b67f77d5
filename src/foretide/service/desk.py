"""Computing forecasts (SPEC P6): on threads with a queue and a deadline, or on the event loop if that is quicker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from foretide.errors import ConfigError, ForecastError, NotReadyError
from foretide.forecast import FORECASTERS, Forecaster, Series, all_forecasters, make_forecaster
from foretide.records import Forecast
from foretide.service.crew import Crew
from foretide.service.http.problems import Problem
from foretide.service.settings import ServiceSettings

__all__ = ["ForecastDesk", "Question"]

# Handing a forecast to a thread and back takes some tenths of a millisecond: what takes no longer is done at once.
_AT_ONCE_MS = 0.3
# The last cost of a model predicts the next one only while questions are of similar size.
_SMALL_SAMPLES, _SMALL_HORIZON = 256, 128
# Weight of the latest cost: one forecast that was held up by something else does not decide.
_LATEST = 0.2


@dataclass(frozen=True)
class Question:
    """What a forecast is made from.

    Parameters
    ----------
    samples : sequence of float or None
        Events per second, oldest first; None where none was measured.
    horizon : int
        Steps ahead.
    step_s : float
        Seconds between two samples.
    quantiles : sequence of float
        Levels of the quantiles.
    """

    samples: Sequence[float | None]
    horizon: int
    step_s: float = 1.0
    quantiles: Sequence[float] = ()

    @property
    def small(self) -> bool:
        """Whether a model looks back about as far as the question reaches, and gives no more than the mean."""
        return not self.quantiles and len(self.samples) <= _SMALL_SAMPLES and self.horizon <= _SMALL_HORIZON


class ForecastDesk:
    """Answers questions with forecasts, on threads of its own.

    Expensive models have separate threads, so that a cheap one never waits for them. A forecast that takes too long is
    given up; its thread finishes it, and counts as taken until then. Small questions to a built-in model that has
    answered similar ones within .3 ms are answered at once, without a thread; models of other packages never are.

    Parameters
    ----------
    settings : ServiceSettings
        Threads, queue and deadline.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._deadline_s, self._most = settings.forecast_deadline_s, settings.forecast_queue
        # Cheap models are all Python: a second thread would only wait for the first.
        threads = {"cheap": 1, "dear": settings.forecast_threads}
        self._crews: dict[str, Crew[tuple[Forecast, float]]] = {
            cost: Crew(count, f"foretide-{cost}") for cost, count in threads.items()
        }
        self._small_ms: dict[str, float] = {}

    async def ask(self, model: str, question: Question) -> Forecast:
        """Return the forecast of a model.

        Raises
        ------
        Problem
            404 for an unknown model, 501 for one that is not installed, 422 if it cannot answer, 503 when
            too many wait, 504 after the deadline.
        """
        forecaster = _forecaster(model)
        try:
            at_once = self._at_once(model, question)
            made, took_ms = _answer(forecaster, question) if at_once else await self._ask_crew(forecaster, question)
        except (NotReadyError, ForecastError, ConfigError) as error:
            raise Problem(422, "no-forecast", str(error)) from error
        if question.small:
            before_ms = self._small_ms.get(model, took_ms)
            self._small_ms[model] = before_ms + _LATEST * (took_ms - before_ms)
        return made

    def _at_once(self, model: str, question: Question) -> bool:
        """Return whether the event loop may compute it: the loop is blocked meanwhile, and there is no deadline."""
        known_ms = self._small_ms.get(model)
        return known_ms is not None and known_ms <= _AT_ONCE_MS and question.small and model in FORECASTERS

    async def _ask_crew(self, forecaster: Forecaster, question: Question) -> tuple[Forecast, float]:
        crew = self._crews[forecaster.cost]
        if crew.busy >= self._most:
            detail = f"{self._most} forecasts wait already; try again in a second"
            raise Problem(503, "too-busy", detail, headers={"Retry-After": "1"})
        try:
            async with asyncio.timeout(self._deadline_s):
                return await crew.submit(partial(_answer, forecaster, question))
        except TimeoutError as error:
            took = f"{forecaster.name!r} took longer than {self._deadline_s:g} s"
            raise Problem(504, "too-slow", f"{took}; send fewer samples, or use a cheaper model") from error

    def close(self) -> None:
        """Let the threads end after their current job."""
        for crew in self._crews.values():
            crew.close()


def _forecaster(name: str) -> Forecaster:
    known = all_forecasters()
    if name not in known:
        raise Problem(404, "unknown-model", f"expected one of {', '.join(sorted(known))}, got {name!r}")
    try:
        return make_forecaster(name)
    except ConfigError as error:
        raise Problem(501, "model-not-installed", str(error)) from error


def _answer(forecaster: Forecaster, question: Question) -> tuple[Forecast, float]:
    """Return a forecast, and the milliseconds of a core that all of it took, learning included.

    Waiting on a busy machine is not included: built-in models only compute.
    """
    began = time.thread_time()
    values = np.array(question.samples, dtype=np.float64)
    # The history ends at 0: steps ahead then are seconds from the last sample.
    series = Series(values, question.step_s, 0.0, "samples")
    made = forecaster.fit(series).predict(question.horizon, question.quantiles)
    return made, 1e3 * (time.thread_time() - began)
