"""What Spark did for an operator on DataFrames, read from its own account."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from foretide.spark.batches.spark_account import SparkAccount, SparkWork, add_spark_work
from foretide.spark.tasks.statistics import BatchStatistics, OperatorStatistics


class Values(tuple[Any, ...]):
    """A sequence of Scala's."""

    def size(self) -> int:
        return len(self)

    def apply(self, place: int) -> Any:
        return self[place]


class Status:
    """Spark's account of jobs: stages by job, and milliseconds, nanoseconds and records by stage."""

    def __init__(self, jobs: Mapping[int, Sequence[int]], stages: Mapping[int, tuple[int, int, int]]) -> None:
        self.jobs, self.stages = dict(jobs), dict(stages)
        self.running: dict[int, int] = {}
        self.asked: list[int] = []

    def getJobIdsForGroup(self, group: str) -> list[int]:  # noqa: N802 - Spark's name
        assert group == "query"
        return sorted(self.jobs, reverse=True)

    def job(self, number: int) -> Any:
        self.asked.append(number)
        left = self.running.get(number, 0)
        self.running[number] = left - 1
        status = SimpleNamespace(toString=lambda: "RUNNING" if left > 0 else "SUCCEEDED")
        return SimpleNamespace(status=lambda: status, stageIds=lambda: Values(self.jobs[number]))

    def lastStageAttempt(self, number: int) -> Any:  # noqa: N802
        run_ms, cpu_ns, records = self.stages[number]
        return SimpleNamespace(
            stageId=lambda: number,
            executorRunTime=lambda: run_ms,
            executorCpuTime=lambda: cpu_ns,
            inputRecords=lambda: records,
        )

    def session(self) -> Any:
        java = SimpleNamespace(statusTracker=lambda: self, statusStore=lambda: self)
        context = SimpleNamespace(
            _jsc=SimpleNamespace(sc=lambda: java), getLocalProperty={"spark.jobGroup.id": "query"}.get
        )
        return SimpleNamespace(sparkContext=context)


def results(*stages: int) -> list[dict[str, Any]]:
    return [{"worker": {"stage": stage}} for stage in stages]


def test_stages_before_our_first_round_count_and_those_after_it_do_not() -> None:
    status = Status({3: [5, 6, 7]}, {5: (400, 200_000_000, 100), 6: (300, 100_000_000, 0), 7: (900, 800_000_000, 0)})
    # Our tasks of the first round are stage 6, those after an exchange stage 7: they measure themselves.
    assert SparkAccount(status.session()).of_batch(results(6, 6, 7)) == SparkWork(100, 0.4, pytest.approx(0.3))


def test_each_batch_has_the_jobs_since_the_one_before() -> None:
    status = Status({0: [0, 1]}, {0: (100, 0, 10), 1: (0, 0, 0)})
    account = SparkAccount(status.session())
    assert account.of_batch(results(1)).busy_s == 0.1
    # An adaptive plan runs a stage before an exchange as a job of its own.
    status.jobs |= {1: [2], 2: [3, 4]}
    status.stages |= {2: (200, 0, 7), 3: (0, 0, 0), 4: (50, 0, 0)}
    status.asked.clear()
    assert account.of_batch(results(4)) == SparkWork(7, 0.2, 0.0)
    assert status.asked == [2, 1]


def test_a_job_that_the_account_still_has_as_running_is_looked_at_again() -> None:
    status = Status({0: [0, 1]}, {0: (100, 0, 10), 1: (0, 0, 0)})
    status.running[0] = 2
    assert SparkAccount(status.session()).of_batch(results(1)).busy_s == 0.1
    assert status.asked == [0, 0, 0]


def test_an_account_that_cannot_be_read_is_told_once_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    account = SparkAccount(Status({0: [0]}, {}).session())
    with caplog.at_level(logging.WARNING):
        assert account.of_batch(results(1)) == account.of_batch(results(1)) == SparkWork()
    assert caplog.text.count("busy times are too low") == 1
    assert SparkAccount(None).of_batch([{"worker": None}]) == SparkWork()  # type: ignore[arg-type]


def test_replicas_share_what_spark_did_by_the_time_that_they_waited() -> None:
    batch = BatchStatistics("in", 0, 0, 2, {"in": 10}, 0.0)
    batch.operators["count", 0] = OperatorStatistics(rows_out=4, busy_s=0.1)
    batch.operators["count", 1] = OperatorStatistics(rows_out=2, busy_s=0.3)
    batch.operators["next", 0] = OperatorStatistics(6, 6, busy_s=0.5)
    add_spark_work(batch, "count", 10, SparkWork(10, 0.8, 0.4))
    done = [batch.operators["count", replica] for replica in (0, 1)]
    assert [(part.rows_in, part.rows_out) for part in done] == [(3, 4), (7, 2)]
    assert [part.busy_s for part in done] == pytest.approx([0.1 + 0.2, 0.3 + 0.6])
    assert [part.cpu_s for part in done] == pytest.approx([0.1, 0.3])
    assert batch.operators["next", 0].busy_s == 0.5


@pytest.mark.parametrize(("cores", "stalled_s"), [(None, 0.0), (8, 0.0), (2, 0.6)])
def test_where_more_tasks_compute_than_there_are_cores_they_wait_for_one(cores: int | None, stalled_s: float) -> None:
    batch = BatchStatistics("in", 0, 0, 8, {"in": 10}, 0.0)
    add_spark_work(batch, "count", 10, SparkWork(10, 0.8), cores)
    assert batch.operators["count", 0].stalled_s == pytest.approx(stalled_s)


def test_a_batch_without_tasks_of_ours_has_one_replica() -> None:
    batch = BatchStatistics("in", 0, 0, 1, {"in": 10}, 0.0)
    add_spark_work(batch, "count", 10, SparkWork(10, 0.8))
    assert batch.operators == {("count", 0): OperatorStatistics(10, busy_s=0.8)}
