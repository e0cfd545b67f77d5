"""Spark's progress reports added up; the reports are written here."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from foretide.spark.driver.query_progress import ProgressLog


def report(rows: int, seconds: float, end: int = 0, latest: int = 0, outside_s: float = 0.1) -> dict[str, Any]:
    offsets = {"endOffset": {"topic": {"0": end}}, "latestOffset": json.dumps({"topic": {"0": latest}})}
    durations = {"triggerExecution": 1000 * seconds, "addBatch": 1000 * (seconds - outside_s)}
    return {"numInputRows": rows, "durationMs": durations, "sources": [offsets]}


class TestLog:
    def test_arrivals_are_rows_of_batches_and_those_that_wait(self) -> None:
        log = ProgressLog()
        log.add("q", "scores", report(100, 1.0, end=100, latest=140))
        log.add("q", "scores", report(30, 1.0, end=130, latest=200))
        found = log.named("scores")
        assert found is not None
        assert (found.batches, found.rows, found.backlog, found.arrived) == (2, 130, 70, 200)

    def test_reports_without_rows_keep_the_backlog_current(self) -> None:
        log = ProgressLog()
        log.add("q", None, report(10, 1.0, end=10, latest=10))
        log.add("q", None, report(0, 0.2, end=10, latest=15))
        [found] = log.totals().values()
        assert (found.batches, found.rows, found.backlog) == (1, 10, 5)

    def test_offsets_that_count_something_else_tell_of_no_backlog(self) -> None:
        log = ProgressLog()
        source = {"endOffset": {"logOffset": 3}, "latestOffset": None}
        log.add("q", None, {"numInputRows": 5, "durationMs": {"triggerExecution": 100}, "sources": [source]})
        assert log.totals()["q"].backlog == 0

    def test_a_query_that_ends_is_not_active(self) -> None:
        log = ProgressLog()
        log.expect("q", "scores")
        log.onQueryTerminated(SimpleNamespace(id="q"))  # type: ignore[arg-type]
        assert not log.totals()["q"].active
