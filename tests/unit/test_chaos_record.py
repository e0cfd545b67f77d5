"""The record of runs in which things go wrong: what is left to do, what the page says, and whom a fault may befall."""

from __future__ import annotations

from typing import Any

from chaos_runs import in_short, left, record
from run_processes import python_workers


def row(seed: int, kind: str, faults: dict[str, int], **more: Any) -> dict[str, Any]:
    return {"seed": seed, "kind": kind, "faults": faults, "events": 1_000, "commit": "abc"} | more


ROWS = [
    row(1, "disk", {"driver killed": 2, "broker killed": 1}),
    row(2, "s3", {"driver killed": 3}, broken="2 events are missing"),
]


def test_runs_that_were_survived_are_not_made_again() -> None:
    assert left(range(1, 4), ROWS) == [2, 3]


def test_the_page_counts_what_went_wrong_by_kind_of_run() -> None:
    said = record(ROWS)
    assert said.startswith(
        "6 faults in 2 runs with 2,000 events; 1 runs survived: seed 2 (s3, commit abc): 2 events are missing."
    )
    assert "| driver killed | 2 | 3 |  |  |" in said and "| all | 3 | 3 | 0 | 0 |" in said


def test_a_run_that_is_made_again_does_not_hide_that_it_broke() -> None:
    said = record([*ROWS, row(2, "s3", {"driver killed": 3}, commit="def")])
    assert (
        "9 faults in 3 runs with 3,000 events; 2 runs survived: seed 2 (s3, commit abc): 2 events are missing" in said
    )
    assert "survived when made again at def." in said
    assert "seeds 1, 2, commit abc, def." in said


def test_where_all_survive_nothing_was_lost() -> None:
    assert "1 runs survived: nothing was lost and nothing came twice." in record(ROWS[:1])


def test_the_record_tells_in_short_what_ended_a_run() -> None:
    said = "the driver ended with 1: Traceback\n  main()\nValueError: no such topic"
    assert in_short(said) == "the driver ended with 1: ValueError: no such topic"
    assert in_short("2 events are missing") == "2 events are missing"


class Process:
    def __init__(self, pid: int, parent: int, *command: str) -> None:
        self.pid, self._parent, self._command = pid, parent, command

    def cmdline(self) -> list[str]:
        return list(self._command)

    def ppid(self) -> int:
        return self._parent


def test_workers_are_forks_of_the_daemon_and_not_what_starts_spark() -> None:
    setting = "spark.python.daemon.module=foretide.spark.pool.daemon"
    daemon = ("python", "-m", "foretide.spark.pool.daemon", "pyspark.worker")
    starting = [Process(2, 1, "bash", "spark-submit", "--conf", setting), Process(3, 2, "java", "--conf", setting)]
    running = [Process(4, 3, *daemon), Process(5, 4, *daemon)]
    assert [one.pid for one in python_workers([*starting, *running])] == [5]  # type: ignore[list-item]
