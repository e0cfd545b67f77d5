"""The plan that knows the future, against every plan there is."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from foretide.sim.fronts.clairvoyant import Future
from foretide.sim.options import SimulationOptions
from foretide.topology import Topology, flow
from foretide.traces import RateTrace

TD_S = 5.0


def counting(most: int = 4) -> Topology:
    job = flow("counting")
    job.source("in").operator("count", execution_s=0.01, replicas=(1, most))
    return job.build()


def future(rates: list[float], most: int = 4, **options: Any) -> Future:
    chosen = SimulationOptions.of({"planner": "static", "td_s": TD_S, "warm_up_s": 0.0, **options})
    return Future(counting(most), RateTrace("hand", TD_S, np.array(rates)), chosen)


def lived_through(rates: list[float], replicas: tuple[int, ...], wait_s: float) -> tuple[float, float]:
    """Return which part of the events waits for longer than `wait_s`, and which is left, event by event."""
    arrivals = np.concatenate(
        [TD_S * at + np.arange(round(rate * TD_S)) / rate for at, rate in enumerate(rates) if rate > 0]
    )
    speeds = 100.0 * np.array(replicas)
    edges_s = TD_S * np.arange(len(rates) + 1)
    done = np.concatenate(([0.0], np.cumsum(speeds * TD_S)))  # events that could have been served by each edge
    capacity_at = np.interp(arrivals, edges_s, done)
    # What is served by when: an event begins when all before it are through, and not before it comes.
    number = np.arange(arrivals.size)
    begins = np.maximum.accumulate(capacity_at - number) + number
    waits_s = np.interp(begins, done, edges_s) - arrivals
    served = begins < done[-1]
    return float(np.mean(waits_s[served] > wait_s) * np.mean(served)), float(np.mean(~served))


@pytest.mark.parametrize("limit_ms", [15.0, 400.0, 3000.0])
@pytest.mark.parametrize(
    "rates",
    [
        [100.0, 300.0, 200.0, 400.0, 250.0],
        [150.0, 150.0, 350.0, 50.0, 250.0],
        [390.0, 10.0, 390.0, 10.0, 200.0],
    ],
)
def test_bound_and_plan_enclose_the_best_of_all_plans(rates: list[float], limit_ms: float) -> None:
    known = future(rates)
    [found] = known.foresee("p95", [limit_ms])
    wait_s = 1.025 * limit_ms / 1e3
    left = 1 - known.least_processed

    def keeps(replicas: tuple[int, ...], slack: float = 0.0) -> bool:
        late, unserved = lived_through(rates, replicas, wait_s + slack)
        return late <= 0.05 + slack and unserved <= left + slack

    best = min(sum(tried) for tried in product(range(1, 5), repeat=len(rates)) if keeps(tried)) / len(rates)
    assert found.bound <= best + 1e-9
    assert found.bound >= 0.8 * best
    assert found.timetable is not None
    planned = tuple(found.timetable.replicas[:, 0].tolist())
    assert keeps(planned, slack=0.01)
    assert sum(planned) / len(rates) <= 1.2 * best + 1e-9


def test_without_waiting_every_interval_gets_just_what_it_needs() -> None:
    rates = [100.0, 300.0, 200.0, 400.0] * 10
    [found] = future(rates).foresee("p95", [10.5])
    # 2.5 on average. With 5 % late and 5 % left in the end, a little less is enough.
    assert 2.3 <= found.bound <= 2.5
    assert found.timetable is not None
    assert found.timetable.replicas[:20, 0].tolist() == [1, 3, 2, 4] * 5


def test_who_may_wait_is_served_by_the_mean() -> None:
    [found] = future([390.0, 10.0] * 20).foresee("p95", [6000.0])
    assert found.timetable is not None
    # Two replicas all the time do, and one fewer in the end, where some may be left.
    assert 1.8 <= found.bound <= found.timetable.replicas.mean() <= 2.05


def test_a_limit_below_the_service_itself_is_kept_by_nobody() -> None:
    [found] = future([100.0] * 8).foresee("p95", [9.0])
    assert found.bound == np.inf and found.timetable is None


def test_bounds_of_replicas_hold_for_the_clairvoyant_too() -> None:
    [found] = future([400.0] * 20, most=3).foresee("p95", [50.0])
    assert found.timetable is None


def test_the_bound_falls_as_the_limit_grows() -> None:
    limits = np.geomspace(11.0, 10_000.0, 8).tolist()
    for metric in ("mean", "p95", "p99"):
        bounds = [one.bound for one in future([100.0, 300.0, 200.0, 350.0] * 8).foresee(metric, limits)]  # type: ignore[arg-type]
        assert bounds == sorted(bounds, reverse=True)


def test_a_plan_is_asked_for_as_long_before_as_it_takes_to_be_active() -> None:
    known = future([100.0, 300.0] * 8, settings=_late(7.0), warm_up_s=10.0)
    [found] = known.foresee("p95", [50.0])
    assert found.timetable is not None
    # Active from 12 s on, 17 s, 22 s and so on: asked for at 5 s, 10 s, 15 s.
    assert found.timetable.from_s[:4].tolist() == [3.0, 5.0, 10.0, 15.0]
    assert np.array_equal(found.timetable.at(5.0), found.timetable.replicas[1])
    assert np.array_equal(found.timetable.at(0.0), found.timetable.replicas[0])
    # An interval of 5 s from 12 s on sees 100 for 3 s and then 300: no fewer than 3 without waiting.
    assert found.timetable.replicas[:, 0].max() == 3


def _late(activation_s: float) -> Any:
    from foretide.sim.settings import SimulationSettings

    return SimulationSettings(activation_s=activation_s)
