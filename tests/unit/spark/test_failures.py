"""Which failures are told of, and when they end a stage."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from foretide.spark.batches.failures import FailureWatch
from foretide.spark.errors import OperatorError
from foretide.spark.settings import EngineSettings


def result(taken: int, failed: int, where: str = "job.py:7: rows.asign()", operator: str = "split") -> dict[str, Any]:
    """Return what a task reports that took so many events and failed on some of them."""
    failure = {"operator": operator, "error": "AttributeError", "message": "no asign", "event": '{"id": 1}'}
    return {
        "operators": {operator: (taken, taken - failed, 1.0, 0.0, failed, 0.5)} if taken else {},
        "failures": [{**failure, "where": where, "count": failed}] if failed else [],
    }


def watch(**settings: Any) -> FailureWatch:
    return FailureWatch(EngineSettings(**settings))


def test_the_first_failure_of_each_kind_is_logged_at_once_and_the_others_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = watch()
    with caplog.at_level(logging.WARNING):
        found.look([result(100, 1), result(100, 2)], {})
        found.look([result(100, 4)], {})
        found.look([result(100, 1, where="job.py:9: other")], {})
    first, second = caplog.records
    assert first.getMessage() == (
        "operator 'split' failed on 3 events: AttributeError: no asign at job.py:7: rows.asign(); "
        'the first was {"id": 1}'
    )
    assert (first.levelname, first.failure.count) == ("WARNING", 3)  # type: ignore[attr-defined]
    assert "job.py:9: other" in second.getMessage()
    assert [failure.count for failure in found.failures.values()] == [7, 1]


def test_a_stage_stops_when_more_than_half_of_the_last_thousand_events_failed() -> None:
    with pytest.raises(OperatorError) as caught:
        watch().look([result(1200, 700)], {})
    error = caught.value
    assert error.operator == "split"
    assert error.expected == "to fail on at most 50% of the last 1,200 events"
    assert error.got == (
        '700 failures (58%), such as AttributeError: no asign at job.py:7: rows.asign() on the event {"id": 1}'
    )
    assert "not committed" in error.remedy and "failed_share" in error.remedy


def test_half_is_not_more_than_half() -> None:
    watch().look([result(1000, 500)], {})


def test_few_events_say_nothing_before_there_are_enough_of_them() -> None:
    found = watch()
    for _ in range(3):
        found.look([result(300, 300)], {})
    with pytest.raises(OperatorError, match=r"last 1,200 events, got 1,200 failures \(100%\)"):
        found.look([result(300, 300)], {})


def test_what_went_well_long_ago_does_not_count() -> None:
    found = watch(failed_window=100)
    for _ in range(50):
        found.look([result(100, 0)], {})
    with pytest.raises(OperatorError, match=r"last 100 events, got 90 failures"):
        found.look([result(100, 90)], {})


def test_what_failed_before_does_not_stop_a_batch_in_which_nothing_does() -> None:
    found = watch(failed_window=1000)
    found.look([result(900, 900)], {})
    found.look([result(150, 0)], {})


def test_operators_are_judged_one_by_one() -> None:
    found = watch(failed_window=100)
    found.look([result(1000, 0), result(60, 60, operator="rare")], {})
    with pytest.raises(OperatorError, match="operator 'rare'"):
        found.look([result(1000, 0), result(60, 60, operator="rare")], {})


def test_a_share_of_one_never_stops() -> None:
    watch(failed_share=1.0).look([result(5000, 5000)], {})


def test_values_that_a_source_cannot_read_are_judged_by_what_it_read() -> None:
    found = watch(failed_window=100)
    unread = {**result(0, 60, operator="orders"), "operators": {}}
    found.look([result(40, 0)], {"orders": 500})
    found.look([result(40, 0), unread], {"orders": 200})
    with pytest.raises(OperatorError, match="operator 'orders'"):
        found.look([unread], {"orders": 100})
