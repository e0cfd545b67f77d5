"""One owner of Spark's target: the plan and the bypass of slow executors do not overwrite each other's requests."""

from __future__ import annotations

from typing import Any

from schedulers import FakeScheduler

from foretide.clock import ManualClock
from foretide.spark.steering.executors import ExecutorManager, ExecutorSettings
from foretide.spark.workers.bypassing import ExecutorBypass


def both(scheduler: FakeScheduler, clock: ManualClock, **more: Any) -> tuple[ExecutorManager, ExecutorBypass]:
    settings = ExecutorSettings(minimum=1, maximum=6, release_after_s=0.0, kill_after_s=30.0, lead_s=0.0)
    manager = ExecutorManager(scheduler, settings, clock.now_s)
    return manager, ExecutorBypass(scheduler, ticks=clock.now_s, **more)


def test_a_bypass_replaces_one_of_what_the_plan_asked_for_and_not_of_what_has_come() -> None:
    scheduler, clock = FakeScheduler(present=2), ManualClock()
    manager, bypass = both(scheduler, clock)
    manager.request(4)
    bypass.bypass("1", "slow")  # two of the four are still on their way
    assert scheduler.asked == [4, 4]


def test_a_plan_does_not_refill_the_seat_of_a_bypassed_executor_before_its_cool_down_ends() -> None:
    scheduler, clock = FakeScheduler(present=3), ManualClock()
    manager, bypass = both(scheduler, clock, replacement="after cool-down")
    manager.request(3)
    bypass.bypass("1", "slow")
    counts = manager.request(3)
    assert scheduler.asked == [2]
    assert (counts.planned, counts.requested, counts.observed) == (3, 2, 2)
    bypass.readmit("1")
    assert scheduler.asked == [2, 3]


def test_a_plan_that_grows_meanwhile_still_leaves_the_seat_empty() -> None:
    scheduler, clock = FakeScheduler(present=3), ManualClock()
    manager, bypass = both(scheduler, clock, replacement="after cool-down")
    bypass.bypass("1", "slow")
    manager.request(5)
    assert scheduler.asked == [2, 4]
    bypass.readmit("1")
    assert scheduler.asked == [2, 4, 5]


def test_an_executor_on_its_way_out_is_neither_counted_nor_dismissed_by_the_plan() -> None:
    scheduler, clock = FakeScheduler(present=4, ignored=("decommission",)), ManualClock()
    manager, bypass = both(scheduler, clock)
    bypass.bypass("3", "slow")
    assert manager.counts().observed == 3
    manager.request(2)
    # The youngest that still works goes; executor 3 is going already.
    assert scheduler.told == [("decommission", "3"), ("decommission", "2")]
    assert bypass.present() == ("0", "1")


def test_an_executor_that_the_plan_dismissed_is_nothing_to_bypass_any_more() -> None:
    scheduler, clock = FakeScheduler(present=3, ignored=("decommission",)), ManualClock()
    manager, bypass = both(scheduler, clock)
    manager.request(2)
    assert bypass.present() == ("0", "1")


def test_the_target_is_set_again_after_a_kill_which_lowers_sparks_own() -> None:
    scheduler, clock = FakeScheduler(present=3, ignored=("decommission",)), ManualClock()
    manager, bypass = both(scheduler, clock, kill_after_s=10.0)
    manager.request(3)
    bypass.bypass("1", "slow")
    clock.sleep_s(11.0)
    bypass.present()
    assert scheduler.calls[-2:] == [("kill", "1"), ("request", 3)]


def test_never_replaced_means_one_fewer_for_good() -> None:
    scheduler, clock = FakeScheduler(present=3), ManualClock()
    manager, bypass = both(scheduler, clock, replacement="never")
    bypass.bypass("1", "slow")
    bypass.readmit("1")
    manager.request(4)
    assert scheduler.asked == [2, 3]
    assert bypass.present() == ("0", "2")
