"""Dead letters: what is kept of them, and how they add up."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from foretide.transport import ArrowLog
from foretide.transport.dead_letters import (
    DEAD_LETTERS,
    DeadLetter,
    add_failures,
    dead_letter_batch,
    failures_of,
    read_letters,
)


def letter(number: int, operator: str = "split", error: str = "KeyError", where: str = "job.py:7: x") -> DeadLetter:
    return DeadLetter(operator, error, f"no {number}", f'{{"id": {number}}}', where)


def test_letters_of_the_same_exception_from_the_same_line_are_one_failure() -> None:
    letters = [letter(1), letter(2), letter(3, error="ValueError"), letter(4), letter(5, where="job.py:9: y")]
    found = failures_of([*letters, letter(6, operator="count")])
    assert [(f.operator, f.error, f.where, f.count) for f in found] == [
        ("split", "KeyError", "job.py:7: x", 3),
        ("split", "ValueError", "job.py:7: x", 1),
        ("split", "KeyError", "job.py:9: y", 1),
        ("count", "KeyError", "job.py:7: x", 1),
    ]
    assert (found[0].message, found[0].event) == ("no 1", '{"id": 1}')


def test_failures_add_up_and_keep_the_first_event() -> None:
    total = add_failures(add_failures({}, failures_of([letter(1)])), failures_of([letter(2), letter(3)]))
    [failure] = total.values()
    assert (failure.count, failure.event) == (3, '{"id": 1}')


def test_a_long_event_is_shown_in_part() -> None:
    [failure] = failures_of([DeadLetter("split", "E", "m" * 10_000, "x" * 10_000)])
    assert len(failure.event) == 300 and failure.event.endswith("…")
    assert len(str(failure)) < 1000
    assert str(failure).startswith("operator 'split' failed on 1 event: E: mmm")


def test_a_log_of_a_version_that_kept_no_lines_can_still_be_read(tmp_path: Path) -> None:
    log = ArrowLog(tmp_path, edge="dead letters")
    before = pa.record_batch({name: [f"old {name}"] for name in DEAD_LETTERS.names if name != "where"})
    for batch_id, rows in enumerate((before, dead_letter_batch([letter(1)]))):
        writer = log.begin("in", batch_id)
        writer.commit([writer.segment_writer(rows.schema).write([rows])])
    found = read_letters(log)
    assert found.schema.names == DEAD_LETTERS.names
    assert found["where"].to_pylist() == ["", "job.py:7: x"]
    assert found["event"].to_pylist() == ["old event", '{"id": 1}']
    assert read_letters(ArrowLog(tmp_path / "none", edge="dead letters")).num_rows == 0
