"""What a signal does to a decision: it takes the place of a rate, or raises it, as long as it can be relied upon."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Literal, TypeAlias

import numpy as np

from foretide.errors import ConfigError
from foretide.events import Event, EventSink
from foretide.records import Floats, Forecast, Window

__all__ = ["Read", "Signal", "SignalStage", "Use"]

#: Tells the events per second to plan for at an instant: one number, or one for each of some sources.
Read: TypeAlias = Callable[[float], "float | Mapping[str, float]"]
#: In place of the rate, or beside it: then the greater of both counts.
Use: TypeAlias = Literal["instead", "beside"]


@dataclass(frozen=True)
class Signal:
    """A signal of the user's own.

    Parameters
    ----------
    read : callable
        Takes the instant in Unix time, and returns the events per second to plan for: a number where there is one
        source or `source` says which, else a mapping by source. It runs on a thread of its own.
    use : {"beside", "instead"}
        Whether the greater of signal and rate counts, or the signal alone.
    source : str
        Whose rate it is; empty where there is one source, or it returns a mapping.
    name : str
        What decisions call it.

    Examples
    --------
    >>> Signal(lambda now_s: 120.0, use="instead").name
    'signal'
    """

    read: Read
    use: Use = "beside"
    source: str = ""
    name: str = "signal"


class SignalStage:
    """Asks a signal in every cycle, and puts what it says into forecasts and window.

    A signal that raises, is late or gives no number is an event when that begins and when it ends; meanwhile the rates
    are those that were measured and forecast.

    Parameters
    ----------
    signal : Signal
        What to ask.
    sources : tuple of str
        The sources of the topology.
    deadline_s : float
        Seconds to wait for an answer. While one is awaited, it is not asked again.
    events : EventSink
        Hears ``signal.failed`` and ``signal.back``.

    Raises
    ------
    ConfigError
        When the signal is about a source that there is none of.
    """

    def __init__(self, signal: Signal, sources: tuple[str, ...], deadline_s: float, events: EventSink) -> None:
        if signal.source and signal.source not in sources:
            raise ConfigError("signal.source", expected=f"one of: {', '.join(sources)}", got=signal.source)
        self._signal, self._sources, self._deadline_s, self._events = signal, sources, deadline_s, events
        self._answer: _Answer | None = None
        self._failing = False

    def rates(self, at_s: float) -> dict[str, float]:
        """Return the events per second that the signal says, by source; empty while it cannot be relied upon."""
        try:
            rates = self._checked(self._ask(at_s))
        except Exception as error:  # a function of anyone's may raise anything
            if not self._failing:
                message = f"{self._signal.name}: {error or type(error).__name__}; the measured rate stands in"
                self._events.emit(Event(at_s, "signal.failed", message, "warning", {"error": type(error).__name__}))
            self._failing = True
            return {}
        if self._failing:
            self._failing = False
            self._events.emit(Event(at_s, "signal.back", f"{self._signal.name} can be relied upon again", "info"))
        return rates

    def forecasts(self, forecasts: Mapping[str, Forecast], rates: Mapping[str, float]) -> dict[str, Forecast]:
        """Return forecasts with what the signal says; how wide they are in proportion stays."""
        return {
            source: self._raised(made, rates[source]) if source in rates else made for source, made in forecasts.items()
        }

    def window(self, window: Window, rates: Mapping[str, float]) -> Window:
        """Return the window with what the signal says as the input of its interval, for planners without forecasts."""
        arrived = np.array(window.arrived)
        for source, rate in rates.items():
            column, events = window.layout.source_index[source], rate * window.duration_s
            arrived[column] = max(arrived[column], events) if self._signal.use == "beside" else events
        return replace(window, arrived=arrived)

    def _raised(self, made: Forecast, rate: float) -> Forecast:
        mean = np.maximum(made.mean, rate) if self._signal.use == "beside" else np.full(made.mean.size, rate)
        if np.array_equal(mean, made.mean):
            return made

        def moved(values: Floats) -> Floats:
            ratio = np.divide(values, made.mean, out=np.ones(mean.size), where=made.mean > 0)
            return mean * ratio

        before = float(made.mean.mean())
        ratio = float(mean.mean()) / before if before > 0 else 1.0
        return replace(
            made,
            model=f"{self._signal.name} {'instead of' if self._signal.use == 'instead' else 'beside'} {made.model}",
            mean=mean,
            quantiles={level: moved(values) for level, values in made.quantiles.items()},
            mean_quantiles={level: value * ratio for level, value in made.mean_quantiles.items()} if before > 0 else {},
            weights={},
        )

    def _ask(self, at_s: float) -> float | Mapping[str, float]:
        """Return the answer if it comes in time, on a thread that ends with the process; a late one is not used."""
        late = f"expected an answer within {self._deadline_s:g} s, got none yet"
        if self._answer is not None and not self._answer.ready.is_set():
            raise TimeoutError(late)
        answer = self._answer = _Answer()
        work = (self._signal.read, at_s)
        threading.Thread(target=answer.fetch, args=work, name="foretide-signal", daemon=True).start()
        if not answer.ready.wait(self._deadline_s):
            raise TimeoutError(late)
        return answer.result()

    def _checked(self, answer: object) -> dict[str, float]:
        if isinstance(answer, Mapping):
            found = dict(answer)
        elif self._signal.source or len(self._sources) == 1:
            found = {self._signal.source or self._sources[0]: answer}
        else:
            raise ValueError(f"expected rates by source, {', '.join(self._sources)}, got {answer!r}")
        for source, rate in found.items():
            if source not in self._sources:
                raise ValueError(f"expected rates of {', '.join(self._sources)}, got one of {source!r}")
            if isinstance(rate, bool) or not isinstance(rate, Real) or not math.isfinite(rate) or rate < 0:
                raise ValueError(f"expected events per second, at least 0, of {source!r}, got {rate!r}")
        return {source: float(rate) for source, rate in found.items()}


class _Answer:
    """What a signal said, or raised, once it is `ready`."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self._value: float | Mapping[str, float] = math.nan
        self._error: Exception | None = None

    def fetch(self, read: Read, at_s: float) -> None:
        try:
            self._value = read(at_s)
        except Exception as error:
            self._error = error
        self.ready.set()

    def result(self) -> float | Mapping[str, float]:
        if self._error is not None:
            raise self._error
        return self._value
