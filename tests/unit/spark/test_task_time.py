"""How long tasks of a batch ran, from an account of jobs that is made up here."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from foretide.spark.attached.task_time import TaskTime


class Spark:
    """Jobs by number, each with what Spark tells of it, and milliseconds of stages."""

    def __init__(self) -> None:
        self.jobs: dict[int, dict[str, Any]] = {}
        self.ran_ms: dict[int, int] = {}
        self.begun = 0
        self.asked: list[int] = []

    def add(self, batch: int | None, *ran_ms: int, run: str = "run-1", status: str = "SUCCEEDED") -> int:
        stages = [len(self.ran_ms) + place for place in range(len(ran_ms))]
        self.ran_ms.update(zip(stages, ran_ms, strict=True))
        text = "count at job.py:7" if batch is None else f"orders\nid = q\nrunId = {run}\nbatch = {batch}"
        group = None if batch is None else run
        self.jobs[self.begun] = {"status": status, "description": text, "jobGroup": group, "stageIds": stages}
        self.begun += 1
        return self.begun - 1

    def job(self, number: int) -> dict[str, Any]:
        self.asked.append(number)
        return self.jobs[number]

    def context(self) -> Any:
        stage = lambda number: SimpleNamespace(executorRunTime=lambda: self.ran_ms[number])  # noqa: E731
        store = SimpleNamespace(job=self.job, lastStageAttempt=stage)
        scheduler = SimpleNamespace(nextJobId=lambda: self.begun)
        java = SimpleNamespace(statusStore=lambda: store, dagScheduler=lambda: scheduler)
        mapper = SimpleNamespace(registerModule=lambda module: SimpleNamespace(writeValueAsString=json.dumps))
        jackson = SimpleNamespace(
            databind=SimpleNamespace(ObjectMapper=lambda: mapper),
            module=SimpleNamespace(scala=SimpleNamespace(DefaultScalaModule=lambda: None)),
        )
        jvm = SimpleNamespace(com=SimpleNamespace(fasterxml=SimpleNamespace(jackson=jackson)))
        return SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: java), _jvm=jvm)


def test_all_stages_of_all_jobs_of_a_batch_count_by_the_slots_of_an_executor() -> None:
    spark = Spark()
    spark.add(0, 5_000)  # before anybody looked
    times = TaskTime(spark.context(), cores=lambda: 2)
    spark.add(1, 300, 100)
    spark.add(1, 100)
    spark.add(None, 9_000)
    times.look()
    assert (times.of_batch("run-1", 1), times.of_batch("run-1", 0)) == (0.25, None)


def test_a_job_is_looked_up_until_it_has_ended_and_then_no_more() -> None:
    spark = Spark()
    times = TaskTime(spark.context(), cores=lambda: 1)
    number = spark.add(4, 250, status="RUNNING")
    times.look()
    assert times.of_batch("run-1", 4) is None
    spark.jobs[number]["status"] = "SUCCEEDED"
    times.look()
    times.look()
    assert times.of_batch("run-1", 4) == 0.25 and spark.asked == [number, number]


def test_a_job_that_is_not_in_the_account_yet_is_looked_for_again_but_not_for_ever() -> None:
    spark = Spark()
    times = TaskTime(spark.context(), cores=lambda: 1)
    late, never = spark.add(1, 100), spark.add(2, 100)
    told = spark.jobs.pop(late)
    del spark.jobs[never]
    times.look()
    spark.jobs[late] = told
    for _ in range(10):
        times.look()
    assert (times.of_batch("run-1", 1), times.of_batch("run-1", 2)) == (0.1, None)
    assert spark.asked.count(late) == 2 and spark.asked.count(never) == 5
