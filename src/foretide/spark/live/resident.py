"""The task of a live stage: it stays, and does with its strands what the driver tells it."""

from __future__ import annotations

import json
import os
import queue
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from foretide.errors import ForetideError, error_as_data
from foretide.kafka.strands import Strand, StrandReader
from foretide.spark.inputs.kafka import KafkaSlice
from foretide.spark.live.channel import ControlLine, Message
from foretide.spark.live.edges import RowMessages
from foretide.spark.live.order import LiveOrder, source_of
from foretide.spark.live.strand_work import Outcome, StrandWork, Terms
from foretide.spark.live.tally import Tally
from foretide.spark.settings import LIVE_REPORT_S
from foretide.spark.tasks.cells import read_result
from foretide.spark.tasks.contract import BatchOrder
from foretide.spark.tasks.program import machine_of
from foretide.spark.tasks.work import Machine, Work
from foretide.transport.contract import SegmentInfo
from foretide.transport.dead_letters import DeadLetter

__all__ = ["ResidentTask"]

_RELEASE_S = 30.0
# Readers that this worker has let go of: their consumers are connected, for strands that come back.
_IDLE: dict[tuple[str, str], StrandReader] = {}
_KEPT = 32


@dataclass(frozen=True)
class ResidentTask:
    """What Spark calls: a task that stays until the driver ends it.

    Parameters
    ----------
    order : LiveOrder
        What the tasks of the stage have in common.
    key, program : str and bytes
        The program of the stage, and the key that workers keep it under.
    seat : int
        The number of the task.
    """

    order: LiveOrder
    key: str
    program: bytes
    seat: int

    def run(self, index: int, nothing: Iterable[Any]) -> Iterator[int]:
        """Stay until the driver says to end, or is gone."""
        _Residence(self).stay()
        yield self.seat


class _Residence:
    """A task while it stays: strands poll and commit in threads of their own, the program runs in the task's."""

    def __init__(self, task: ResidentTask) -> None:
        self._task, self._order = task, task.order
        self._line = ControlLine.connect(
            task.order.address,
            {
                "is": "here",
                "token": task.order.token,
                "task": f"{task.seat}-{uuid.uuid4().hex[:8]}",
                "seat": task.seat,
                "process": os.getpid(),
            },
        )
        self._tally, self._reporting = Tally(task.seat), threading.Lock()
        self._jobs: queue.SimpleQueue[tuple[StrandWork, Sequence[Any], Future[Outcome]] | None] = queue.SimpleQueue()
        self._strands: dict[str, StrandWork] = {}
        self._ended = threading.Event()
        self._batches = 0

    def stay(self) -> None:
        """Do what the driver says until it says to end, or is gone."""
        try:
            machine = machine_of(self._task.key, self._task.program)
        except ForetideError as error:
            self._line.send({"is": "failed", "error": error_as_data(error)})
            self._line.close()
            return
        for target in (self._listen, self._report):
            threading.Thread(target=target, name=f"foretide-live-{target.__name__}", daemon=True).start()
        while (job := self._jobs.get()) is not None:
            work, messages, done = job
            try:
                if work.terms.careful:
                    place = [messages[0].partition(), messages[0].offset()]
                    self._line.send({"is": "trying", "strand": work.name, "place": place})
                done.set_result(self._run(machine, work, messages))
                if work.terms.careful:
                    self._line.send({"is": "tried"})
            except BaseException as error:
                done.set_exception(error)

    def _process(self, work: StrandWork, messages: Sequence[Any]) -> Future[Outcome]:
        done: Future[Outcome] = Future()
        self._jobs.put((work, messages, done))
        return done

    def _run(self, machine: Machine, work: StrandWork, messages: Sequence[Any]) -> Outcome:
        """Run the program on messages, as on a batch of them."""
        rows = _Polled(self._order.sources[work.source].slice(work.source), messages, work.terms.set_aside)
        targets = self._order.books.targets
        writers = {number: _Kept(target.encode) for number, target in targets.items()}
        self._batches += 1
        order = BatchOrder(self._batches, 1, writers=writers, letter_bytes=self._order.letter_bytes)
        batch = Work(machine, order, self._task.seat)
        batch.take_slices([rows])
        *_, cells = batch.finish()
        [(_, _, payload)] = cells
        sent = [(target.name, made) for number, target in targets.items() for made in writers[number].batches]
        result = read_result(bytes(payload))
        if result["letters"]:
            sent.append((self._order.books.letters, _letter_message(result["letters"])))
        return Outcome(sent, result)

    def _listen(self) -> None:
        for message in self._line.messages():
            if message["do"] == "end":
                break
            getattr(self, f"_{message['do']}")(message)
        self._ended.set()
        for work in self._strands.values():
            work.release()
        for work in self._strands.values():
            work.join(_RELEASE_S)
        self._send_report()
        self._line.close()
        self._jobs.put(None)

    def _send_report(self) -> None:
        """Tell the driver what was done since it was told last; what is told later is behind it."""
        with self._reporting:
            self._line.send({"is": "report", **self._tally.take()})

    def _report(self) -> None:
        while not self._ended.wait(LIVE_REPORT_S):
            self._send_report()

    def _prepare(self, message: Message) -> None:
        reader = self._reader(message)
        _IDLE[reader.strand.group, message["strand"]] = reader

        def prepare() -> None:
            try:
                reader.prepare()
            finally:
                # One that could not be prepared finds out when it takes the strand.
                self._line.send({"is": "ready", "strand": message["strand"]})

        threading.Thread(target=prepare, name="foretide-live-prepare", daemon=True).start()

    def _take(self, message: Message) -> None:
        name = message["strand"]
        if (before := self._strands.get(name)) is not None:
            before.release()
            before.join(_RELEASE_S)
        work = StrandWork(
            name,
            Terms(message["grant"], message["careful"], frozenset(map(tuple, message["set_aside"]))),
            self._reader(message),
            self._process,
            self._tally,
            self._tell,
            target_s=self._order.target_s,
            most_rows=self._order.most_rows,
        )
        self._strands[name] = work
        work.start()

    def _release(self, message: Message) -> None:
        work = self._strands.get(message["strand"])
        if work is not None and work.terms.grant == message["grant"]:
            work.release()

    def _tell(self, work: StrandWork, message: dict[str, Any]) -> None:
        """Tell the driver what became of a strand, behind what it did."""
        _IDLE[work.reader.strand.group, work.name] = work.reader
        while len(_IDLE) > _KEPT:
            _IDLE.pop(next(iter(_IDLE))).close()
        self._send_report()
        self._line.send({**message, "strand": work.name, "grant": work.terms.grant})

    def _reader(self, message: Message) -> StrandReader:
        """Return the reader of a strand: one that this worker has kept, or a new one."""
        order, name = self._order, message["strand"]
        plan = order.sources[source_of(name)].plan
        strand = Strand(
            order.full_name(name),
            order.group,
            plan.topic,
            {int(part): offset for part, offset in message["starts"].items()},
            {int(part): offset for part, offset in message["ends"].items()},
        )
        kept = _IDLE.pop((order.group, name), None)
        return order.books.reader(plan, strand) if kept is None else kept.for_strand(strand)


@dataclass
class _Polled:
    """Messages that were polled, as the slice of a task; those set aside are not decoded."""

    slice: KafkaSlice | RowMessages
    messages: Sequence[Any]
    set_aside: frozenset[tuple[int, int]]

    @property
    def element(self) -> str:
        return self.slice.element

    @property
    def letters(self) -> Sequence[Any]:
        return self.slice.letters

    def batches(self) -> Iterator[pa.RecordBatch]:
        aside = [message for message in self.messages if (message.partition(), message.offset()) in self.set_aside]
        tried = [message for message in self.messages if message not in aside] if aside else self.messages
        if tried:
            yield from self.slice.polled(tried)
        self.slice.letters.extend(_deadly(self.slice, message) for message in aside)


@dataclass
class _Kept:
    """Keeps what rows become until it is written."""

    encode: Callable[[pa.RecordBatch], pa.RecordBatch]
    batches: list[pa.RecordBatch] = field(default_factory=list)

    def open(self) -> _Kept:
        return self

    def append(self, batch: pa.RecordBatch) -> None:
        self.batches.append(self.encode(batch))

    def close(self) -> SegmentInfo | None:
        return None

    def discard(self) -> None:
        self.batches.clear()


def _deadly(slice: KafkaSlice | RowMessages, message: Any) -> DeadLetter:
    """Return the letter of an event that kills its worker."""
    text = f"workers died on offset {message.offset()} of partition {message.partition()}"
    return DeadLetter(slice.element, "WorkerDied", text, slice.shown(message))


def _letter_message(letters: Sequence[Mapping[str, str]]) -> pa.RecordBatch:
    """Return the dead letters of a transaction as one message."""
    return pa.record_batch({"value": pa.array([json.dumps(letters).encode()], pa.binary())})
