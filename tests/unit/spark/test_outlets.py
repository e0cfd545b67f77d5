"""Rows that tasks send out of the topology themselves, in this process; brokers and databases are in tests/spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from topologies import line, step

from foretide.spark.sinks.outlets import kept_connection

Local = Callable[..., Any]
SENT: dict[tuple[int, str], list[dict[str, Any]]] = {}
EXPECTED: list[tuple[int, str]] = []


@dataclass(frozen=True)
class Noted:
    """An outlet that takes note of what is sent, once for each task of a batch."""

    sink: str = "out"

    def encode(self, batch: pa.RecordBatch, /) -> pa.RecordBatch:
        return batch.append_column("encoded", pa.array([True] * batch.num_rows))

    def expect(self, batch_id: int, task: str) -> None:
        EXPECTED.append((batch_id, task))

    def send(self, batch_id: int, task: str, rows: Sequence[pa.RecordBatch]) -> None:
        SENT.setdefault((batch_id, task), [row for batch in rows for row in batch.to_pylist()])


@pytest.fixture(autouse=True)
def nothing_sent() -> Iterator[None]:
    SENT.clear()
    EXPECTED.clear()
    yield


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def fails_on_seven(row: dict[str, Any]) -> dict[str, Any]:
    if row["id"] == 7:
        raise ValueError("seven")
    return row


def numbers(*parts: Sequence[int]) -> list[pa.RecordBatch]:
    return [pa.record_batch({"id": pa.array(part, pa.int64())}) for part in parts]


def stage_of(local_stage: Local, grouping: str, first: Any = same) -> Any:
    mode = "arrow" if first is same else "rows"
    steps = step("a", first, mode=mode), step("b", same, grouping=grouping)
    return local_stage(line(*steps, mode="arrow", sink={"kind": "memory"}), "in")


def run(stage: Any, parts: Sequence[pa.RecordBatch], slots: int = 2, batch_id: int = 4) -> Any:
    [out] = [plan.number for plan in stage.stage.edges if plan.edge.end == "out"]
    return stage.run({"in": parts}, slots, batch_id=batch_id, outlets={out: Noted()}, collected=frozenset())


def ids(rows: Sequence[dict[str, Any]]) -> list[int]:
    return sorted(row["id"] for row in rows)


def test_each_task_sends_its_rows_and_none_comes_to_the_driver(local_stage: Local) -> None:
    batch = run(stage_of(local_stage, "shuffle"), numbers([1, 2], [3], [4]))
    assert {task: ids(rows) for (_, task), rows in SENT.items()} == {"0-0": [1, 2, 4], "0-1": [3]}
    assert all(row["encoded"] for rows in SENT.values() for row in rows)
    assert not batch.at("out") and {batch_id for batch_id, _ in SENT} == {4}
    assert sorted(EXPECTED) == sorted(SENT)  # each once, ahead of what is sent


def test_after_an_exchange_tasks_have_names_of_that_round(local_stage: Local) -> None:
    run(stage_of(local_stage, "fields:id"), numbers(range(20), range(20, 40)), slots=3)
    assert {task for _, task in SENT} == {"1-0", "1-1", "1-2"}
    assert ids([row for rows in SENT.values() for row in rows]) == list(range(40))


def test_a_task_without_rows_sends_nothing(local_stage: Local) -> None:
    run(stage_of(local_stage, "shuffle"), numbers([1]))
    assert list(SENT) == [(4, "0-0")]


def test_rows_of_a_task_on_which_an_event_fails_are_left_to_the_driver(local_stage: Local) -> None:
    batch = run(stage_of(local_stage, "shuffle", fails_on_seven), numbers([1, 2], [6, 7, 8]))
    assert {task: ids(rows) for (_, task), rows in SENT.items()} == {"0-0": [1, 2]}
    assert ids(batch.at("out")) == [6, 8] and batch.senders == {"0-1"}


def test_so_are_rows_of_all_tasks_after_the_exchange_behind_it(local_stage: Local) -> None:
    batch = run(stage_of(local_stage, "fields:id", fails_on_seven), numbers([1, 2], [6, 7, 8]), slots=3)
    assert not SENT
    assert ids(batch.at("out")) == [1, 2, 6, 8]
    assert all(sender.startswith("1-") for sender in batch.senders)


class Connection:
    def __init__(self, name: str) -> None:
        self.name, self.open = name, True

    def close(self) -> None:
        self.open = False


def test_a_worker_keeps_one_connection_to_a_sink_by_its_last_name() -> None:
    first = kept_connection("sink", "run-0-1", Connection, Connection.close)
    assert kept_connection("sink", "run-0-1", Connection, Connection.close) is first
    second = kept_connection("sink", "run-0-2", Connection, Connection.close)
    assert (first.open, second.open, second.name) == (False, True, "run-0-2")
    assert kept_connection("other", "run-0-2", Connection, Connection.close) is not second


def test_a_process_that_was_forked_connects_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    first = kept_connection("forked", "run-0-1", Connection, Connection.close)
    monkeypatch.setattr("os.getpid", lambda: 4_000_000)
    assert kept_connection("forked", "run-0-1", Connection, Connection.close) is not first
    assert first.open
