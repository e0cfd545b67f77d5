"""The books of a live stage: what became of messages, and how far it is through, written in one transaction.

Whoever takes a strand strikes all off the books that had it before. So the books alone decide what counts, and offsets
are nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from foretide.kafka.strands import Strand, StrandReader
from foretide.spark.kafka_options import KafkaSourcePlan
from foretide.spark.live.letters import LetterQueue

__all__ = ["Books", "Target"]


@dataclass(frozen=True)
class Target:
    """Where rows go that leave the stage: a name that the books know, and what makes of rows what is written there."""

    name: str
    encode: Callable[[pa.RecordBatch], pa.RecordBatch]


class Books(Protocol):
    """Where a live stage writes; small, and sent to its tasks."""

    @property
    def targets(self) -> Mapping[int, Target]:
        """Where rows go, by the edge on which they leave."""
        ...

    @property
    def letters(self) -> str:
        """The name under which dead letters are written, as the column ``value``."""
        ...

    @property
    def forgetting(self) -> str:
        """Why offsets may be gone that were committed, for a message."""
        ...

    def open(self) -> None:
        """Make what they are kept in, where it is not there."""
        ...

    def fence(self, strand: str) -> None:
        """Take a strand from whoever has it."""
        ...

    def committed(self, plan: KafkaSourcePlan, strands: Sequence[str], partitions: Sequence[int]) -> dict[int, int]:
        """Return how far the strands of a source are through, by partition."""
        ...

    def reader(self, plan: KafkaSourcePlan, strand: Strand) -> StrandReader:
        """Return what reads a strand and writes what became of it."""
        ...

    def letter_queue(self) -> LetterQueue:
        """Return the dead letters that were written."""
        ...
