"""What a resident task is given: where its driver is, what the stage reads, and where rows leave it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from foretide.kafka import Cluster
from foretide.spark.kafka_options import KafkaSinkPlan, KafkaSourcePlan

__all__ = ["LiveOrder", "SinkOrder", "SourceOrder", "source_of", "strand_name"]


@dataclass(frozen=True)
class SourceOrder:
    """A source of a live stage: how it reads its topic, and the columns of values in JSON."""

    plan: KafkaSourcePlan
    schema: pa.Schema | None


@dataclass(frozen=True)
class SinkOrder:
    """A sink of a live stage, and how it writes."""

    sink: str
    plan: KafkaSinkPlan


@dataclass(frozen=True)
class LiveOrder:
    """What all tasks of a live stage have in common.

    Parameters
    ----------
    stage, run : str
        The stage, and the run whose offsets and transactions these are.
    address : tuple of str and int
        Where the driver listens.
    token : str
        What it knows its tasks by.
    cluster : Cluster
        Where topics are.
    sources : mapping of str to SourceOrder
        By id.
    sinks : mapping of int to SinkOrder
        By edge.
    letters : str
        The topic of dead letters.
    letter_bytes : int
        How much of them a transaction may hold.
    target_s : float
        The latency that transactions are made for.
    most_rows : int
        The most messages of a transaction.
    """

    stage: str
    run: str
    address: tuple[str, int]
    token: str
    cluster: Cluster
    sources: Mapping[str, SourceOrder]
    sinks: Mapping[int, SinkOrder]
    letters: str
    letter_bytes: int
    target_s: float
    most_rows: int

    @property
    def group(self) -> str:
        """The consumer group of the stage's offsets."""
        return f"foretide-{self.run}-{self.stage}"


def strand_name(source: str, number: int) -> str:
    """Return the name of a strand of a source.

    >>> strand_name("orders", 2), source_of("orders/2")
    ('orders/2', 'orders')
    """
    return f"{source}/{number}"


def source_of(strand: str) -> str:
    """Return the source that a strand is of."""
    return strand.rpartition("/")[0]
