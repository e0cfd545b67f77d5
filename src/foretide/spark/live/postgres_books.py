"""Books of a live stage in PostgreSQL: rows, offsets and dead letters in one transaction of the database.

A strand is a row of the table ``foretide_strands``, with the number of its owner. Whoever takes it counts that up, and
who commits must find its own there. The row is locked meanwhile, so that the next owner waits for a commit under way,
and begins behind it.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from foretide.kafka import Cluster
from foretide.kafka.strands import Strand, StrandLost, StrandReader
from foretide.postgres.statements import execute, take_turn
from foretide.spark.errors import SinkError
from foretide.spark.kafka_options import KafkaSourcePlan
from foretide.spark.live.books import Target
from foretide.spark.live.letters import LetterQueue, Posted
from foretide.spark.sinks.outlets import join_rows
from foretide.spark.sinks.postgres import BATCHES, PostgresSink, PostgresSinkSettings

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["PostgresBooks"]

_LOG = logging.getLogger(__name__)
_STRANDS, _LETTERS = "foretide_strands", "foretide_letters"
_MOST = 1_000


@dataclass(frozen=True)
class PostgresBooks:
    """Books in the database that the sinks of the stage are in.

    Parameters
    ----------
    group : str
        What the stage's letters go by.
    run : str
        The run.
    sinks : mapping of str to PostgresSinkSettings
        How sinks write, by id; all of them in one database.
    edges : mapping of int to str
        The sinks that rows go to, by edge.
    """

    group: str
    run: str
    sinks: Mapping[str, PostgresSinkSettings]
    edges: Mapping[int, str]

    letters = ""
    forgetting = f"rows of the table {_STRANDS} were removed"

    @property
    def targets(self) -> Mapping[int, Target]:
        """The tables that rows go to; rows are written as they are."""
        return {edge: Target(sink, _same) for edge, sink in self.edges.items()}

    def open(self) -> None:
        """Make the tables of strands and letters."""

        def make(connection: Connection) -> None:
            with connection.transaction():
                take_turn(connection, BATCHES)
                columns = "name text PRIMARY KEY, owner bigint NOT NULL, offsets jsonb NOT NULL"
                execute(connection, f"CREATE TABLE IF NOT EXISTS {host.beside(_STRANDS)} ({columns})")
                columns = "place bigserial PRIMARY KEY, stage text NOT NULL, letters text NOT NULL"
                execute(connection, f"CREATE TABLE IF NOT EXISTS {host.beside(_LETTERS)} ({columns})")

        with closing(self.host()) as host:
            host.persist(make)

    def fence(self, strand: str) -> None:
        """Count the owner of a strand up."""
        with closing(self.host()) as host:
            host.persist(lambda connection: take_over(connection, host, strand))

    def committed(self, plan: KafkaSourcePlan, strands: Sequence[str], partitions: Sequence[int]) -> dict[int, int]:
        """Return the offsets in the rows of strands."""

        def ask(connection: Connection) -> list[tuple[dict[str, int]]]:
            query = f"SELECT offsets FROM {host.beside(_STRANDS, marked=True)} WHERE name = ANY(%s)"
            return list(execute(connection, query, (list(strands),)).fetchall())

        with closing(self.host()) as host:
            found = host.persist(ask)
        return {int(part): at for (offsets,) in found for part, at in offsets.items() if int(part) in partitions}

    def reader(self, plan: KafkaSourcePlan, strand: Strand) -> StrandReader:
        """Return a reader that writes to the database."""
        return _Reader(plan.cluster, strand, self, lossy=plan.lossy)

    def letter_queue(self) -> LetterQueue:
        """Return the table of dead letters."""
        return _Letters(self)

    def open_sinks(self) -> dict[str, PostgresSink]:
        """Return the sinks; all write by the connection of the first one."""
        return {id: PostgresSink(id, settings, self.run) for id, settings in self.sinks.items()}

    def host(self, **changes: Any) -> PostgresSink:
        """Return the first sink, whose connection is used for all, with some of its settings changed."""
        id, settings = next(iter(self.sinks.items()))
        return PostgresSink(id, settings.model_copy(update=changes), self.run)


class _Reader(StrandReader):
    """Reads a strand, and writes what became of it to tables, with its offsets."""

    def __init__(self, cluster: Cluster, strand: Strand, books: PostgresBooks, *, lossy: bool) -> None:
        super().__init__(cluster, strand, lossy=lossy)
        self._books, self._owner = books, 0
        self._sinks: dict[str, PostgresSink] = {}

    def _connect(self) -> None:
        if not self._sinks:
            self._sinks = self._books.open_sinks()
            self._host.check_password()
            # So that taking the strand takes little time.
            self._host.persist(lambda _: None)

    def _disconnect(self) -> None:
        for sink in self._sinks.values():
            sink.close()
        self._sinks = {}

    def _claim(self) -> dict[int, int]:
        host = self._host
        self._owner, offsets = host.persist(lambda connection: take_over(connection, host, self.strand.name))
        return {int(part): at for part, at in offsets.items()}

    def _write(self, sent: Sequence[tuple[str, pa.RecordBatch]], moved: Mapping[int, int]) -> None:
        batches: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        for name, batch in sent:
            batches[name].append(batch)
        letters = [value.decode() for batch in batches.pop("", []) for value in batch["value"].to_pylist()]
        rows = {sink: join_rows(sink, found) for sink, found in batches.items()}

        def enter(connection: Connection) -> None:
            try:
                self._enter(connection, rows, letters, moved)
            except BaseException:
                # What was made is rolled back.
                for sink in self._sinks.values():
                    sink.forget()
                raise

        self._host.persist(enter)

    def _enter(
        self, connection: Connection, rows: Mapping[str, pa.Table], letters: Sequence[str], moved: Mapping[int, int]
    ) -> None:
        strands = self._host.beside(_STRANDS, marked=True)
        offsets = {str(part): at for part, at in moved.items()}
        with connection.transaction():
            query = f"SELECT owner, offsets FROM {strands} WHERE name = %s FOR UPDATE"
            owner, known = execute(connection, query, (self.strand.name,)).fetchone() or (None, {})
            if owner != self._owner:
                raise StrandLost(f"its owner is {owner}, not {self._owner}")
            if offsets and offsets.items() <= known.items():
                return  # the transaction of an attempt that was cut off came through
            for sink, table in rows.items():
                self._sinks[sink].prepare(connection, table.schema)
            for sink, table in rows.items():
                self._sinks[sink].load(connection, table)
            if letters:
                # One transaction with letters at a time: their places are in the order of commits then.
                take_turn(connection, _LETTERS)
                post = f"INSERT INTO {self._host.beside(_LETTERS, marked=True)} (stage, letters) VALUES (%s, %s)"
                for text in letters:
                    execute(connection, post, (self._books.group, text))
            update = f"UPDATE {strands} SET offsets = offsets || %s::jsonb WHERE name = %s"
            execute(connection, update, (json.dumps(offsets), self.strand.name))

    @property
    def _host(self) -> PostgresSink:
        return next(iter(self._sinks.values()))


class _Letters:
    """Dead letters in a table; those that were copied are removed in the end."""

    def __init__(self, books: PostgresBooks) -> None:
        self._books, self.at = books, 0

    def open(self) -> None:
        self._host = self._books.host(retry_s=0.0)
        self._table = self._host.beside(_LETTERS, marked=True)

    def read(self, wait_s: float) -> list[Posted]:
        query = (
            f"SELECT place, letters FROM {self._table} WHERE stage = %s AND place >= %s ORDER BY place LIMIT {_MOST}"
        )
        try:
            found = [Posted(place, text.encode()) for place, text in self._ask(query, self.at)]
        except SinkError as error:
            # Tasks wait for a server that is away; who copies letters has other things to do, and comes back.
            _LOG.debug("dead letters of %s: %s", self._books.group, error)
            return []
        self.at = found[-1].place + 1 if found else self.at
        return found

    def end(self) -> int:
        [(last,)] = self._ask(f"SELECT max(place) FROM {self._table} WHERE stage = %s AND place >= %s", 0)
        return 0 if last is None else last + 1

    def close(self) -> None:
        self._ask(f"DELETE FROM {self._table} WHERE stage = %s AND place < %s RETURNING place", self.at)
        self._host.close()

    def _ask(self, query: str, place: int) -> list[Any]:
        values = (self._books.group, place)
        return self._host.persist(lambda connection: list(execute(connection, query, values).fetchall()))


def take_over(connection: Connection, host: PostgresSink, strand: str) -> tuple[int, dict[str, int]]:
    """Make a new owner of a strand; return its number, and the offsets up to which the strand is through."""
    table = host.beside(_STRANDS, marked=True)
    query = (
        f"INSERT INTO {table} AS s (name, owner, offsets) VALUES (%s, 1, '{{}}') ON CONFLICT (name)"
        " DO UPDATE SET owner = s.owner + 1 RETURNING owner, offsets"
    )
    owner, offsets = execute(connection, query, (strand,)).fetchone()
    return int(owner), offsets


def _same(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows
