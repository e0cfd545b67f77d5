"""One owner of Spark's target: the plan and the bypass of slow executors do not overwrite each other's requests."""

from __future__ import annotations

from typing import Any

from schedulers import FakeScheduler

from foretide.clock import ManualClock
from foretide.spark.executors import ExecutorManager, ExecutorSettings
from foretide.spark.executors.holdings import Holding
from foretide.spark.executors.manager import ExecutorCounts
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
    assert scheduler.asked == [4], "to let one go does not change what Spark was asked for"


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


def test_one_that_lingers_is_replaced_at_once_and_by_one_only() -> None:
    scheduler, clock = FakeScheduler(present=3, ignored=("decommission",)), ManualClock()
    _, bypass = both(scheduler, clock, kill_after_s=10.0)
    bypass.bypass("1", "slow")
    # The cluster counts the one that lingers: three that work are four.
    assert scheduler.asked == [4]
    scheduler.come(4)
    clock.sleep_s(1.0)
    bypass.present()
    assert scheduler.asked == [4, 3], "nothing is started when the one that lingers has gone"
    clock.sleep_s(10.0)
    bypass.present()
    assert scheduler.told == [("decommission", "1"), ("kill", "1")]
    assert scheduler.asked == [4, 3]


def test_a_master_that_starts_executors_at_once_is_asked_for_one_more_for_a_moment_only() -> None:
    scheduler, clock = FakeScheduler(present=3, ignored=("decommission",)), ManualClock()
    scheduler.starts_at_once, scheduler.busy = True, {"1"}
    _, bypass = both(scheduler, clock)
    bypass.bypass("1", "slow")
    assert scheduler.asked == [4, 3]
    clock.sleep_s(1.0)
    bypass.present()
    assert scheduler.asked == [4, 3], "the one that was started is on its way"


def release(manager: ExecutorManager, clock: ManualClock) -> ExecutorCounts:
    """Let one be enough, though jobs always run: none goes before a quiet moment was waited for."""
    assert manager.request(1).leaving == 0
    clock.sleep_s(10.0)
    return manager.keep_house()


class TestQuietMoments:
    """Executors go between batches: one that is planned while they leave would wait for them."""

    def test_none_goes_while_a_job_runs_and_there_are_moments_without(self) -> None:
        scheduler, clock = FakeScheduler(present=3), ManualClock()
        manager, _ = both(scheduler, clock)
        scheduler.running = {7}
        for _ in range(4):
            assert manager.request(1).observed == 3
            clock.sleep_s(1.0)
        scheduler.running = set()
        assert manager.keep_house().observed == 1
        scheduler.come(3)
        manager.request(3)
        scheduler.running = {8}
        manager.request(1)
        clock.sleep_s(9.0)
        assert manager.keep_house().observed == 3, "it waits anew"

    def test_one_that_is_needed_again_meanwhile_stays(self) -> None:
        scheduler, clock = FakeScheduler(present=2), ManualClock()
        manager, _ = both(scheduler, clock)
        scheduler.running = {7}
        manager.request(1)
        clock.sleep_s(9.0)
        manager.request(2)
        manager.request(1)
        clock.sleep_s(2.0)
        assert manager.keep_house().observed == 2 and scheduler.told == []

    def test_those_that_hold_nothing_are_ended_and_the_others_decommissioned(self) -> None:
        scheduler, clock = FakeScheduler(present=4), ManualClock()
        scheduler.held = {"0": Holding(), "1": Holding(blocks=2), "2": Holding(), "3": Holding(blocks=1)}
        manager, _ = both(scheduler, clock)
        counts = manager.request(1)
        assert scheduler.told == [("kill", "2", "0"), ("decommission", "3")]
        assert (counts.observed, counts.leaving) == (1, 0)

    def test_those_on_their_way_are_given_up_as_patiently_as_those_that_came(self) -> None:
        scheduler, clock = FakeScheduler(present=1), ManualClock()
        settings = ExecutorSettings(minimum=1, maximum=6, release_after_s=10.0, start_price_s=0.0)
        manager = ExecutorManager(scheduler, settings, clock.now_s)
        scheduler.running = {7}
        assert manager.request(3).requested == 3
        clock.sleep_s(5.0)
        assert manager.request(2).requested == 3, "three were needed five seconds ago"
        clock.sleep_s(10.0)
        # No executor goes, so no quiet moment is waited for.
        assert manager.keep_house().requested == 2 and scheduler.told == []


class TestWhereSparkDoesNotDecommission:
    """An executor that is told to go would ignore it: it gets no tasks, and is killed when nobody needs it."""

    def scene(self, **more: Any) -> tuple[FakeScheduler, ManualClock, ExecutorManager]:
        scheduler, clock = FakeScheduler(present=2, kills=True, **more), ManualClock()
        return scheduler, clock, both(scheduler, clock)[0]

    def test_one_that_does_nothing_goes_with_the_next_look(self) -> None:
        scheduler, clock, manager = self.scene()
        counts = manager.request(1)
        assert (counts.observed, counts.leaving) == (1, 1)
        clock.sleep_s(1.0)
        counts = manager.keep_house()
        # Spark's target is lowered first, so that nothing is started in its place.
        assert scheduler.calls == [("request", 1), ("decommission", "1"), ("kill", "1")]
        assert (counts.observed, counts.leaving) == (1, 0)

    def test_a_job_that_spark_lists_a_moment_later_counts(self) -> None:
        scheduler, clock, manager = self.scene()
        manager.request(1)
        scheduler.running = {7}
        clock.sleep_s(0.5)
        manager.keep_house()
        clock.sleep_s(1.0)
        assert manager.keep_house().leaving == 1

    def test_its_tasks_end_first_and_the_jobs_that_may_want_what_it_computed(self) -> None:
        scheduler, clock, manager = self.scene()
        scheduler.busy, scheduler.running = {"1"}, {7}
        assert release(manager, clock).leaving == 1
        scheduler.busy = set()
        clock.sleep_s(1.0)
        assert manager.keep_house().leaving == 1, "job 7 may still read its shuffle files"
        scheduler.running = {8}
        clock.sleep_s(1.0)
        assert manager.keep_house().leaving == 0
        assert scheduler.told == [("decommission", "1"), ("kill", "1")]

    def test_one_that_stays_busy_is_killed_in_the_end(self) -> None:
        scheduler, clock, manager = self.scene()
        scheduler.busy, scheduler.running = {"1"}, {7}
        release(manager, clock)
        clock.sleep_s(30.0)
        assert manager.keep_house().leaving == 1
        clock.sleep_s(1.0)
        assert manager.keep_house().leaving == 0

    def test_one_that_is_wanted_again_is_replaced_while_it_lingers(self) -> None:
        scheduler, clock, manager = self.scene()
        scheduler.busy, scheduler.running = {"1"}, {7}
        release(manager, clock)
        counts = manager.request(2)
        assert scheduler.asked == [1, 3], "one works, one lingers, one is to come"
        assert (counts.requested, counts.observed, counts.leaving) == (2, 1, 1)
        scheduler.come(3)
        clock.sleep_s(1.0)
        assert manager.keep_house().observed == 2
        assert scheduler.asked == [1, 3, 2]

    def test_one_that_was_killed_holds_no_seat(self) -> None:
        scheduler, clock, manager = self.scene(ignored=("kill",))
        manager.request(1)
        clock.sleep_s(1.0)
        manager.keep_house()
        assert manager.request(2).leaving == 1, "Spark still lists it"
        assert scheduler.asked == [1, 2]


def test_one_that_moves_its_blocks_may_take_its_time_unless_another_needs_its_cores() -> None:
    scheduler, clock = FakeScheduler(present=2, ignored=("decommission",)), ManualClock()
    manager, _ = both(scheduler, clock)
    scheduler.busy, scheduler.running = {"1"}, {7}
    release(manager, clock)
    scheduler.busy, scheduler.running = set(), {8}
    clock.sleep_s(5.0)
    assert manager.keep_house().leaving == 1
    scheduler.running = {7, 8}
    assert manager.request(2).leaving == 1, "job 7 ran when it was told to go, and may want its shuffle files"
    scheduler.running = {8}
    clock.sleep_s(1.0)
    assert manager.keep_house().leaving == 0
    assert scheduler.told == [("decommission", "1"), ("kill", "1")]


def test_those_that_hold_least_go() -> None:
    scheduler, clock = FakeScheduler(present=4), ManualClock()
    scheduler.held = {"0": Holding(state=8), "1": Holding(tasks=1), "2": Holding(blocks=3), "3": Holding(state=9)}
    manager, _ = both(scheduler, clock)
    manager.request(2)
    assert scheduler.told == [("decommission", "1", "0")]


def test_an_executor_that_was_lost_is_asked_for_again_without_a_plan() -> None:
    scheduler, clock = FakeScheduler(present=1), ManualClock()
    manager, _ = both(scheduler, clock)
    manager.request(3)
    scheduler.come(3)
    clock.sleep_s(20.0)
    manager.keep_house()
    assert scheduler.asked == [3]
    scheduler.leave("1")
    manager.keep_house()
    assert scheduler.asked == [3, 3]
    clock.sleep_s(9.0)
    manager.keep_house()
    assert scheduler.asked == [3, 3], "not more often than every ten seconds"


def test_executors_that_nobody_asked_for_are_released_as_well() -> None:
    scheduler, clock = FakeScheduler(present=1), ManualClock()
    manager, _ = both(scheduler, clock)
    manager.request(1)
    scheduler.come(4)  # a master of Spark's own gives all it has to who asks for nothing
    counts = manager.keep_house()
    assert scheduler.calls == [("request", 1), ("decommission", "3", "2", "1")]
    assert (counts.requested, counts.observed) == (1, 1)


def test_more_are_planned_than_there_were_and_fewer_than_have_come_meanwhile() -> None:
    scheduler, clock = FakeScheduler(present=1), ManualClock()
    manager, _ = both(scheduler, clock)
    scheduler.come(4)
    counts = manager.request(3)
    assert scheduler.told == [("decommission", "3")]
    assert (counts.requested, counts.observed) == (3, 3)


def test_never_replaced_means_one_fewer_for_good() -> None:
    scheduler, clock = FakeScheduler(present=3), ManualClock()
    manager, bypass = both(scheduler, clock, replacement="never")
    bypass.bypass("1", "slow")
    bypass.readmit("1")
    manager.request(4)
    assert scheduler.asked == [2, 3]
    assert bypass.present() == ("0", "2")
