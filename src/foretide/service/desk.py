"""Forecasts off the event loop: threads for cheap models and for dear ones, a bounded queue, a deadline (SPEC P6)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from foretide.errors import ConfigError, ForecastError, NotReadyError
from foretide.forecast import Forecaster, Series, all_forecasters, make_forecaster
from foretide.records import Forecast
from foretide.service.crew import Crew
from foretide.service.problems import Problem
from foretide.service.settings import ServiceSettings

__all__ = ["ForecastDesk", "Question"]


@dataclass(frozen=True)
class Question:
    """What a forecast is asked from.

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


class ForecastDesk:
    """Answers questions with forecasts, on threads of its own.

    Dear models have threads apart, so that a cheap one never waits for them. A forecast that takes too long is given
    up; its thread goes on to the end of it, and counts as taken until then.

    Parameters
    ----------
    settings : ServiceSettings
        Threads, queue and deadline.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._deadline_s, self._most = settings.forecast_deadline_s, settings.forecast_queue
        # Cheap models are all Python: a second thread would only wait for the first.
        threads = {"cheap": 1, "dear": settings.forecast_threads}
        self._crews: dict[str, Crew[Forecast]] = {
            cost: Crew(count, f"foretide-{cost}") for cost, count in threads.items()
        }

    async def ask(self, model: str, question: Question) -> Forecast:
        """Return the forecast of a model.

        Raises
        ------
        Problem
            404 for a model that is not there, 501 for one that is not installed, 422 where it cannot answer, 503 when
            too many wait, 504 after the deadline.
        """
        forecaster = _forecaster(model)
        crew = self._crews[forecaster.cost]
        if crew.busy >= self._most:
            detail = f"{self._most} forecasts wait already; try again in a second"
            raise Problem(503, "too-busy", detail, headers={"Retry-After": "1"})
        try:
            async with asyncio.timeout(self._deadline_s):
                return await crew.submit(partial(_answer, forecaster, question))
        except TimeoutError as error:
            detail = f"{model!r} took longer than {self._deadline_s:g} s; ask from fewer samples, or a cheaper model"
            raise Problem(504, "too-slow", detail) from error
        except (NotReadyError, ForecastError, ConfigError) as error:
            raise Problem(422, "no-forecast", str(error)) from error

    def close(self) -> None:
        """Let the threads end after what they are at."""
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


def _answer(forecaster: Forecaster, question: Question) -> Forecast:
    values = np.array(question.samples, dtype=np.float64)
    # The history ends at 0: steps ahead then are seconds from the last sample.
    series = Series(values, question.step_s, 0.0, "samples")
    return forecaster.fit(series).predict(question.horizon, question.quantiles)
