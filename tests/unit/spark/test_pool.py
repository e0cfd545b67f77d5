"""When workers are warmed up, without Spark; what it does to them is in tests/spark."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import wait_for

from foretide.spark.pool import pool
from foretide.spark.pool.pool import ReplicaPool


class Stopped:
    """A context that answers no more."""

    @property
    def defaultParallelism(self) -> int:  # noqa: N802 - as Spark calls it
        raise RuntimeError("stopped")


class Counting(ReplicaPool):
    """A pool that only takes note of how many workers it would have touched."""

    def __init__(self, cores: int, slots: int, every_s: float) -> None:
        context = SimpleNamespace(defaultParallelism=cores)
        spark: Any = SimpleNamespace(sparkContext=context)
        super().__init__(spark, slots, every_s=every_s)
        self.context, self.touched, self.fails = context, list[int](), threading.Event()

    def warm_up(self) -> None:
        self.touched.append(self.slots)
        if self.fails.is_set():
            raise RuntimeError("no cluster")


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_LOOK_S", 0.01)


def test_an_executor_that_comes_later_gets_its_workers_when_it_comes() -> None:
    made = Counting(cores=2, slots=8, every_s=3_600.0)
    made.start()
    made.context.defaultParallelism = 4
    wait_for(lambda: made.touched == [2, 4])
    made.context.defaultParallelism = 2
    made.context.defaultParallelism = 16
    wait_for(lambda: made.touched == [2, 4, 8])
    made.stop()


def test_workers_are_kept_from_idling_away() -> None:
    made = Counting(cores=2, slots=1, every_s=0.02)
    made.start()
    wait_for(lambda: len(made.touched) >= 3)
    made.stop()
    assert set(made.touched) == {1}


def test_a_cluster_that_does_not_answer_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    made = Counting(cores=2, slots=2, every_s=0.02)
    made.start()
    made.fails.set()
    wait_for(lambda: "could not be kept warm" in caplog.text)
    made.fails.clear()
    count = len(made.touched)
    wait_for(lambda: len(made.touched) > count)
    made.stop()


def test_a_session_that_was_stopped_is_no_fault_of_the_pool(caplog: pytest.LogCaptureFixture) -> None:
    made = Counting(cores=2, slots=2, every_s=3_600.0)
    made.start()
    made._spark.sparkContext = Stopped()  # type: ignore[misc]
    assert not made._has_grown()
    assert made.is_alive and not caplog.text
    made.stop()


def test_with_its_session_the_pool_ends_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    made = Counting(cores=2, slots=2, every_s=0.02)
    made.start()
    made._spark.sparkContext = SimpleNamespace(_jsc=None, defaultParallelism=2)  # type: ignore[misc]
    wait_for(lambda: not made.is_alive)
    assert not caplog.text
