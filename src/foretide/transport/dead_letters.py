"""Events that could not be processed: what is kept of them, and how they add up to failures of a kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

import pyarrow as pa

from foretide.transport.contract import Log

__all__ = [
    "DEAD_LETTERS",
    "DeadLetter",
    "Failure",
    "add_failures",
    "dead_letter_batch",
    "failures_of",
    "letters_within",
    "read_letters",
]

DEAD_LETTERS = pa.schema(
    [
        ("operator", pa.string()),
        ("error", pa.string()),
        ("message", pa.string()),
        ("event", pa.string()),
        ("where", pa.string()),
    ]
)
"""The columns of the dead-letter log: who failed, how, the event in JSON, and the line that failed on it."""

_SHOWN_EVENT = 300
_SHOWN_MESSAGE = 500


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event on which an operator gave up.

    Parameters
    ----------
    operator : str
        Who gave up; for a value that a source cannot read, the source.
    error, message : str
        The class of the exception, and its text.
    event : str
        The event in JSON.
    where : str
        The line of the user's code that raised, such as ``job.py:7: return rows.asign(n=1)``; empty where there is
        none.
    """

    operator: str
    error: str
    message: str
    event: str
    where: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """The events on which an operator gave up for one reason: the same exception from the same line.

    Parameters
    ----------
    operator, error, message, event, where : str
        As in `DeadLetter`, of the first of these events; message and event are shortened.
    count : int
        How many events.

    Examples
    --------
    >>> print(Failure("split", "KeyError", "'word'", '{"id": 3}', "job.py:7: row['word']", 12))
    operator 'split' failed on 12 events: KeyError: 'word' at job.py:7: row['word']; the first was {"id": 3}
    """

    operator: str
    error: str
    message: str
    event: str
    where: str
    count: int

    @property
    def kind(self) -> tuple[str, str, str]:
        """What is the same for all of its events."""
        return self.operator, self.error, self.where

    @property
    def cause(self) -> str:
        """The exception and where it arose."""
        place = f" at {self.where}" if self.where else ""
        return f"{self.error}: {self.message}{place}"

    def __str__(self) -> str:
        events = f"{self.count:,} event{'s' if self.count != 1 else ''}"
        return f"operator {self.operator!r} failed on {events}: {self.cause}; the first was {self.event}"

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def dead_letter_batch(letters: Iterable[DeadLetter]) -> pa.RecordBatch:
    """Return dead letters as rows."""
    return pa.RecordBatch.from_pylist([asdict(letter) for letter in letters], schema=DEAD_LETTERS)


def letters_within(letters: Iterable[DeadLetter], size: int) -> tuple[list[DeadLetter], int]:
    """Return the letters that fit into so many bytes, the first ones first, and how many do not.

    >>> letters = [DeadLetter("a", "E", "", "12345"), DeadLetter("a", "E", "", "x" * 90), DeadLetter("a", "E", "", "")]
    >>> kept, left_out = letters_within(letters, 20)
    >>> [letter.event for letter in kept], left_out
    (['12345', ''], 1)
    """
    kept, left_out = list[DeadLetter](), 0
    for letter in letters:
        needed = sum(len(part.encode()) for part in astuple(letter))
        if needed <= size:
            kept.append(letter)
            size -= needed
        else:
            left_out += 1
    return kept, left_out


def failures_of(letters: Iterable[DeadLetter]) -> list[Failure]:
    """Return what dead letters have in common, by operator and kind, in the order in which each kind came first."""
    found: dict[tuple[str, str, str], Failure] = {}
    for letter in letters:
        kind = letter.operator, letter.error, letter.where
        if kind in found:
            found[kind] = replace(found[kind], count=found[kind].count + 1)
        else:
            event, message = _short(letter.event, _SHOWN_EVENT), _short(letter.message, _SHOWN_MESSAGE)
            found[kind] = Failure(letter.operator, letter.error, message, event, letter.where, 1)
    return list(found.values())


def add_failures(
    known: Mapping[tuple[str, str, str], Failure], more: Iterable[Failure]
) -> dict[tuple[str, str, str], Failure]:
    """Return failures by kind, with `more` of them added; what is kept of a kind is its first event."""
    total = dict(known)
    for failure in more:
        before = total.get(failure.kind)
        total[failure.kind] = failure if before is None else replace(before, count=before.count + failure.count)
    return total


def read_letters(log: Log) -> pa.Table:
    """Return all that a dead-letter log holds; letters of versions that kept no line have an empty one."""
    batches = [
        pa.Table.from_batches([batch])
        for piece in log.segments(log.first_offset(), log.end_offset())
        for batch in log.read(piece)
    ]
    table = pa.concat_tables([DEAD_LETTERS.empty_table(), *batches], promote_options="default")
    return table.set_column(DEAD_LETTERS.get_field_index("where"), "where", table["where"].fill_null(""))


def _short(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 1]}…"
