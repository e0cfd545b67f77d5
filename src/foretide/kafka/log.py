"""The log of a queued edge in Kafka topics; the same contract as the embedded Arrow log.

Rows are in data topics, one per writing stage; what counts is in a control topic (see `foretide.kafka.state`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from foretide.clock import Clock
from foretide.errors import ConfigError
from foretide.kafka.client import Cluster
from foretide.kafka.control import TOPIC_CONFIG, ControlTopic
from foretide.kafka.segments import KafkaPiece, KafkaSegmentWriter
from foretide.kafka.state import ControlState
from foretide.transport.base import BaseLog
from foretide.transport.contract import Commit, SegmentInfo
from foretide.transport.errors import BatchOrderError

__all__ = ["KafkaLog", "KafkaLogSettings", "topic_name"]


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


class KafkaLog(BaseLog[KafkaPiece]):
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
        self._given, self._name, self.settings, self._lenient = name, topic_name(name), settings, lenient
        super().__init__(edge or name, f"topics {self._name}.* at {settings.servers}", settings.max_bytes, clock)
        patience_s = 0.0 if lenient else settings.patience_s
        self._cluster = Cluster(settings.servers, f"edge {self._edge!r}", patience_s, settings.options)
        self._control = ControlTopic(self._cluster, f"{self._name}.control", lenient=lenient)
        self._partitions: dict[str, int] = {}

    def segment_writer(self, stage: str, schema: pa.Schema | None = None) -> KafkaSegmentWriter:
        """Return what the tasks of `stage` write with."""
        topic = f"{self._name}.{topic_name(stage)}"
        with self._lock:
            if topic not in self._partitions:
                self._cluster.ensure_topic(topic, self.settings.partitions, TOPIC_CONFIG)
                self._partitions[topic] = len(self._cluster.partitions(topic))
        return KafkaSegmentWriter(self._cluster, topic, self._partitions[topic], schema)

    def discard(self, stage: str, batch_id: int, segments: Iterable[SegmentInfo | None]) -> None:
        """Do nothing: what no commit names is never read, and goes with what is consumed."""

    def put(self, stage: str, batch_id: int, segments: list[SegmentInfo]) -> Commit:
        """Put a batch into the log unless it is there; return the commit that counts."""
        with self._current():
            known = self._known(stage, batch_id)
            if known is None:
                infos = [info.to_json() for info in segments]
                self._control.append({"kind": "batch", "stage": stage, "batch_id": batch_id, "segments": infos})
                known = self._known(stage, batch_id)
            assert known is not None, "a record that is read is part of the state"
            return known

    def register(self, reader: str, *, at_end: bool = False) -> int:
        """Make `reader` known and return the offset it stands at; nothing changes for a known one."""
        with self._current():
            if self._find_reader(reader) is None:
                self._control.append({"kind": "register", "reader": reader, "at_end": at_end})
            return self._offset_of(reader)

    def unregister(self, reader: str) -> None:
        """Forget `reader`; what only it still needed is removed."""
        with self._lock:
            self._control.append({"kind": "unregister", "reader": reader})
            self._control.clean()

    def readers(self) -> dict[str, int]:
        """Return the registered readers and the offsets they have committed."""
        with self._lock:
            return dict(self._refresh().readers)

    def delete(self) -> None:
        """Delete its topics, and with them all rows."""
        admin = self._cluster.admin()
        mine = [topic for topic in admin.list_topics(timeout=5.0).topics if topic.startswith(f"{self._name}.")]
        for done in admin.delete_topics(mine).values() if mine else ():
            done.result()

    def __reduce__(self) -> tuple[Callable[[], KafkaLog], tuple[()]]:
        again = partial(KafkaLog, self._given, self.settings, edge=self._edge, lenient=self._lenient, clock=self._clock)
        return again, ()

    def __repr__(self) -> str:
        return f"KafkaLog({self._name!r}, {self.settings.servers!r}, edge={self._edge!r})"

    def _refresh(self) -> ControlState:
        return self._control.refresh()

    def _known(self, stage: str, batch_id: int) -> Commit | None:
        state = self._control.state
        committed = state.known(stage, batch_id)
        if committed is None and batch_id < state.last.get(stage, -1):
            raise BatchOrderError(self._edge, stage, batch_id, state.last[stage])
        return committed

    def _piece(self, info: SegmentInfo, first: int, rows: int) -> KafkaPiece:
        return KafkaPiece(self._cluster, info, first, rows)

    def _find_reader(self, reader: str) -> int | None:
        return self._control.state.readers.get(reader)

    def _give_up(self, reader: str, before: int, offset: int) -> None:
        if offset > before:
            self._control.append({"kind": "commit", "reader": reader, "offset": offset})
            self._control.clean()


def topic_name(text: str) -> str:
    """Return `text` with the characters that Kafka allows in the name of a topic; others stay distinct by a hash.

    >>> topic_name("split.out-count")
    'split.out-count'
    >>> topic_name("right branch").startswith("right_branch-")
    True
    """
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", text)[:120]
    return plain if plain == text else f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
