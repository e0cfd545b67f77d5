"""The control topic of a log in Kafka: read on, appended to, and cut off; see `foretide.kafka.state`."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from foretide.kafka.client import Cluster, confluent
from foretide.kafka.errors import BrokerError, DataLossError, KafkaError
from foretide.kafka.reading import reading
from foretide.kafka.sending import Outbox
from foretide.kafka.state import ControlState

__all__ = ["TOPIC_CONFIG", "ControlTopic"]

_LOG = logging.getLogger(__name__)
# Records of the control topic after which their sum is written and they can go.
_SNAPSHOT_EVERY = 500
#: How the topics of a log are made: nothing goes by itself, and a message may be large.
TOPIC_CONFIG: Mapping[str, str] = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "max.message.bytes": str(64 << 20),
}


class ControlTopic:
    """The records of a control topic, added up as far as they were read; one thread at a time.

    Parameters
    ----------
    cluster : Cluster
        Where.
    topic : str
        The topic; it is made when it is first needed.
    lenient : bool
        Whether to go on with what was known last while no broker answers, for those who only look.
    """

    def __init__(self, cluster: Cluster, topic: str, *, lenient: bool = False) -> None:
        self._cluster, self._topic, self._lenient = cluster, topic, lenient
        self.state = ControlState()
        self._next, self._appended = -1, 0

    def refresh(self) -> ControlState:
        """Read what was added since the last call.

        Raises
        ------
        BrokerError
            When no broker answers, unless `lenient`.
        DataLossError
            When records are gone.
        """
        try:
            self._read_on()
        except BrokerError:
            if not self._lenient:
                raise
            _LOG.warning("%s: no broker at %s; going by what was known", self._cluster.who, self._cluster.servers)
        return self.state

    def append(self, record: Mapping[str, Any]) -> ControlState:
        """Append a record, and read on until it is part of the state."""
        outbox = Outbox(self._cluster, self._topic, 0)
        outbox.send(json.dumps(record).encode())
        outbox.wait()
        self._appended += 1
        return self.refresh()

    def clean(self) -> None:
        """Delete what is consumed, and now and then records of this topic; if it fails, later."""
        before = dict(self.state.deletable())
        try:
            if self._appended >= _SNAPSHOT_EVERY:
                self._appended, as_of = 0, self._next
                self.append({"kind": "snapshot", "as_of": as_of, "state": self.state.to_json()})
                before[self._topic, 0] = as_of
            self._cluster.delete_records(before)
        except (KafkaError, confluent().KafkaException) as error:
            _LOG.debug("%s: consumed rows are kept for now: %s", self._cluster.who, error)

    def _read_on(self) -> None:
        if self._next < 0:
            self._cluster.ensure_topic(self._topic, 1, TOPIC_CONFIG)
        offsets = self._cluster.offsets(self._topic, [0])[0]
        if self._next < 0:
            self._next = offsets.first
        if self._next < offsets.first:
            # Others have summed up what this one had not read yet: begin again, with their sum.
            self.state, self._next = ControlState(), offsets.first
        if self._next > offsets.end:
            expected, got = f"at least {self._next} records", f"{offsets.end}"
            raise DataLossError(self._cluster.who, self._topic, 0, expected, got)
        if self._next < offsets.end:
            self._add(self._read(offsets.end))
            self._next = offsets.end

    def _read(self, end: int) -> list[tuple[int, dict[str, Any]]]:
        """Return the records from the next one up to offset `end`, each with its offset."""
        found: list[tuple[int, dict[str, Any]]] = []
        with reading(self._cluster, self._topic, {0: self._next}) as reader:
            for message in reader.messages(500):
                if message.error() is None:
                    found.append((message.offset(), json.loads(message.value())))
                if message.offset() >= end - (message.error() is None):
                    break
        return found

    def _add(self, found: list[tuple[int, dict[str, Any]]]) -> None:
        snapshots = [record for _, record in found if record["kind"] == "snapshot"]
        after = -1
        if snapshots and self._next == found[0][0] and self.state == ControlState():
            self.state, after = ControlState.from_json(snapshots[-1]["state"]), int(snapshots[-1]["as_of"])
        for offset, record in found:
            if record["kind"] != "snapshot" and offset >= after:
                self.state.add(record)
