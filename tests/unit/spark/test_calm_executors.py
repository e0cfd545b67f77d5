"""Executors that turn only where the load turns: three waves of a noisy load over a cluster that is made up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from schedulers import FakeScheduler

from foretide.clock import ManualClock
from foretide.control.executors.demand import slots_ahead, slots_expected
from foretide.forecast import make_forecaster
from foretide.records import Forecast
from foretide.spark.executors import ExecutorManager, ExecutorSettings

TD_S, LEAD_S, UTILISATION = 10.0, 8.0, 0.8
WAVES, PERIOD_S = 3, 240
# Executors of one slot, which an event keeps busy for 20 ms: between one and four are needed.
EXECUTION_S = 0.02


def turns(values: Sequence[float]) -> int:
    """Return how often a series changes its direction."""
    steps = np.sign(np.diff(values))
    steps = steps[steps != 0]
    return int(np.sum(steps[1:] != steps[:-1]))


def test_a_turn_is_a_change_from_up_to_down_or_back() -> None:
    assert turns([1, 1, 2, 3, 3, 2, 2, 1, 4, 4]) == 2


def load(noise: float, seed: int) -> np.ndarray:
    """Return the rate of every second: a wave from 30 to 150 events/s, three times, and noise."""
    wave = 90.0 - 60.0 * np.cos(2.0 * np.pi * np.arange(WAVES * PERIOD_S) / PERIOD_S)
    return np.maximum(0.0, wave * (1.0 + noise * np.random.default_rng(seed).standard_normal(wave.size)))


@dataclass
class Cluster:
    """Executors that come after the lead time and go at once."""

    clock: ManualClock
    scheduler: FakeScheduler = field(default_factory=lambda: FakeScheduler(present=1, cores=1))
    _due_s: list[float] = field(default_factory=list)

    def second(self) -> None:
        """Let a second pass."""
        self.clock.sleep_s(1.0)
        asked = self.scheduler.asked[-1] if self.scheduler.asked else 1
        on_their_way = asked - len(self.scheduler.present) - len(self._due_s)
        self._due_s = self._due_s[: max(0, asked - len(self.scheduler.present))]
        self._due_s += [self.clock.now_s() + LEAD_S] * max(0, on_their_way)
        came = sum(due_s <= self.clock.now_s() for due_s in self._due_s)
        self._due_s = self._due_s[came:]
        self.scheduler.come(len(self.scheduler.present) + came)


def steer(rates: np.ndarray, forecaster: str) -> tuple[list[int], list[int]]:
    """Return the executors requested and observed in every second."""
    clock = ManualClock()
    cluster = Cluster(clock)
    settings = ExecutorSettings(minimum=1, maximum=4, lead_s=LEAD_S)
    manager = ExecutorManager(cluster.scheduler, settings, clock.now_s)
    model = make_forecaster(forecaster)
    requested, observed = [], []
    for second, rate in enumerate(rates):
        cluster.second()
        model.update([rate])
        counts = manager.keep_house()
        if second % TD_S == TD_S - 1:
            forecast = model.predict(math.ceil(manager.horizon_s + TD_S))
            counts = manager.request(*needed(forecast, manager))
        requested.append(counts.requested)
        observed.append(counts.observed)
    return requested, observed


def needed(forecast: Forecast, manager: ExecutorManager) -> tuple[int, int]:
    """Return what a planner by utilisation needs, and what may be needed soon."""
    busy = float(forecast.interval_events(TD_S, 1)[0]) / TD_S * EXECUTION_S
    slots, demand, outlook = max(1, math.ceil(busy / UTILISATION)), np.array([busy]), {"in": forecast}
    ahead = slots_ahead(slots, demand, outlook, TD_S, manager.lead_s)
    return ahead, slots_expected(slots, demand, outlook, TD_S, manager.horizon_s, UTILISATION)


@pytest.mark.parametrize("forecaster", ["basic", "auto"])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_executors_turn_as_often_as_the_load_and_still_follow_it(noise: float, forecaster: str) -> None:
    rates = load(noise, seed=1)
    requested, observed = steer(rates, forecaster)
    # Three waves turn five times: at each top, and between two waves.
    assert turns(load(0.0, 0).tolist()) == 2 * WAVES - 1
    assert turns(requested) <= 1.3 * (2 * WAVES - 1), requested
    assert max(requested) == 4 and min(requested[PERIOD_S:]) <= 2, "they follow"
    assert np.mean(observed) < 0.9 * max(observed)
    # What is there carries what comes, but for moments.
    short = np.mean(rates * EXECUTION_S > np.array(observed))
    assert short < 0.05


def test_one_that_has_just_come_is_kept_for_as_long_as_its_start_cost() -> None:
    clock = ManualClock()
    scheduler = FakeScheduler(present=1, cores=1)
    settings = ExecutorSettings(minimum=1, maximum=4, release_after_s=0.0, start_price_s=20.0)
    manager = ExecutorManager(scheduler, settings, clock.now_s)
    manager.request(3)
    clock.sleep_s(5.0)
    manager.request(1)
    clock.sleep_s(13.0)
    scheduler.come(3)
    # 18 s after they were asked for, 13 s after they were needed last.
    assert manager.keep_house().requested == 3
    clock.sleep_s(19.0)
    assert manager.keep_house().requested == 3
    clock.sleep_s(2.0)
    assert manager.keep_house().requested == 1
