"""A rehearsal: the first cycles load and compile what they need before the first event, not after it."""

from __future__ import annotations

import copy
import logging
import math
import threading
from typing import ClassVar

import numpy as np

from foretide.background import Background
from foretide.compile.stages import compile_stages
from foretide.control.steering import Steering
from foretide.forecast import LEVELS, Series
from foretide.plan import Situation
from foretide.records import Floats, Forecast, Window
from foretide.topology import Topology

__all__ = ["Rehearsal"]

_LOG = logging.getLogger(__name__)
# The rate that a rehearsal pretends, and the time that an operator takes of which nothing is known.
_RATE, _EXECUTION_S = 100.0, 0.001


class Rehearsal(Background):
    """Plans and forecasts once on made-up input, in a thread, so that models and kernels are loaded when it matters.

    It works on copies, and what goes wrong in it is left to the loop to report. The planner comes first: for a
    forecast the last value can stand in, for a plan nothing can.

    Parameters
    ----------
    topology : Topology
        What will run.
    steering : Steering
        What will steer it.

    Examples
    --------
    >>> from foretide.control import ControlSettings
    >>> from foretide.topology import flow
    >>> job = flow("words")
    >>> _ = job.source("in").operator("count")
    >>> steering = Steering(settings=ControlSettings(planner="pasps", forecaster="basic"))
    >>> with Rehearsal(job.build(), steering) as rehearsal:
    ...     rehearsal.wait(60.0)
    True
    """

    _name: ClassVar[str] = "foretide-rehearsal"

    def __init__(self, topology: Topology, steering: Steering) -> None:
        super().__init__()
        self._topology, self._steering = topology.with_execution_times(steering.execution_s), steering
        self._over = threading.Event()

    def ready(self) -> bool:
        """Return whether models can be asked: it is over, or was never begun."""
        return self._thread is None or self._over.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is over, for a while at most; return whether it is."""
        return self._over.wait(timeout_s)

    def stop(self, timeout_s: float = 0.0) -> None:
        """Stop waiting for it: a compiler cannot be interrupted, and the thread keeps no program from ending."""
        super().stop(timeout_s)

    def _run(self) -> None:
        try:
            planner = copy.deepcopy(self._steering.make_planner())
            # Rules that read no forecasts have nothing to load, and some of them write what they learn.
            if planner.needs_forecast:
                window = _window(self._topology, self._steering)
                planner.plan(_situation(self._topology, window, planner.intervals_ahead))
                self._forecast(window)
        except Exception:
            _LOG.debug("the rehearsal failed", exc_info=True)
        finally:
            self._over.set()

    def _forecast(self, window: Window) -> None:
        """Forecast as the first cycles do: from a value or two, then from more."""
        forecaster, series = self._steering.settings.make_forecaster(), Series(window.arrival_rates[:, 0], 1.0)
        for values in (series.values[:1], series.values):
            forecaster.fit(Series(values, window.sample_s))
            forecaster.predict(_steps(window, 1))
        forecaster.update(Series(series.values[:3], window.sample_s))
        forecaster.predict(_steps(window, 1))


def _steps(window: Window, intervals: int) -> int:
    return math.ceil(intervals * window.duration_s / window.sample_s)


def _window(topology: Topology, steering: Steering) -> Window:
    """Return an interval in which everything was busy for half of its time, and nothing waited."""
    loop = steering.settings.loop
    sources, operators = len(topology.sources), len(topology.operators)
    # Not all equal, so that no model takes a short way.
    rates: Floats = _RATE * (1.0 + 0.1 * np.sin(np.arange(30.0)))
    share = np.nan_to_num(topology.declared_share, nan=1.0)
    arrived = np.full(sources, _RATE * loop.td_s)
    received = topology.flow.propagate(arrived, np.zeros(operators), share)
    return Window(
        layout=topology.layout,
        ended_at_s=1_000.0,
        duration_s=loop.td_s,
        sample_s=loop.sample_s,
        samples=rates.size,
        arrival_rates=np.tile(rates[:, None], (1, sources)),
        received_rates=np.tile(received / loop.td_s, (rates.size, 1)),
        arrived=arrived,
        received=received,
        processed=received,
        queued=np.zeros(operators),
        share=share,
        execution_s=np.nan_to_num(topology.declared_execution_s, nan=_EXECUTION_S),
        utilisation=np.full(operators, 0.5),
        replicas=topology.initial_replicas,
    )


def _situation(topology: Topology, window: Window, intervals: int) -> Situation:
    rates = np.full(_steps(window, intervals), _RATE)
    forecasts = {
        source: Forecast(
            series=source,
            model="rehearsal",
            made_at_s=window.ended_at_s,
            step_s=window.sample_s,
            mean=rates,
            quantiles={level: rates * (0.5 + level) for level in LEVELS},
        )
        for source in topology.layout.sources
    }
    return Situation(
        topology=topology,
        window=window,
        forecasts=forecasts,
        replicas=np.maximum(topology.initial_replicas, 1),
        changed_at_s=np.full(len(topology.operators), -np.inf),
        stages=compile_stages(topology).shared_slots,
    )
