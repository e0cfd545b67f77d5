"""What a resident task is given: where its driver is, what the stage reads, and the books that it writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from foretide.compile.stages import Stage
from foretide.config import validated
from foretide.spark.inputs.kafka import KafkaSlice
from foretide.spark.inputs.topic_edges import edge_topic
from foretide.spark.kafka_options import KafkaSinkPlan, KafkaSourcePlan
from foretide.spark.live.books import Books, Target
from foretide.spark.live.edges import RowMessages, RowRouter
from foretide.spark.live.kafka_books import KafkaBooks
from foretide.spark.live.postgres_books import PostgresBooks
from foretide.spark.sinks.kafka import MessageEncoder
from foretide.spark.sinks.postgres import PostgresSinkSettings

__all__ = ["LiveOrder", "SourceOrder", "books_of", "source_of", "strand_name"]


@dataclass(frozen=True)
class SourceOrder:
    """An input of a live stage: how it reads its topic, and the columns of values in JSON; or rows of this run."""

    plan: KafkaSourcePlan
    schema: pa.Schema | None
    is_row: bool = False

    def slice(self, name: str) -> KafkaSlice | RowMessages:
        """Return what makes rows of its messages."""
        return RowMessages(name) if self.is_row else KafkaSlice(name, self.plan, self.schema, ())


@dataclass(frozen=True)
class LiveOrder:
    """What all tasks of a live stage have in common.

    Parameters
    ----------
    group : str
        What goes before the names of strands, and the consumer group that they read in: that of the stage in its run.
    address : tuple of str and int
        Where the driver listens.
    token : str
        What it knows its tasks by.
    sources : mapping of str to SourceOrder
        By id.
    books : Books
        Where results go, and offsets with them.
    letter_bytes : int
        How much of them a transaction may hold.
    target_s : float
        The latency that transactions are made for.
    most_rows : int
        The most messages of a transaction.
    """

    group: str
    address: tuple[str, int]
    token: str
    sources: Mapping[str, SourceOrder]
    books: Books
    letter_bytes: int
    target_s: float
    most_rows: int

    def full_name(self, strand: str) -> str:
        """Return what a strand goes by outside of the stage."""
        return f"{self.group}-{strand}"


def books_of(stage: Stage, sources: Mapping[str, KafkaSourcePlan], group: str, run: str) -> Books:
    """Return where a stage writes: in the database of its sinks, or in the cluster of its sources.

    Topics to other live stages are there: those stages have made them, and start first.
    """
    sinks = {sink.id: sink.connector for sink in stage.sinks}
    edges = {plan.number: plan.edge.end for plan in stage.edges if plan.edge.end in sinks}
    if any(sink.kind == "postgres" for sink in sinks.values()):
        settings = {id: validated(PostgresSinkSettings, sink.options, f"sink {id!r}") for id, sink in sinks.items()}
        return PostgresBooks(group, run, settings, edges)
    plans = {id: KafkaSinkPlan.of(id, sink.options) for id, sink in sinks.items()}
    targets = {edge: Target(plans[id].topic, MessageEncoder(id, plans[id])) for edge, id in edges.items()}
    cluster = replace(next(iter(sources.values())).cluster, who=f"stage {stage.id!r}")
    for plan in stage.edges:
        if plan.link == "topic":
            topic = edge_topic(plan, run)
            targets[plan.number] = Target(topic, RowRouter(plan, len(cluster.partitions(topic))))
    return KafkaBooks(cluster, group, targets, f"foretide.{run}.{stage.id}.dead-letters")


def strand_name(source: str, number: int) -> str:
    """Return the name of a strand of a source.

    >>> strand_name("orders", 2), source_of("orders/2")
    ('orders/2', 'orders')
    """
    return f"{source}/{number}"


def source_of(strand: str) -> str:
    """Return the source that a strand is of."""
    return strand.rpartition("/")[0]
