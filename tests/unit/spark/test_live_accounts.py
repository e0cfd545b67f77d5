"""What tasks of a live stage add up, and what becomes of it on the driver."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foretide.spark.errors import OperatorError
from foretide.spark.live.accounts import LiveAccounts
from foretide.spark.live.tally import Tally
from foretide.spark.settings import EngineSettings
from foretide.transport.dead_letters import Failure


def result(rows: int, *, failed: int = 0, due_s: float = 99.9) -> dict[str, Any]:
    """Return what a program reports of so many rows that were due at an instant."""
    failure = Failure("work", "ValueError", "no", "{}", "job.py:3", failed)
    return {
        "operators": {"work": (rows, rows - failed, 0.5, 1.0, failed, 0.1, 0.25)},
        "edges": {"0": rows},
        "event_times": [[int(due_s * 100), rows - failed]] if rows > failed else [],
        "letters_left_out": failed // 2,
        "failures": [failure.to_json()] if failed else [],
        "worker": {"id": "w", "machine": "m", "stage": 7, "started_at_s": 0, "took_s": 9, "sending_s": 0, "parcels": 1},
    }


def report_of(*results: dict[str, Any]) -> dict[str, Any]:
    tally = Tally(2)
    for one in results:
        tally.add("in", one["operators"]["work"][0], [one], committed_at_s=100.0, took_s=0.02)
    tally.reached("in", {0: 12, 3: 40}, {0: 11})
    return json.loads(json.dumps(tally.take()))


def test_transactions_of_a_task_add_up() -> None:
    report = report_of(result(10), result(30, failed=2))
    assert report["operators"] == {"work": [40, 38, 1.0, 2.0, 2, 0.2, 0.5]}
    assert (report["replica"], report["rows"], report["transactions"]) == (2, {"in": 40}, 2)
    assert (report["read"], report["committed"]) == ({"in": {"0": 12, "3": 40}}, {"in": {"0": 11}})
    assert [failure["count"] for failure in report["failures"]] == [2]
    assert report["worker"]["took_s"] == pytest.approx(0.02)


def test_what_was_taken_is_not_reported_again_but_offsets_are() -> None:
    tally = Tally(0)
    tally.add("in", 1, [result(1)], 100.0, 0.02)
    tally.reached("in", {0: 1}, {})
    tally.take()
    again = tally.take()
    assert (again["transactions"], again["operators"], again["read"]) == (0, {}, {"in": {0: 1}})


def test_reports_of_a_second_become_a_batch() -> None:
    accounts = LiveAccounts("in", EngineSettings())
    accounts.add(report_of(result(10), result(20)))
    accounts.add(report_of(result(30)))
    accounts.close(2, 3, {"work": 2}, version=4)
    [batch] = accounts.batches
    assert (batch.stage, batch.batch_id, batch.slots, batch.rows, batch.plan_version) == ("in", 0, 2, {"in": 60}, 4)
    assert (batch.turns, batch.turn_s) == (1, pytest.approx(0.02))
    assert batch.by_operator()["work"].rows_in == 60 and batch.edges == {0: 60}
    assert batch.latency.count == 60 and batch.latency.mean_s == pytest.approx(0.095, abs=1e-6)
    assert accounts.totals.rows == 60


def test_a_second_in_which_nothing_was_done_is_no_batch() -> None:
    accounts = LiveAccounts("in", EngineSettings())
    accounts.add(report_of())
    accounts.close(1, 1, {"work": 1}, version=1)
    assert not accounts.batches


def test_too_many_failures_stop_the_stage() -> None:
    accounts = LiveAccounts("in", EngineSettings(failed_window=10))
    accounts.add(report_of(result(100, failed=90)))
    with pytest.raises(OperatorError, match="'work': expected to fail on at most 50%"):
        accounts.close(1, 1, {"work": 1}, version=1)
    assert [failure.count for failure in accounts.watch.failures.values()] == [90]
    assert accounts.letters_left_out == 45
