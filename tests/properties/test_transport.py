"""Whatever writers, readers and retention do, each reader sees each committed row exactly once, in order."""

from __future__ import annotations

import shutil
import tempfile

import pyarrow as pa
from drawing import examples
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from foretide.transport import ArrowLog, ArrowLogSettings, SegmentInfo, split

STAGES = st.sampled_from(["s", "t"])
READERS = st.sampled_from(["p", "q"])


class LogMachine(RuleBasedStateMachine):
    """A log, driven at random, beside a plain list of the rows it should hold."""

    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.mkdtemp()
        self.log = self.open()
        self.other = self.open()  # a second process that only sometimes looks
        self.model: list[int] = []
        self.next_id = 0
        self.last_batch = {"s": -1, "t": -1}
        self.seen: dict[str, list[int]] = {}
        self.started: dict[str, int] = {}
        self.committed: dict[str, int] = {}

    def open(self) -> ArrowLog:
        return ArrowLog(self.root, settings=ArrowLogSettings(fsync=False))

    def write(self, log: ArrowLog, stage: str, batch_id: int, sizes: list[int]) -> list[SegmentInfo | None]:
        writer = log.begin(stage, batch_id).segment_writer()
        infos = []
        for size in sizes:
            ids = list(range(self.next_id, self.next_id + size))
            infos.append(writer.write([pa.record_batch({"id": pa.array(ids, pa.int64())})]))
            self.next_id += size
        return infos

    @rule(stage=STAGES, sizes=st.lists(st.integers(0, 6), max_size=3), gap=st.integers(1, 2), twice=st.booleans())
    def commit(self, stage: str, sizes: list[int], gap: int, twice: bool) -> None:
        batch_id, first = self.last_batch[stage] + gap, self.next_id
        infos = self.write(self.log, stage, batch_id, sizes)
        commit = self.log.begin(stage, batch_id).commit(infos)
        assert (commit.base_offset, commit.rows) == (len(self.model), sum(sizes))
        if twice:
            assert self.other.begin(stage, batch_id).commit(infos) == commit
        self.model += range(first, self.next_id)
        self.last_batch[stage] = batch_id

    @rule(stage=STAGES, size=st.integers(0, 6))
    def repeat_the_last_batch_with_other_rows(self, stage: str, size: int) -> None:
        batch_id = self.last_batch[stage]
        if batch_id >= 0:
            infos = self.write(self.other, stage, batch_id, [size])
            assert self.other.begin(stage, batch_id).commit(infos).batch_id == batch_id

    @rule(stage=STAGES, size=st.integers(1, 6), aborted=st.booleans())
    def fail(self, stage: str, size: int, aborted: bool) -> None:
        batch_id = self.last_batch[stage] + 1
        infos = self.write(self.log, stage, batch_id, [size])
        if aborted:
            self.log.begin(stage, batch_id).abort(infos)

    @rule(reader=READERS, at_end=st.booleans())
    def register(self, reader: str, at_end: bool) -> None:
        offset = self.other.register(reader, at_end=at_end)
        if reader not in self.started:
            self.started[reader] = self.committed[reader] = offset
            self.seen[reader] = []
        assert offset == self.committed[reader]

    @rule(reader=READERS, limit=st.integers(1, 9), slices=st.integers(1, 4), done=st.booleans())
    def read(self, reader: str, limit: int, slices: int, done: bool) -> None:
        if reader not in self.started:
            return
        start = self.committed[reader]
        end = min(start + limit, self.log.end_offset())
        pieces = [piece for run in split(self.log.segments(start, end), slices) for piece in run]
        ids = [i for piece in pieces for batch in self.log.read(piece, 2) for i in batch["id"].to_pylist()]
        assert ids == self.model[start:end]
        if done:  # otherwise the batch failed and will be read again
            self.seen[reader] += ids
            self.other.commit(reader, end)
            self.committed[reader] = end

    @rule(reader=READERS)
    def leave(self, reader: str) -> None:
        self.log.unregister(reader)
        for table in (self.seen, self.started, self.committed):
            table.pop(reader, None)

    @rule()
    def reopen(self) -> None:
        self.log, self.other = self.open(), self.log

    @invariant()
    def readers_saw_each_row_once_in_order(self) -> None:
        for reader, rows in self.seen.items():
            assert rows == self.model[self.started[reader] : self.committed[reader]]

    @invariant()
    def all_instances_agree(self) -> None:
        assert self.other.end_offset() == self.log.end_offset() == len(self.model)
        assert self.log.first_offset() <= min(self.committed.values(), default=len(self.model))

    def teardown(self) -> None:
        shutil.rmtree(self.root)


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = examples(0.6, stateful_step_count=30)
