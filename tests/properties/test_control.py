"""What holds for monitors, histories and forecasters whatever comes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from foretide.clock import ManualClock
from foretide.control import ControlLoop, FluidSystem, LoopSettings, Monitor, Parts
from foretide.control.rate_history import RateHistory
from foretide.errors import NotReadyError
from foretide.forecast import FORECASTERS, Basic, make_forecaster
from foretide.plan import PaSps
from foretide.records import Measurement, Window
from foretide.topology import Topology, flow

AMOUNT = st.floats(0, 1e12, allow_nan=False)
RATE = st.floats(0, allow_infinity=False, allow_nan=False)
SETTINGS = LoopSettings(td_s=5.0, sample_s=1.0, history=8, stale_after_s=1e9, coverage=0.2)


def diamond() -> Topology:
    job = flow("diamond")
    first = job.source("a").operator("O1", execution_s=0.01)
    second = job.operator("O2", inputs=[first, job.source("b")])
    job.operator("O3", inputs=[first, second])
    return job.build()


TOPOLOGY = diamond()


@st.composite
def measurements(draw: st.DrawFn) -> list[Measurement]:
    """Return valid measurements at any instants: in order or not, with gaps, overlaps and jumps back."""
    layout, ended_at_s = TOPOLOGY.layout, 0.0
    found = []
    for _ in range(draw(st.integers(1, 12))):
        ended_at_s += draw(st.sampled_from([0.3, 1.0, 1.0, 1.0, 2.5, 40.0, 0.0, -0.5, -100.0]))

        def column(size: int) -> list[float]:
            return draw(st.lists(AMOUNT, min_size=size, max_size=size))

        found.append(
            Measurement(
                layout=layout,
                ended_at_s=ended_at_s,
                duration_s=draw(st.sampled_from([1e-6, 0.3, 1.0, 1.0, 7.0])),
                arrived=np.array(column(2)),
                passed=np.array(column(len(layout.edges))),
                processed=np.array(column(3)),
                queued=np.array(column(3)),
                busy_s=np.array(column(3)),
                replicas=np.array(draw(st.lists(st.integers(0, 64), min_size=3, max_size=3))),
            )
        )
    return found


def check(window: Window) -> None:
    known = (window.arrived, window.received, window.processed, window.queued, window.share, window.utilisation)
    for values in known:
        assert (np.isfinite(values) & (values >= 0)).all()
    for values in (window.arrival_rates, window.received_rates, window.execution_s):
        assert (np.isnan(values) | (np.isfinite(values) & (values >= 0))).all()
    assert (window.utilisation <= 1).all()
    assert window.arrival_rates.shape == (len(window.received_rates), 2)
    assert 1 <= len(window.arrival_rates) <= SETTINGS.history
    assert window.samples >= len(window.arrival_rates)
    assert np.isfinite(window.execution_s[0]), "declared, so always known"


@given(measurements(), st.floats(-10, 60))
@examples(2)
def test_windows_are_never_negative_or_infinite(found: list[Measurement], settle_until_s: float) -> None:
    monitor = Monitor(TOPOLOGY, SETTINGS)
    samples = 0
    for number, measurement in enumerate(found):
        if number == 3:
            monitor.settle(settle_until_s)
        monitor.add([measurement])
        try:
            window = monitor.window(measurement.ended_at_s)
        except NotReadyError:
            continue
        check(window)
        assert window.samples >= samples, "rows are counted forwards, also when a clock jumps back"
        samples = window.samples


@given(measurements())
def test_the_same_measurements_again_change_nothing(found: list[Measurement]) -> None:
    ordered = sorted(found, key=lambda measurement: measurement.ended_at_s)
    # Within one interval: what is older than that counts as a clock that jumped back.
    ordered = [measurement for measurement in ordered if measurement.ended_at_s > ordered[-1].ended_at_s - 5.0]
    monitor = Monitor(TOPOLOGY, SETTINGS)
    monitor.add(ordered)
    ignored = monitor.ignored
    monitor.add(ordered)
    assert monitor.ignored == ignored + len(ordered)


@given(
    st.lists(st.tuples(st.none() | st.floats(0, 1e6), st.floats(0.01, 5.0)), min_size=1, max_size=30),
    st.floats(0.1, 3.0),
)
def test_a_history_has_as_many_rows_as_time_holds_samples(
    stretches: list[tuple[float | None, float]], sample_s: float
) -> None:
    history = RateHistory(columns=1, rows=10_000, sample_s=sample_s)
    for rate, duration_s in stretches:
        history.add(None if rate is None else np.array([rate]), duration_s)
    rows = history.latest().ravel()
    passed = sum(duration_s for _, duration_s in stretches) / sample_s
    # The open cell does not count, but for the first one.
    assert len(rows) == pytest.approx(passed, abs=1.01)
    rates = [rate for rate, _ in stretches if rate is not None] or [0.0]
    measured = rows[~np.isnan(rows)]
    assert (measured >= min(rates) - 1e-6).all() and (measured <= max(rates) * (1 + 1e-9) + 1e-6).all()


@pytest.mark.parametrize("name", sorted(name for name, model in FORECASTERS.items() if model.cost == "cheap"))
@given(
    values=st.lists(RATE | st.sampled_from([float("nan"), float("inf")]), min_size=1, max_size=130),
    horizon=st.integers(1, 40),
)
def test_forecasts_are_finite_long_enough_and_pure(name: str, values: list[float], horizon: int) -> None:
    model = make_forecaster(name).fit(values)
    try:
        forecast = model.predict(horizon)
    except NotReadyError:
        assert not np.isfinite(np.array(values[-100:])).any()
        return
    assert forecast.mean.shape == (horizon,)
    assert (np.isfinite(forecast.mean) & (forecast.mean >= 0)).all()
    again = model.predict(horizon).mean
    cloned = model.clone().fit(values).predict(horizon).mean
    thawed = pickle.loads(pickle.dumps(model)).predict(horizon).mean
    for other in (again, cloned, thawed):
        np.testing.assert_array_equal(other, forecast.mean)


# A dear model is not fitted again at each update; the contract suite and its own tests say what it does instead.
@pytest.mark.parametrize("name", sorted(name for name, model in FORECASTERS.items() if model.cost == "cheap"))
@given(values=st.lists(st.floats(0, 1e9), min_size=2, max_size=60), cut=st.integers(1, 59))
def test_learning_in_two_parts_is_learning_at_once(name: str, values: list[float], cut: int) -> None:
    whole = make_forecaster(name, window=20).fit(values).predict(5).mean
    parts = make_forecaster(name, window=20).fit(values[:cut]).update(values[cut:]).predict(5).mean
    np.testing.assert_array_equal(parts, whole)


@given(
    rates=st.lists(st.floats(0, 1e4), min_size=1, max_size=60),
    step_s=st.sampled_from([0.5, 1.0, 2.0]),
    advance=st.lists(st.floats(0.0, 25.0), min_size=1, max_size=8),
)
@examples(0.5)
def test_a_loop_over_any_load_keeps_bounds_and_never_fails(
    rates: list[float], step_s: float, advance: list[float]
) -> None:
    job = flow("line")
    job.source("in").operator("O1", execution_s=0.01, replicas=(1, 8)).operator("O2", execution_s=0.02, replicas=(2, 4))
    topology, clock = job.build(), ManualClock()
    system = FluidSystem(topology, rates, clock=clock, step_s=step_s)
    parts = Parts(metrics=system, actuator=system, planner=PaSps(), forecaster=Basic(), clock=clock)
    loop = ControlLoop(topology, parts, LoopSettings(td_s=10.0))
    for seconds in advance:
        clock.sleep_s(seconds)
        loop.run_cycle()
        assert (system.replicas >= topology.minimum_replicas).all()
        assert (system.replicas <= topology.maximum_replicas).all()
    assert loop.failures == {}
