"""The log of a queued edge in Kafka topics; the same contract as the embedded Arrow log.

Rows are in data topics, one per writing stage; what counts is in a control topic (see `foretide.kafka.state`).
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from foretide.clock import Clock, SystemClock
from foretide.errors import ConfigError
from foretide.kafka.client import Cluster, confluent
from foretide.kafka.errors import BrokerError, DataLossError, KafkaError
from foretide.kafka.reading import reading
from foretide.kafka.segments import KafkaPiece, KafkaSegmentWriter
from foretide.kafka.state import ControlState
from foretide.transport.contract import Commit, SegmentInfo
from foretide.transport.errors import BatchOrderError, LogFullError, OffsetError

__all__ = ["KafkaBatchWriter", "KafkaLog", "KafkaLogSettings", "topic_name"]

_LOG = logging.getLogger(__name__)
_POLL_S = 0.05
# Records of the control topic after which their sum is written and they can go.
_SNAPSHOT_EVERY = 500
_KEEP = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}


@dataclass(frozen=True)
class KafkaLogSettings:
    """How a log is kept in Kafka.

    Parameters
    ----------
    servers : str
        The bootstrap servers.
    partitions : int
        Partitions of a data topic. Rows are dealt out to tasks block by block, so this bounds no parallelism.
    max_bytes : int
        Bytes of unconsumed rows from which on no new batch is accepted.
    patience_s : float
        Seconds to go on trying while no broker answers.
    options : mapping of str to str
        Settings of the client library.
    """

    servers: str
    partitions: int = 4
    max_bytes: int = 4 << 30
    patience_s: float = 60.0
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.servers:
            raise ConfigError("servers", expected="Kafka's bootstrap servers, such as localhost:9092", got="none")
        if self.partitions < 1 or self.max_bytes < 1:
            got = f"{self.partitions} partitions, {self.max_bytes} bytes"
            raise ConfigError("log in Kafka", expected="at least 1 partition and 1 byte", got=got)


class KafkaLog:
    """A durable log of rows in Kafka.

    Any number of processes may hold one of the same name; each sees the others' commits at its next call. It can be
    pickled. Its topics are made when they are first needed.

    Parameters
    ----------
    name : str
        What its topics' names begin with.
    settings : KafkaLogSettings
        Where, and how.
    edge : str, optional
        The edge's name, for messages.
    lenient : bool
        Whether to go on with what was known last while no broker answers, for those who only look.
    clock : Clock, optional
        Where the time comes from.
    """

    def __init__(
        self,
        name: str,
        settings: KafkaLogSettings,
        *,
        edge: str | None = None,
        lenient: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._name, self.settings, self._edge, self._lenient = topic_name(name), settings, edge or name, lenient
        self._clock = clock or SystemClock()
        self._open()

    @property
    def edge(self) -> str:
        """The edge's name."""
        return self._edge

    @property
    def control_topic(self) -> str:
        """The topic that says what counts."""
        return f"{self._name}.control"

    def begin(self, stage: str, batch_id: int, *, room_timeout_s: float = 0.0) -> KafkaBatchWriter:
        """Open the transaction of a batch, waiting up to `room_timeout_s` for room if need be.

        Raises
        ------
        LogFullError
            When the log has no room and the batch is not a repeat.
        BatchOrderError
            When the stage has committed a later batch, but not this one.
        """
        if not stage or batch_id < 0:
            got = f"stage {stage!r}, batch id {batch_id}"
            raise ValueError(f"edge {self._edge!r}: expected a stage's name and a batch id of 0 or more, got {got}")
        with self._lock:
            state = self._refresh()
            committed = state.known(stage, batch_id)
            if committed is None and batch_id < state.last.get(stage, -1):
                raise BatchOrderError(self._edge, stage, batch_id, state.last[stage])
        if committed is None:
            self.wait_for_room(room_timeout_s)
        return KafkaBatchWriter(self, stage, batch_id, committed)

    def segment_writer(self, stage: str, schema: pa.Schema | None = None) -> KafkaSegmentWriter:
        """Return what the tasks of `stage` write with."""
        topic = f"{self._name}.{topic_name(stage)}"
        with self._lock:
            if topic not in self._made:
                limits = {"max.message.bytes": str(64 << 20)}
                self._cluster.ensure_topic(topic, self.settings.partitions, {**_KEEP, **limits})
                self._made[topic] = len(self._cluster.partitions(topic))
        return KafkaSegmentWriter(self._cluster, topic, self._made[topic], schema)

    def discard(self, stage: str, batch_id: int, segments: Iterable[SegmentInfo | None]) -> None:
        """Do nothing: what no commit names is never read, and goes with what is consumed."""

    def has_room(self) -> bool:
        """Tell whether `begin` would accept a new batch now."""
        return self.used_bytes() < self.settings.max_bytes

    def wait_for_room(self, timeout_s: float) -> None:
        """Return once the log has room; LogFullError after `timeout_s`."""
        deadline_s = self._clock.now_s() + timeout_s
        while not self.has_room():
            if self._clock.now_s() >= deadline_s:
                place = f"topics {self._name}.* at {self.settings.servers}"
                raise LogFullError(self._edge, place, self.settings.max_bytes, self._state.used_bytes)
            self._clock.sleep_s(_POLL_S)

    def used_bytes(self) -> int:
        """Return the bytes of the segments that hold unconsumed rows."""
        with self._lock:
            return self._refresh().used_bytes

    def first_offset(self) -> int:
        """Return the offset of the first row still held."""
        with self._lock:
            return self._refresh().head

    def end_offset(self) -> int:
        """Return the offset after the last committed row."""
        with self._lock:
            return self._refresh().end_offset

    def schema(self) -> pa.Schema | None:
        """Return the schema of the newest rows held, or None when none are."""
        with self._lock:
            held = [info for part in self._refresh().held for info in part.segments]
        if not held:
            return None
        return next(KafkaPiece(self._cluster, held[-1], held[-1].rows - 1, 1).read()).schema

    def segments(self, start: int, end: int) -> list[KafkaPiece]:
        """Return the rows from offset `start` up to `end` as pieces, one per segment.

        Raises
        ------
        OffsetError
            When some of these rows are consumed already, or not committed yet.
        """
        with self._lock:
            state = self._refresh()
            self._check_range(state, start, end)
            pieces = []
            for part in state.held:
                base = part.commit.base_offset
                for info in part.segments:
                    first, last = max(start - base, 0), min(end - base, info.rows)
                    if first < last:
                        pieces.append(KafkaPiece(self._cluster, info, first, last - first))
                    base += info.rows
            return pieces

    def read(self, piece: KafkaPiece, max_rows: int = 10_000) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `piece` in batches of at most `max_rows`."""
        return piece.read(max_rows)

    def register(self, reader: str, *, at_end: bool = False) -> int:
        """Make `reader` known and return the offset it stands at; nothing changes for a known one."""
        with self._lock:
            if reader not in self._refresh().readers:
                self._tell({"kind": "register", "reader": reader, "at_end": at_end})
            return self._state.readers[reader]

    def unregister(self, reader: str) -> None:
        """Forget `reader`; what only it still needed is removed."""
        with self._lock:
            self._tell({"kind": "unregister", "reader": reader})
            self._clean()

    def readers(self) -> dict[str, int]:
        """Return the registered readers and the offsets they have committed."""
        with self._lock:
            return dict(self._refresh().readers)

    def commit(self, reader: str, offset: int) -> None:
        """Note that `reader` needs no row before `offset`, and remove what no reader needs."""
        with self._lock:
            state = self._refresh()
            before = self._place(state, reader)
            if offset > state.end_offset:
                expected = f"an offset up to {state.end_offset} from reader {reader!r}"
                remedy = "commit only rows that were read; does the checkpoint belong to this log?"
                raise OffsetError(self._edge, expected, f"{offset}", remedy)
            if offset > before:
                self._tell({"kind": "commit", "reader": reader, "offset": offset})
                self._clean()

    def committed(self, reader: str) -> int:
        """Return the offset that `reader` has committed."""
        with self._lock:
            return self._place(self._refresh(), reader)

    def backlog(self, reader: str) -> int:
        """Return how many rows `reader` has still to commit."""
        with self._lock:
            state = self._refresh()
            return state.end_offset - self._place(state, reader)

    def delete(self) -> None:
        """Delete its topics, and with them all rows."""
        admin = self._cluster.admin()
        mine = [topic for topic in admin.list_topics(timeout=5.0).topics if topic.startswith(f"{self._name}.")]
        for done in admin.delete_topics(mine).values() if mine else ():
            done.result()

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_name", "settings", "_edge", "_lenient", "_clock")
        return {name: self.__dict__[name] for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    def __repr__(self) -> str:
        return f"KafkaLog({self._name!r}, {self.settings.servers!r}, edge={self._edge!r})"

    def _open(self) -> None:
        patience_s = 0.0 if self._lenient else self.settings.patience_s
        who = f"edge {self._edge!r}"
        self._cluster = Cluster(self.settings.servers, who, patience_s, self.settings.options)
        self._lock = threading.RLock()
        self._made: dict[str, int] = {}
        self._state, self._next, self._records = ControlState(), -1, 0

    def _commit_batch(self, stage: str, batch_id: int, segments: list[SegmentInfo]) -> Commit:
        with self._lock:
            known = self._refresh().known(stage, batch_id)
            if known is None:
                infos = [info.to_json() for info in segments]
                self._tell({"kind": "batch", "stage": stage, "batch_id": batch_id, "segments": infos})
                known = self._state.known(stage, batch_id)
            if known is None:
                raise BatchOrderError(self._edge, stage, batch_id, self._state.last[stage])
            return known

    def _refresh(self) -> ControlState:
        """Read what was added to the control topic since the last call."""
        try:
            if self._next < 0:
                self._cluster.ensure_topic(self.control_topic, 1, {**_KEEP, "max.message.bytes": str(64 << 20)})
            offsets = self._cluster.offsets(self.control_topic, [0])[0]
            if self._next < 0:
                self._next = offsets.first
            if self._next < offsets.first:
                # Others have summed up what this one had not read yet: begin again, with their sum.
                self._state, self._next = ControlState(), offsets.first
            if self._next > offsets.end:
                expected, got = f"at least {self._next} records", f"{offsets.end}"
                raise DataLossError(self._cluster.who, self.control_topic, 0, expected, got)
            if self._next < offsets.end:
                self._read_control(offsets.end)
        except BrokerError:
            if not self._lenient:
                raise
            _LOG.warning("edge %s: no broker at %s; going by what was known", self._edge, self.settings.servers)
        return self._state

    def _read_control(self, end: int) -> None:
        found: list[tuple[int, dict[str, Any]]] = []
        with reading(self._cluster, self.control_topic, {0: self._next}) as reader:
            for message in reader.messages(500):
                if message.error() is None:
                    found.append((message.offset(), json.loads(message.value())))
                if message.offset() >= end - (message.error() is None):
                    break
        self._add(found)
        self._next = end

    def _add(self, found: list[tuple[int, dict[str, Any]]]) -> None:
        sums = [record for _, record in found if record["kind"] == "snapshot"]
        after = -1
        if sums and self._next == found[0][0] and self._state == ControlState():
            self._state, after = ControlState.from_json(sums[-1]["state"]), int(sums[-1]["as_of"])
        for offset, record in found:
            if record["kind"] != "snapshot" and offset >= after:
                self._state.add(record)

    def _tell(self, record: Mapping[str, Any]) -> None:
        """Append a record, and read on until it is part of the state."""
        told: list[Any] = []
        producer = self._cluster.producer()
        body = json.dumps(record).encode()
        producer.produce(self.control_topic, body, partition=0, on_delivery=lambda error, _: told.append(error))
        deadline_s = time.monotonic() + max(self._cluster.patience_s, 1.0)
        while not told:
            producer.poll(0.02)
            if time.monotonic() > deadline_s:
                raise BrokerError(self._cluster.who, self.settings.servers, self.settings.patience_s, "no answer")
        if told[0] is not None:
            raise self._cluster.failure(confluent().KafkaException(told[0]))
        self._records += 1
        self._refresh()

    def _clean(self) -> None:
        """Delete what is consumed, and now and then records of the control topic; if it fails, later."""
        before = dict(self._state.deletable())
        try:
            if self._records >= _SNAPSHOT_EVERY:
                self._records, as_of = 0, self._next
                self._tell({"kind": "snapshot", "as_of": as_of, "state": self._state.to_json()})
                before[self.control_topic, 0] = as_of
            self._cluster.delete_records(before)
        except (KafkaError, confluent().KafkaException) as error:
            _LOG.debug("edge %s: consumed rows are kept for now: %s", self._edge, error)

    def _place(self, state: ControlState, reader: str) -> int:
        if reader not in state.readers:
            raise OffsetError(self._edge, "a registered reader", f"{reader!r}", "call register first")
        return state.readers[reader]

    def _check_range(self, state: ControlState, start: int, end: int) -> None:
        held = f"offsets within {state.head} to {state.end_offset}"
        if start < state.head:
            remedy = "every registered reader has consumed the rows before; register a reader to keep rows for it"
            raise OffsetError(self._edge, held, f"{start} to {end}", remedy)
        if not start <= end <= state.end_offset:
            raise OffsetError(self._edge, held, f"{start} to {end}", "does the checkpoint belong to this log?")


class KafkaBatchWriter:
    """The transaction of one batch; `KafkaLog.begin` makes it."""

    def __init__(self, log: KafkaLog, stage: str, batch_id: int, committed: Commit | None) -> None:
        self._log, self.stage, self.batch_id, self._committed = log, stage, batch_id, committed

    @property
    def committed(self) -> Commit | None:
        """The commit of this batch, once there is one."""
        return self._committed

    def segment_writer(self, schema: pa.Schema | None = None) -> KafkaSegmentWriter:
        """Return what tasks write with."""
        return self._log.segment_writer(self.stage, schema)

    def commit(self, segments: Iterable[SegmentInfo | None]) -> Commit:
        """Make the rows visible in one step, in the order of `segments`; a repeat returns the first commit."""
        present = [info for info in segments if info is not None]
        self._committed = self._log._commit_batch(self.stage, self.batch_id, present)
        return self._committed

    def abort(self, segments: Iterable[SegmentInfo | None]) -> None:
        """Do nothing: what no commit names is never read."""


def topic_name(text: str) -> str:
    """Return `text` with the characters that Kafka allows in the name of a topic; others stay distinct by a hash.

    >>> topic_name("split.out-count")
    'split.out-count'
    >>> topic_name("right branch").startswith("right_branch-")
    True
    """
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", text)[:120]
    return plain if plain == text else f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
