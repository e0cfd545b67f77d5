"""Working on a strand: what is polled is worked on and committed, and failures lead back to what was committed."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError as ClientError
from confluent_kafka import KafkaException

from foretide.kafka.strands import StrandLost
from foretide.spark.errors import OperatorError
from foretide.spark.live.strand_work import Outcome, StrandWork, Terms
from foretide.spark.live.tally import Tally


class Reader:
    """A strand of numbers in memory, whose commits fail as a test says."""

    is_due = False

    def __init__(self, count: int, *failures: Exception) -> None:
        self._count, self._failures = count, list(failures)
        self.read, self.committed, self.sent, self.takes = {0: 0}, {0: 0}, list[int](), 0

    def take(self) -> None:
        self.takes += 1
        self.read = dict(self.committed)

    def poll(self, most: int, wait_s: float) -> list[int]:
        first = self.read[0]
        self.read[0] = min(self._count, first + min(most, 3))
        return list(range(first, self.read[0]))

    def commit(self, sent: Sequence[Any]) -> None:
        if self._failures:
            raise self._failures.pop(0)
        self.sent += [number for numbers in sent for number in numbers]
        self.committed = dict(self.read)

    def release(self) -> None:
        self.read = dict(self.committed)


RESULT: dict[str, Any] = {
    "operators": {},
    "edges": {},
    "event_times": [],
    "failures": [],
    "letters_left_out": 0,
    "worker": None,
}


def work_on(
    reader: Reader, process: Callable[[Sequence[int]], Sequence[int]] = list, *, careful: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Work on a strand until all is committed or it ends by itself; return what the driver is told, and the tally."""
    told: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    tally = Tally(0)

    def run(work: StrandWork, messages: Sequence[int]) -> Future[Outcome]:
        done: Future[Outcome] = Future()
        try:
            done.set_result(Outcome([process(messages)], RESULT))  # type: ignore[list-item]
        except Exception as error:
            done.set_exception(error)
        if messages and messages[-1] == reader._count - 1 and not reader._failures:
            work.release()
        return done

    terms = Terms(7, careful=careful)
    work = StrandWork(
        "in/0", terms, reader, run, tally, lambda _, message: told.put(message), target_s=0.001, most_rows=5
    )  # type: ignore[arg-type]
    work.start()
    found = told.get(timeout=20)
    work.join(20)
    return found, tally.take()


@pytest.mark.parametrize("careful", [False, True])
def test_all_is_worked_on_and_committed_once(careful: bool) -> None:
    reader = Reader(20)
    found, tally = work_on(reader, careful=careful)
    assert found == {"is": "released"} and reader.sent == list(range(20)) and reader.takes == 1
    assert tally["rows"] == {"in": 20} and tally["read"] == {"in": {0: 20}} and tally["transactions"] <= 7


def test_with_care_each_event_is_tried_by_itself() -> None:
    tried: list[Sequence[int]] = []
    work_on(Reader(4), lambda messages: tried.append(messages) or messages, careful=True)
    assert tried == [[0], [1], [2], [3]]


def test_after_a_transaction_that_failed_it_goes_on_from_what_was_committed() -> None:
    reader = Reader(9, KafkaException(ClientError(ClientError._TRANSPORT)))
    found, tally = work_on(reader)
    assert found == {"is": "released"} and reader.sent == list(range(9)) and reader.takes == 2
    assert tally["rows"] == {"in": 9}


def test_transactions_that_fail_again_and_again_end_the_stage() -> None:
    reader = Reader(9, *[KafkaException(ClientError(ClientError._MSG_TIMED_OUT)) for _ in range(9)])
    found, _ = work_on(reader)
    assert found["is"] == "failed" and "strand in/0: expected its transaction to be taken" in found["error"]["text"]
    assert reader.sent == []


def test_a_strand_that_was_taken_by_another_is_given_up_and_the_driver_is_told() -> None:
    reader = Reader(9, StrandLost("fenced"))
    found, _ = work_on(reader)
    assert found == {"is": "released", "lost": "fenced"} and reader.sent == [] and reader.takes == 1


def test_a_broken_contract_travels_to_the_driver() -> None:
    def break_it(messages: Sequence[int]) -> Sequence[int]:
        raise OperatorError("odd", expected="a row", got="3", remedy="return a row")

    reader = Reader(9)
    found, _ = work_on(reader, break_it)
    assert (found["is"], found["error"]["fields"]["operator"]) == ("failed", "odd") and reader.sent == []
