"""Events that kill their worker are found and set aside."""

from __future__ import annotations

from foretide.spark.live.casualties import Casualties


def test_one_death_may_be_anyones_doing() -> None:
    found = Casualties()
    found.died("one", ["a", "b"], now_s=0.0)
    assert not found.needs_care("a", 1.0)


def test_after_two_deaths_in_a_minute_a_strand_is_worked_on_with_care() -> None:
    found = Casualties()
    found.died("one", ["a"], now_s=0.0)
    found.died("two", ["a"], now_s=10.0)
    assert found.needs_care("a", 11.0) and not found.needs_care("b", 11.0)
    assert not found.needs_care("a", 65.0)


def test_an_event_on_which_two_workers_died_is_set_aside() -> None:
    found = Casualties()
    for task in ("one", "two"):
        assert found.set_aside("a") == []
        found.trying(task, "a", (3, 17))
        found.died(task, ["a"], now_s=0.0)
    assert found.set_aside("a") == [(3, 17)] and found.set_aside("b") == []


def test_an_event_that_was_survived_is_not_blamed() -> None:
    found = Casualties()
    for task in ("one", "two"):
        found.trying(task, "a", (3, 17))
        found.tried(task)
        found.died(task, ["a"], now_s=0.0)
    assert found.set_aside("a") == []
