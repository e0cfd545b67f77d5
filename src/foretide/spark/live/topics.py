"""The topics of a live stage: their partitions and strands, and how far they are through."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

from foretide.compile.stages import Stage
from foretide.kafka.client import confluent
from foretide.kafka.control import TOPIC_CONFIG
from foretide.kafka.errors import BrokerError, KafkaError
from foretide.spark.inputs.contract import NEVER_US, InputSpec
from foretide.spark.inputs.kafka import KafkaInput
from foretide.spark.inputs.planned import Position
from foretide.spark.inputs.topic_edges import topic_partitions
from foretide.spark.kafka_options import KafkaSourcePlan
from foretide.spark.live.order import LiveOrder, source_of
from foretide.spark.live.record import LiveRecord, StrandCut, read_reached, write_reached
from foretide.spark.live.trace_feed import TraceFeed
from foretide.store.workspace import Workspace

__all__ = ["LiveTopics", "check_remembered"]

#: Offsets by source and partition, as JSON has them.
Offsets: TypeAlias = Mapping[str, Mapping[str, int]]


class LiveTopics:
    """What is known of the topics that a live stage reads.

    Parameters
    ----------
    stage : Stage
        The stage.
    given : mapping of str to mapping
        The options of what it reads, sources and edges from other live stages, see `topic_inputs`.
    workspace : Workspace
        The run's directory.
    group : str
        What all that the stage keeps in Kafka is called after.
    paused : callable
        Tells whether sources are to give nothing.
    """

    def __init__(
        self,
        stage: Stage,
        given: Mapping[str, Mapping[str, Any]],
        workspace: Workspace,
        group: str,
        paused: Callable[[], bool],
    ) -> None:
        self._stage, self._depot = stage, workspace.live(stage.id)
        #: How it reads each topic.
        self.plans = {name: KafkaSourcePlan.of(name, options) for name, options in given.items()}
        for plan in stage.inputs:
            cluster = replace(self.plans[plan.name].cluster, who=f"edge '{plan.edge}'")
            self.plans[plan.name] = replace(self.plans[plan.name], cluster=cluster)
        #: Those that nobody but this run writes to: of edges, and of traces.
        self.own = set(given) - {source.id for source in stage.sources if source.connector.kind == "kafka"}
        self._inputs = {name: KafkaInput(InputSpec(name, "kafka", options)) for name, options in given.items()}
        self._feeds = {
            source.id: TraceFeed(source, self.plans[source.id], self._depot, group, paused)
            for source in stage.sources
            if source.connector.kind == "trace"
        }
        # How many messages of a trace waited when a broker last said so.
        self._waited: dict[str, int] = {}
        self._cuts: Mapping[str, StrandCut] = {}
        # The first offset of each partition that the run has read, or will.
        self._starts: dict[str, dict[int, int]] = {}
        self._done: dict[str, dict[int, int]] = {}
        self._committed: dict[str, dict[int, int]] = {}
        self._lock = threading.Lock()

    @property
    def strands(self) -> list[str]:
        """The names of all strands."""
        return [strand for source, cut in self._cuts.items() for strand in cut.names(source)]

    def open(self, order: LiveOrder) -> bool:
        """Look at the topics, and at what is committed in the books; return whether the stage has run before.

        Raises
        ------
        TopicError, BrokerError
            When a topic is not there, or no broker answers.
        """
        for name in self.own:
            plan = self.plans[name]
            plan.cluster.ensure_topic(plan.topic, topic_partitions(self._stage), TOPIC_CONFIG)
        for feed in self._feeds.values():
            feed.open()
        record, known = LiveRecord.claim(self._depot, self._cut)
        self._cuts = record.cuts
        for source, cut in self._cuts.items():
            self._starts[source] = {int(part): offset for part, offset in cut.position["to"].items()}
        self.refresh()
        before = read_reached(self._depot)
        for source, plan in self.plans.items():
            starts, strands = self._starts[source], self._cuts[source].names(source)
            committed = order.books.committed(plan, [order.full_name(strand) for strand in strands], list(starts))
            check_remembered(plan, starts, committed, before.get(source, {}), order.books.forgetting)
            self._committed[source] = committed
            self._done[source] = {**self._starts[source], **committed}
        return known

    def start(self) -> None:
        """Begin to send what traces give."""
        for feed in self._feeds.values():
            feed.start()

    def stop(self) -> None:
        """Send no more."""
        for feed in self._feeds.values():
            feed.stop()

    def error(self) -> Exception | None:
        """Return why a trace is not sent any more; None while all are."""
        return next((feed.failure for feed in self._feeds.values() if feed.failure is not None), None)

    def write_down(self) -> None:
        """Write down how far the stage has come, to notice later if the broker has forgotten it."""
        with self._lock:
            committed = {source: dict(offsets) for source, offsets in self._committed.items()}
        write_reached(self._depot, committed)

    def refresh(self, patience_s: float | None = None) -> list[str]:
        """Look for partitions that were added; return the strands that have any of them.

        Raises
        ------
        TopicError, BrokerError
            When a topic is not there any more, or no broker answers within `patience_s`, or else that of the source.
        """
        grown: list[str] = []
        for source, plan in self.plans.items():
            cluster = plan.cluster if patience_s is None else replace(plan.cluster, patience_s=patience_s)
            added = set(cluster.partitions(plan.topic)) - set(self._starts[source])
            if added:
                held = cluster.offsets(plan.topic, sorted(added))
                with self._lock:
                    self._starts[source].update({part: offsets.first for part, offsets in held.items()})
                grown += [self._cuts[source].of(source, part) for part in added]
        return list(dict.fromkeys(grown))

    def places(self, strand: str) -> tuple[dict[int, int], dict[int, int]]:
        """Return where the partitions of a strand begin, and where those end that do."""
        source = source_of(strand)
        cut = self._cuts[source]
        places = {**self._starts[source], **self._committed[source]}
        starts = {part: at for part, at in places.items() if cut.of(source, part) == strand}
        until = cut.position.get("until") if self.plans[source].ending == "latest" else None
        ends = {} if until is None else {part: int(until.get(str(part), 0)) for part in starts}
        return starts, ends

    def reached(self, read: Offsets, committed: Offsets) -> None:
        """Take note of how far tasks have come; a task that has lost a strand may know less than the next one."""
        with self._lock:
            for known, offsets in ((self._done, read), (self._committed, committed)):
                for source, found in offsets.items():
                    for part, offset in found.items():
                        known[source][int(part)] = max(known[source].get(int(part), 0), offset)

    def positions(self) -> dict[str, Position]:
        """Return the position of each source, see `KafkaInput` and `TraceInput`; none before `open`."""
        found = self._offsets()
        for name in found.keys() & self._feeds.keys():
            with suppress(BrokerError):
                self._waited[name] = self.waiting(name, 0.0)
            found[name] = self._feeds[name].position(self._waited.get(name, 0))
        return found

    def _offsets(self) -> dict[str, Position]:
        """Return the position of each topic."""
        found: dict[str, Position] = {}
        with self._lock:
            for source, done in self._done.items():
                starts = self._starts[source]
                rows = sum(max(0, offset - starts.get(part, offset)) for part, offset in done.items())
                at = {str(part): offset for part, offset in done.items()}
                found[source] = {**self._cuts[source].position, "first": rows, "next": rows, "from": at, "to": at}
        return found

    def backlog(self) -> int:
        """Return how many messages are there that are not through."""
        return self._beyond(int(time.time() * 1e6))

    def left(self) -> int:
        """Return the same with those that are still to come from sources that end; 1 while nothing is known."""
        return self._beyond(NEVER_US) if self._done else 1

    def forget(self) -> None:
        """Let the run's own topics forget what is through, which nobody else reads; later, if a broker does not."""
        with self._lock:
            known = {name: dict(self._committed.get(name, {})) for name in self.own}
        for name, offsets in known.items():
            plan = self.plans[name]
            if offsets:
                with suppress(confluent().KafkaException):
                    plan.cluster.delete_records({(plan.topic, part): offset for part, offset in offsets.items()})

    def _beyond(self, now_us: int) -> int:
        found = self._offsets()
        unsent = sum(feed.unsent(now_us) for feed in self._feeds.values())
        return unsent + sum(
            self.waiting(name) if name in self.own else part.available(found[name], now_us) - int(found[name]["next"])
            for name, part in self._inputs.items()
            if name in found
        )

    def waiting(self, name: str, patience_s: float | None = None) -> int:
        """Return how many messages of an own topic are not through, those of transactions about to end included.

        Raises
        ------
        BrokerError
            When no broker answers within `patience_s`, or else the patience of the sources.
        """
        plan = self.plans[name]
        cluster = plan.cluster if patience_s is None else replace(plan.cluster, patience_s=patience_s)
        held = cluster.offsets(plan.topic, committed=False)
        with self._lock:
            done = dict(self._done.get(name, {}))
        return sum(max(0, offsets.end - done.get(part, offsets.first)) for part, offsets in held.items())

    def _cut(self) -> dict[str, StrandCut]:
        most = topic_partitions(self._stage)
        found = {}
        for source, part in self._inputs.items():
            position = part.begin(int(time.time() * 1e6))
            found[source] = StrandCut(min(most, len(position["to"])), position)
        return found


def check_remembered(
    plan: KafkaSourcePlan,
    starts: Mapping[int, int],
    committed: Mapping[int, int],
    before: Mapping[str, int],
    forgetting: str,
) -> None:
    """Refuse to begin anew where the books have forgotten what was committed: all of it would come again."""
    lost = {
        int(part): at for part, at in before.items() if int(part) not in committed and at > starts.get(int(part), 0)
    }
    if lost:
        raise KafkaError(
            f"{plan.cluster.who}: expected the offsets that were committed before, got none for partitions "
            f"{sorted(lost)} of topic {plan.topic!r}: {forgetting}; begin in another directory, with "
            f"starting={json.dumps(lost)}"
        )
