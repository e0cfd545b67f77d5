from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from foretide.errors import ConfigError
from foretide.forecast.serving import DeadlineError, ForecastServer, shifted
from foretide.records import Forecast

# Long enough for a thread to run, on a machine that is busy with other things.
PATIENT_S, IMPATIENT_S = 30.0, 0.005


def forecast(at_s: float, *rates: float) -> Forecast:
    quantiles = {0.9: [2 * rate for rate in rates]}
    return Forecast(series="in", model="slow", made_at_s=at_s, step_s=1.0, mean=rates, quantiles=quantiles)


class Slow:
    """A forecast that waits until it may go on."""

    def __init__(self, at_s: float) -> None:
        self.begun, self.go, self._at_s = threading.Event(), threading.Event(), at_s

    def __call__(self) -> Forecast:
        self.begun.set()
        assert self.go.wait(PATIENT_S)
        return forecast(self._at_s, 10.0, 11.0, 12.0)


@pytest.fixture
def server() -> Iterator[ForecastServer]:
    with ForecastServer(deadline_s=PATIENT_S, workers=2) as server:
        yield server


def test_forecasts_in_time_are_given(server: ForecastServer) -> None:
    answers = server.ask({"a": lambda: forecast(0.0, 1.0), "b": lambda: forecast(0.0, 2.0)})
    assert [answers[name].forecast.mean[0] for name in "ab"] == [1.0, 2.0]  # type: ignore[union-attr]
    assert not server.missed


def test_what_a_model_raises_is_handed_on(server: ForecastServer) -> None:
    def fail() -> Forecast:
        raise TimeoutError("a database of its own")

    answer = server.ask({"in": fail})["in"]
    assert answer.forecast is None and isinstance(answer.error, TimeoutError)
    assert server.ask({"in": lambda: forecast(1.0, 5.0)})["in"].error is None


def test_p6_a_late_forecast_is_counted_and_the_last_one_stands_in(server: ForecastServer) -> None:
    server.ask({"in": lambda: forecast(0.0, 1.0, 2.0)})
    slow = Slow(1.0)
    server.deadline_s = IMPATIENT_S
    late = server.ask({"in": slow})["in"]
    assert isinstance(late.error, DeadlineError) and late.forecast is not None and late.forecast.made_at_s == 0.0
    assert server.missed == {"in": 1}
    # While it runs nobody else may touch the model: the next request waits for it and is late as well.
    begun = threading.Event()

    def never() -> Forecast:
        begun.set()
        return forecast(2.0, 9.0)

    assert isinstance(server.ask({"in": never})["in"].error, DeadlineError)
    assert server.missed == {"in": 2} and not begun.is_set()
    slow.go.set()
    server.deadline_s = PATIENT_S
    # The late one is the last forecast now: it came while this request waited, which is for something newer.
    third = server.ask({"in": lambda: forecast(3.0, 30.0)})["in"]
    fourth = server.ask({"in": lambda: forecast(4.0, 40.0)})["in"]
    assert fourth.error is None and fourth.forecast is not None and fourth.forecast.mean[0] == 40.0
    assert third.forecast is not None and third.forecast.made_at_s in (1.0, 3.0)


def test_a_deadline_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="more than 0 seconds"):
        ForecastServer(deadline_s=0.0)


def test_shifting_keeps_quantiles_and_marks_a_stand_in() -> None:
    later = shifted(forecast(0.0, 10.0, 11.0, 12.0), 2.0, steps=2)
    assert later is not None and later.fallback and later.made_at_s == 2.0
    assert later.mean.tolist() == [12.0, 12.0] and later.quantiles[0.9].tolist() == [24.0, 24.0]
    assert shifted(forecast(5.0, 1.0), 2.0, steps=1) is None, "a forecast of the future is none of the past"
