"""A forecaster that is too slow for the loop (SPEC P6: asynchronous serving)."""

from __future__ import annotations

import threading
from typing import ClassVar

import numpy as np

from foretide.clock import ManualClock
from foretide.control import ControlLoop, FluidSystem, LoopSettings, Parts
from foretide.control.analysis import ForecastStage
from foretide.forecast import Forecaster
from foretide.forecast.serving import DeadlineError
from foretide.plan import PaSps
from foretide.records import Floats
from foretide.topology import flow

PATIENT_S, IMPATIENT_S = 30.0, 0.005


class Gated(Forecaster):
    """Forecasts twice the last value, as long as the gate is open."""

    name: ClassVar[str] = "gated"
    summary: ClassVar[str] = "for tests"
    spec: ClassVar[tuple[str, ...]] = ()
    gate: ClassVar[threading.Event] = threading.Event()

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        assert self.gate.wait(PATIENT_S)
        return np.full(horizon, 2 * values[-1])


def test_p6_the_loop_goes_on_while_a_forecast_is_late() -> None:
    job = flow("words")
    job.source("in").operator("count", execution_s=0.01, replicas=(1, 16))
    topology, clock = job.build(), ManualClock()
    system = FluidSystem(topology, [100.0], clock=clock)
    parts = Parts(metrics=system, actuator=system, planner=PaSps(), forecaster=Gated(), clock=clock)
    loop = ControlLoop(topology, parts, LoopSettings(deadline_s=PATIENT_S))
    stage: ForecastStage = loop.forecasts
    assert stage._server is not None
    Gated.gate.set()
    loop.run(cycles=1)
    assert loop.last_decision is not None and loop.last_decision.forecasts["in"].mean[0] == 200.0

    Gated.gate.clear()
    stage._server.deadline_s = IMPATIENT_S
    loop.run(cycles=2)
    forecast = loop.last_decision.forecasts["in"]
    assert loop.last_decision.plan is not None, "it planned all the same"
    assert forecast.fallback and stage.missed == {"in": 2} and loop.failures["forecast"] == 2
    assert loop.cycles == 3

    Gated.gate.set()
    stage._server.deadline_s = PATIENT_S
    loop.run(cycles=2)
    last = loop.last_decision.forecasts["in"]
    assert not last.fallback and last.mean[0] == 200.0, "values that came meanwhile were learnt"


def test_p6_the_last_forecast_shifted_stands_in_before_the_last_value() -> None:
    job = flow("words")
    job.source("in").operator("count", execution_s=0.01, replicas=(1, 16))
    topology, clock = job.build(), ManualClock()
    system = FluidSystem(topology, [100.0], clock=clock)
    parts = Parts(metrics=system, actuator=system, planner=PaSps(), forecaster=Gated(), clock=clock)
    stage = ForecastStage(Gated(), deadline_s=PATIENT_S)
    loop = ControlLoop(topology, parts)
    Gated.gate.set()
    loop.run(cycles=1)
    assert loop.last_decision is not None
    window = loop.last_decision.window
    assert window is not None
    stage.forecast(window, intervals=2)
    Gated.gate.clear()
    assert stage._server is not None
    stage._server.deadline_s = IMPATIENT_S
    forecasts, errors = stage.forecast(window, intervals=2)
    Gated.gate.set()
    assert isinstance(errors["in"], DeadlineError)
    assert forecasts["in"].model == "gated" and forecasts["in"].fallback and forecasts["in"].mean[0] == 200.0
