"""Where rows leave a stage: queued edges, sinks and dead letters, each batch committed once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from foretide.compile.stages import Stage
from foretide.spark.inputs.edges import EdgeStore
from foretide.spark.settings import EngineSettings
from foretide.spark.sinks.contract import BatchSink, ClosableSink, EncodingSink, open_sink
from foretide.spark.sinks.outlets import OutletSink, join_rows
from foretide.spark.tasks.cells import sender_of
from foretide.spark.tasks.contract import EdgeWriter, Outlet
from foretide.store.workspace import Workspace
from foretide.transport import ArrowLog, ArrowLogSettings, LogFullError
from foretide.transport.contract import BatchWriter, Commit, Log, SegmentInfo, SegmentWriter
from foretide.transport.dead_letters import DEAD_LETTERS, DeadLetter, dead_letter_batch

__all__ = ["StageEnds", "letter_log", "make_room"]

_LOG = logging.getLogger(__name__)
_POLL_S = 0.05
# Dead letters have no reader of their own; under this name their log knows which ones may be dropped.
_LETTER_READER = "keeper"
_LETTERS_BYTES = 64 << 20


class StageEnds:
    """The ends of one stage.

    Parameters
    ----------
    stage : Stage
        The stage.
    workspace : Workspace
        Where logs are.
    settings : EngineSettings
        How much they may hold, and how long to wait for room.
    edges : EdgeStore
        Opens queued edges.
    stopping : Event
        Set when the stage stops; waiting for room ends then.
    changelogs : mapping of int to Log
        The changelogs of its states, each with a number of its own beside those of edges.
    repeatable : bool
        Whether a task that runs again makes the same rows. If not, the driver sends what tasks would.
    """

    def __init__(
        self,
        stage: Stage,
        workspace: Workspace,
        settings: EngineSettings,
        edges: EdgeStore,
        stopping: threading.Event,
        changelogs: Mapping[int, Log] | None = None,
        *,
        repeatable: bool = True,
    ) -> None:
        self._stage, self._room_timeout_s, self._stopping = stage.id, settings.room_timeout_s, stopping
        self.logs: dict[int, Log] = {
            plan.number: edges.open(plan.name, str(plan.edge)) for plan in stage.edges if plan.link == "queued"
        } | dict(changelogs or {})
        # The transactions of the batch that was looked for last.
        self._found: dict[int, dict[int, BatchWriter]] = {}
        #: How many events that failed are counted, but not kept.
        self.letters_left_out = 0
        self.dead_letters = letter_log(workspace, settings)
        self.sinks: dict[str, BatchSink] = {sink.id: open_sink(sink, workspace.run_id()) for sink in stage.sinks}
        self._sink_edges = {
            plan.number: plan.edge.end for plan in (*stage.inputs, *stage.edges) if plan.edge.end in self.sinks
        }
        found = {id: sink.outlet for id, sink in self.sinks.items() if repeatable and isinstance(sink, OutletSink)}
        #: What tasks send rows out with, by sink.
        self.outlets: dict[str, Outlet] = {id: outlet for id, outlet in found.items() if outlet is not None}

    @property
    def collected(self) -> frozenset[int]:
        """The edges whose rows come to the driver."""
        return frozenset(
            number for number, id in self._sink_edges.items() if self.sinks[id].collects and id not in self.outlets
        )

    @property
    def outlet_edges(self) -> dict[int, Outlet]:
        """What tasks send rows out with, by edge."""
        return {number: self.outlets[id] for number, id in self._sink_edges.items() if id in self.outlets}

    @property
    def encoders(self) -> dict[int, Callable[[pa.RecordBatch], pa.RecordBatch]]:
        """What tasks do to rows before they go to a sink on the driver, by edge."""
        sinks = {number: self.sinks[self._sink_edges[number]] for number in self.collected}
        return {number: sink.encoder for number, sink in sinks.items() if isinstance(sink, EncodingSink)}

    def begin(self, batch_id: int) -> dict[int, BatchWriter]:
        """Open a batch's transaction on every queued edge, waiting for readers to make room where one is full."""
        found, self._found = self._found.pop(batch_id, {}), {}
        return {number: found.get(number) or self._begin(log, batch_id) for number, log in self.logs.items()}

    def writers(self, batch_id: int, transactions: Mapping[int, BatchWriter]) -> dict[int, SegmentWriter | EdgeWriter]:
        """Return what tasks write with, by edge: into queued edges, and into sinks that tasks write to."""
        sinks = {id: sink.task_writer(batch_id) for id, sink in self.sinks.items()}
        found: dict[int, SegmentWriter | EdgeWriter] = {
            number: writer.segment_writer() for number, writer in transactions.items()
        }
        by_edge = {number: sinks[id] for number, id in self._sink_edges.items()}
        return found | {number: writer for number, writer in by_edge.items() if writer is not None}

    def committed(self, batch_id: int) -> bool:
        """Return whether an earlier attempt has brought the batch to all ends."""
        found = {number: self._try(log, batch_id) for number, log in self.logs.items()}
        logs = [writer is not None and writer.committed is not None for writer in found.values()]
        ends = [*logs, *(sink.committed(batch_id) for sink in self.sinks.values())]
        self._found = {batch_id: {number: writer for number, writer in found.items() if writer is not None}}
        return bool(ends) and all(ends)

    def commit(
        self,
        batch_id: int,
        results: Sequence[Mapping[str, Any]],
        collected: Mapping[int, Sequence[pa.RecordBatch]],
        transactions: Mapping[int, BatchWriter],
        letters: Sequence[DeadLetter] = (),
    ) -> dict[int, Commit]:
        """Bring what tasks wrote, the rows that came to the driver, and letters that were found there to their ends.

        Return the commits to logs, by number. Sinks come last: a batch that is not in all of them runs again, from the
        states that it began with.
        """
        self._keep_letters(batch_id, results, letters)
        written: dict[int, list[Any]] = {}
        for result in results:
            for number, infos in result["written"].items():
                written.setdefault(int(number), []).extend(info for info in infos if info is not None)
        commits = {
            number: writer.commit([SegmentInfo.from_json(info) for info in written.get(number, [])])
            for number, writer in transactions.items()
        }
        for id, sink in self.sinks.items():
            edges = [number for number, end in self._sink_edges.items() if end == id]
            batches = [batch for number in edges for batch in collected.get(number, ())]
            files = [info for number in edges for info in written.get(number, [])]
            if id in self.outlets:
                _send_for_tasks(self.outlets[id], batch_id, batches)
            else:
                sink.commit(batch_id, files, join_rows(id, batches) if batches else None)
        return commits

    def close(self) -> None:
        """Give up waiting for sinks that are away."""
        for sink in self.sinks.values():
            if isinstance(sink, ClosableSink):
                sink.close()

    def _begin(self, log: Log, batch_id: int) -> BatchWriter:
        deadline_s = time.monotonic() + self._room_timeout_s
        while True:
            try:
                return log.begin(self._stage, batch_id)
            except LogFullError:
                if self._stopping.wait(_POLL_S) or time.monotonic() > deadline_s:
                    raise

    def _try(self, log: Log, batch_id: int) -> BatchWriter | None:
        try:
            return log.begin(self._stage, batch_id)
        except LogFullError:  # only a batch that is not there yet needs room
            return None

    def _keep_letters(
        self, batch_id: int, results: Sequence[Mapping[str, Any]], letters: Sequence[DeadLetter] = ()
    ) -> None:
        """Keep the events that were given up on; where the log is full, the oldest half of it is dropped."""
        left_out = sum(result["letters_left_out"] for result in results)
        if left_out and not self.letters_left_out:
            _LOG.warning("dead letters: %d events of a batch are counted and not kept; see letter_bytes", left_out)
        self.letters_left_out += left_out
        dead = [*(DeadLetter(**plain) for result in results for plain in result["letters"]), *letters]
        if not dead:
            return
        make_room(self.dead_letters)
        writer = self.dead_letters.begin(self._stage, batch_id)
        writer.commit([writer.segment_writer(DEAD_LETTERS).write([dead_letter_batch(dead)])])


def letter_log(workspace: Workspace, settings: EngineSettings) -> ArrowLog:
    """Return the log of a run's dead letters."""
    most = min(settings.log_max_bytes, _LETTERS_BYTES)
    return ArrowLog(
        workspace.place("dead-letters"),
        edge="dead letters",
        settings=ArrowLogSettings(max_bytes=most, fsync=settings.sync_files),
    )


def make_room(letters: Log) -> None:
    """Drop the oldest half of a dead-letter log that is full."""
    letters.register(_LETTER_READER)
    if not letters.has_room():
        first = letters.first_offset()
        middle = (first + letters.end_offset()) // 2
        _LOG.warning("dead letters: %d are dropped, since their log is full", middle - first)
        letters.commit(_LETTER_READER, middle)


def _send_for_tasks(outlet: Outlet, batch_id: int, batches: Sequence[pa.RecordBatch]) -> None:
    """Send rows that tasks have left to the driver, for each task as it would have itself."""
    by_task: dict[str, list[pa.RecordBatch]] = {}
    for batch in batches:
        by_task.setdefault(sender_of(batch), []).append(batch.replace_schema_metadata())
    for task, rows in by_task.items():
        outlet.send(batch_id, task, rows)
