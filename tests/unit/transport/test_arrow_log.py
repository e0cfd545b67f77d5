from __future__ import annotations

import os
import pickle
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from foretide.clock import ManualClock
from foretide.errors import ConfigError
from foretide.transport import ArrowLog, ArrowLogSettings, Commit, CorruptLogError, LogFullError, SegmentInfo
from foretide.transport.errors import OffsetError
from foretide.transport.files import claim_json
from foretide.transport.ledger import Ledger
from foretide.transport.manifest import Head, Layout, Manifest, ManifestIndex
from foretide.transport.retention import ReaderTable, plan_retirement, retire

FAST = ArrowLogSettings(fsync=False)


def open_log(root: Path, clock: ManualClock | None = None, **settings: object) -> ArrowLog:
    return ArrowLog(root, edge="a->b", settings=ArrowLogSettings(fsync=False, **settings), clock=clock)


def rows(first: int, count: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(range(first, first + count), pa.int64())})


def put(log: ArrowLog, batch_id: int, *batches: pa.RecordBatch, stage: str = "s") -> list[SegmentInfo]:
    writer = log.begin(stage, batch_id)
    infos = [writer.segment_writer().write([batch]) for batch in batches]
    writer.commit(infos)
    return [info for info in infos if info is not None]


def ids(log: ArrowLog, start: int, end: int) -> list[int]:
    return [i for piece in log.segments(start, end) for batch in log.read(piece) for i in batch["id"].to_pylist()]


def files(root: Path) -> list[str]:
    return sorted(f"{path.parent.name}/{path.suffix}" for path in root.rglob("*") if path.is_file())


class TestCrashes:
    def test_a_segment_without_manifest_is_never_read_and_later_swept(self, tmp_path: Path) -> None:
        log = open_log(tmp_path)
        orphan = log.begin("s", 0).segment_writer().write([rows(900, 5)])
        put(log, 0, rows(0, 3))
        assert orphan is not None and ids(log, 0, log.end_offset()) == [0, 1, 2]
        path = tmp_path / "segments" / orphan.name
        later = ManualClock(path.stat().st_mtime + 3601)
        assert open_log(tmp_path, ManualClock(path.stat().st_mtime + 60)).sweep() == 0
        assert open_log(tmp_path, later).sweep() == 1
        assert not path.exists()
        assert ids(log, 0, 3) == [0, 1, 2]

    def test_a_torn_scratch_file_is_ignored_and_later_swept(self, tmp_path: Path) -> None:
        log = open_log(tmp_path)
        log.begin("s", 0).segment_writer().open().append(rows(0, 20_000))
        (tmp_path / "scratch" / "torn.json").write_text('{"format":1,"chec')
        reopened = open_log(tmp_path, ManualClock(os.stat(tmp_path).st_mtime + 4000))
        assert reopened.end_offset() == 0
        put(reopened, 0, rows(0, 2))
        assert reopened.sweep() == 2
        assert ids(reopened, 0, 2) == [0, 1]

    def test_a_failing_task_leaves_no_scratch_file(self, tmp_path: Path) -> None:
        def failing() -> object:
            yield rows(0, 20_000)
            raise RuntimeError("lost")

        with pytest.raises(RuntimeError, match="lost"):
            open_log(tmp_path).begin("s", 0).segment_writer().write(failing())
        assert files(tmp_path) == []

    def test_a_crash_after_the_head_moved_loses_nothing_and_is_swept(self, tmp_path: Path) -> None:
        log = open_log(tmp_path)
        put(log, 0, rows(0, 3))
        put(log, 1, rows(3, 3))
        layout, index = Layout.at(tmp_path), ManifestIndex(Layout.at(tmp_path))
        index.refresh()
        plan = plan_retirement(index, layout, floor=3)
        assert plan is not None
        retire(type(plan)(plan.head, files=()), layout)  # the deletion never happened
        later = open_log(tmp_path, ManualClock(os.stat(tmp_path).st_mtime + 4000))
        assert (later.first_offset(), ids(later, 3, 6)) == (3, [3, 4, 5])
        assert later.sweep() == 2
        assert files(tmp_path) == ["heads/.json", "manifests/.json", "segments/.arrow"]
        assert ids(open_log(tmp_path), 3, 6) == [3, 4, 5]

    def test_a_segment_swept_before_its_commit_is_refused(self, tmp_path: Path) -> None:
        log = open_log(tmp_path)
        writer = log.begin("s", 0)
        info = writer.segment_writer().write([rows(0, 3)])
        assert info is not None
        (tmp_path / "segments" / info.name).unlink()
        with pytest.raises(CorruptLogError, match="no such file; run the batch again"):
            writer.commit([info])
        assert log.end_offset() == 0

    def test_commits_survive_with_fsync_on(self, tmp_path: Path) -> None:
        put(ArrowLog(tmp_path), 0, rows(0, 3))
        assert ids(ArrowLog(tmp_path), 0, 3) == [0, 1, 2]


class InterruptedIndex(ManifestIndex):
    """An index that is paused, once, right after it has read the head."""

    interrupt: Callable[[], object] | None = None

    def _newest_head(self) -> Head:
        head = super()._newest_head()
        interrupt, self.interrupt = self.interrupt, None
        if interrupt is not None:
            interrupt()
        return head


class InterruptedReaders(ReaderTable):
    """A table of readers before whose first write something else happens."""

    interrupt: Callable[[], object] | None = None

    def put(self, reader: str, offset: int) -> None:
        interrupt, self.interrupt = self.interrupt, None
        if interrupt is not None:
            interrupt()
        super().put(reader, offset)


class TestRaces:
    def stale_ledger(self, root: Path) -> Ledger:
        layout = Layout.at(root)
        layout.create()
        index = ManifestIndex(layout)
        index.refresh()  # and never again before the commit, as if the writer had been paused after looking
        return Ledger(layout, index, "a->b", FAST)

    def test_the_loser_of_a_sequence_number_takes_the_next(self, tmp_path: Path) -> None:
        ledger = self.stale_ledger(tmp_path)
        log = open_log(tmp_path)
        put(log, 0, rows(0, 3), stage="other")
        info = log.begin("s", 0).segment_writer().write([rows(3, 2)])
        commit = ledger.commit("s", 0, [info])
        assert (commit.sequence, commit.base_offset) == (1, 3)
        assert ids(log, 0, 5) == [0, 1, 2, 3, 4]

    def test_the_loser_of_a_batch_gets_the_winners_commit_and_its_segment_goes(self, tmp_path: Path) -> None:
        ledger = self.stale_ledger(tmp_path)
        log = open_log(tmp_path)
        mine = log.begin("s", 0).segment_writer().write([rows(50, 2)])
        put(log, 0, rows(0, 3))
        assert ledger.commit("s", 0, [mine]).rows == 3
        assert len(list((tmp_path / "segments").iterdir())) == 1
        assert ids(log, 0, 3) == [0, 1, 2]

    def test_a_number_freed_by_retention_is_not_taken_again(self, tmp_path: Path) -> None:
        ledger = self.stale_ledger(tmp_path)
        log = open_log(tmp_path)
        log.register("r")
        put(log, 0, rows(0, 3), stage="other")
        put(log, 1, rows(3, 3), stage="other")
        info = log.begin("s", 0).segment_writer().write([rows(6, 2)])
        log.commit("r", 6)
        commit = ledger.commit("s", 0, [info])  # claims number 0, which is free again but lies before the head
        assert (commit.sequence, commit.base_offset) == (2, 6)
        assert ids(log, 6, 8) == [6, 7]
        assert len(list((tmp_path / "manifests").iterdir())) == 1

    def test_a_batch_committed_and_consumed_by_a_competitor_stays_committed_once(self, tmp_path: Path) -> None:
        ledger = self.stale_ledger(tmp_path)
        log = open_log(tmp_path)
        log.register("r")
        mine = log.begin("s", 0).segment_writer().write([rows(50, 2)])
        put(log, 0, rows(0, 3))
        log.commit("r", 3)
        ledger.commit("s", 0, [mine])
        assert log.end_offset() == 3
        assert open_log(tmp_path).end_offset() == 3

    def test_a_void_claim_is_not_believed_even_when_the_head_moved_unseen(self, tmp_path: Path) -> None:
        log, layout = open_log(tmp_path), Layout.at(tmp_path)
        log.register("r")
        put(log, 0, rows(0, 3))
        index = InterruptedIndex(layout)
        index.refresh()

        def move_on() -> None:
            put(log, 1, rows(3, 3))
            put(log, 2, rows(6, 3))
            log.commit("r", 9)
            void = Manifest(Commit("t", 0, sequence=1, base_offset=3, rows=99, bytes=0), ())
            assert claim_json(layout.depot, layout.manifest(1), void.to_json())

        index.interrupt = move_on
        index.refresh()
        assert (index.next_sequence, index.end_offset, index.find("t", 0)) == (3, 9, None)

    def test_a_reader_that_registers_while_rows_go_starts_behind_them(self, tmp_path: Path) -> None:
        log = open_log(tmp_path)
        log.register("r")
        put(log, 0, rows(0, 3))
        log._readers = table = InterruptedReaders(Layout.at(tmp_path))
        table.interrupt = lambda: open_log(tmp_path).commit("r", 3)
        assert log.register("late") == 3
        assert open_log(tmp_path).committed("late") == 3

    def test_writers_in_parallel_lose_and_repeat_nothing(self, tmp_path: Path) -> None:
        def write(stage: str) -> None:
            log = open_log(tmp_path)
            for batch_id in range(15):
                put(log, batch_id, rows(batch_id * 2, 2), stage=stage)

        # Two writers per stage: a zombie driver and its successor.
        threads = [threading.Thread(target=write, args=(stage,)) for stage in ("s", "s", "t", "t")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        log = open_log(tmp_path)
        assert log.end_offset() == 60
        assert sorted(ids(log, 0, 60)) == sorted([*range(30), *range(30)])


class TestCopies:
    def test_a_copy_goes_on_with_the_same_batches_at_the_same_offsets(self, tmp_path: Path) -> None:
        log = open_log(tmp_path / "log")
        for batch in range(4):
            put(log, batch, rows(10 * batch, 2), rows(10 * batch + 5, 1))
        put(log, 4)
        last = log.last_commit()
        assert last is not None and (last.batch_id, last.base_offset, last.rows) == (4, 12, 0)
        copy = log.copy(
            tmp_path / "copy", since=6, change=lambda batch: batch.set_column(0, "id", pa.array([7] * batch.num_rows))
        )
        assert (copy.first_offset(), copy.end_offset()) == (6, 12) and ids(copy, 6, 12) == [7] * 6
        known = [copy.begin("s", batch).committed for batch in range(6)]
        assert [commit is not None for commit in known] == [True] * 5 + [False]
        assert [(commit.base_offset, commit.rows) for commit in known[2:5] if commit] == [(6, 3), (9, 3), (12, 0)]
        put(copy, 5, rows(50, 1))
        assert ids(open_log(tmp_path / "copy"), 11, 13) == [7, 50] and log.end_offset() == 12

    def test_a_copy_begins_where_a_batch_does(self, tmp_path: Path) -> None:
        log = open_log(tmp_path / "log")
        assert log.last_commit() is None
        for batch in range(3):
            put(log, batch, rows(10 * batch, 3))
        log.register("r")
        log.commit("r", 3)
        for since, expected in ((4, "an offset at which a batch begins"), (0, "offsets within 3 to 9")):
            with pytest.raises(OffsetError, match=expected):
                log.copy(tmp_path / "copy", since=since, change=lambda batch: batch)
        assert log.copy(tmp_path / "end", since=9, change=lambda batch: batch).end_offset() == 9


class TestRetention:
    def test_the_directory_stays_bounded(self, tmp_path: Path) -> None:
        log, reader = open_log(tmp_path), open_log(tmp_path)
        reader.register("r")
        for batch_id in range(30):
            put(log, batch_id, rows(batch_id * 3, 3))
            reader.commit("r", reader.end_offset())
        assert files(tmp_path) == ["heads/.json", "readers/.json"]
        assert (log.first_offset(), log.end_offset(), log.used_bytes()) == (90, 90, 0)

    def test_consumed_segments_of_a_batch_go_before_the_batch_is_done(self, tmp_path: Path) -> None:
        log = open_log(tmp_path)
        log.register("r")
        put(log, 0, rows(0, 3), rows(3, 3), rows(6, 3))
        before = log.used_bytes()
        log.commit("r", 5)
        assert log.first_offset() == 3
        assert log.used_bytes() < before
        assert len(list((tmp_path / "segments").iterdir())) == 2
        assert ids(open_log(tmp_path), 5, 9) == [5, 6, 7, 8]
        put(log, 1, rows(9, 1))
        assert ids(open_log(tmp_path), 3, 10) == [3, 4, 5, 6, 7, 8, 9]

    def test_nothing_goes_without_a_registered_reader(self, tmp_path: Path) -> None:
        log = open_log(tmp_path)
        put(log, 0, rows(0, 3))
        log.register("r")
        log.unregister("r")
        assert ids(log, 0, 3) == [0, 1, 2]

    def test_a_reader_that_registers_late_starts_at_what_is_left(self, tmp_path: Path) -> None:
        log = open_log(tmp_path)
        log.register("r")
        put(log, 0, rows(0, 3))
        put(log, 1, rows(3, 3))
        log.commit("r", 3)
        assert log.register("late") == 3
        assert log.readers() == {"late": 3, "r": 3}

    def test_two_readers_that_retire_at_once_agree(self, tmp_path: Path) -> None:
        log = open_log(tmp_path)
        for batch_id in range(4):
            put(log, batch_id, rows(batch_id, 1))
        layout, index = Layout.at(tmp_path), ManifestIndex(Layout.at(tmp_path))
        index.refresh()
        slow, quick = plan_retirement(index, layout, floor=2), plan_retirement(index, layout, floor=3)
        assert slow is not None and quick is not None
        retire(quick, layout)
        retire(slow, layout)  # a head that lies before the present one must not count
        assert open_log(tmp_path).first_offset() == 3
        assert ids(open_log(tmp_path), 3, 4) == [3]

    def test_an_index_far_behind_the_head_starts_over_there(self, tmp_path: Path) -> None:
        log, idle = open_log(tmp_path), open_log(tmp_path)
        log.register("r")
        put(log, 0, rows(0, 1))
        assert idle.end_offset() == 1
        for batch_id in range(1, 6):
            put(log, batch_id, rows(batch_id, 1))
        log.commit("r", 5)
        assert (idle.first_offset(), idle.end_offset()) == (5, 6)
        assert ids(idle, 5, 6) == [5]


class TestBackPressure:
    def test_a_full_log_accepts_no_batch_until_a_reader_commits(self, tmp_path: Path) -> None:
        log = open_log(tmp_path, max_bytes=1000)
        log.register("r")
        put(log, 0, rows(0, 200))
        assert not log.has_room()
        with pytest.raises(
            LogFullError, match=r"edge 'a->b': expected room in its log .limit 1000 bytes., got \d+ bytes"
        ):
            log.begin("s", 1)
        assert log.begin("s", 0).committed is not None  # a repeat needs no room
        log.commit("r", 200)
        assert log.has_room()
        put(log, 1, rows(200, 1))

    def test_waiting_ends_when_a_reader_commits(self, tmp_path: Path) -> None:
        class Committing(ManualClock):
            def sleep_s(self, seconds: float) -> None:
                super().sleep_s(seconds)
                if self.now_s() > 1.0:
                    open_log(tmp_path).commit("r", 200)

        clock = Committing()
        log = open_log(tmp_path, clock, max_bytes=1000)
        log.register("r")
        put(log, 0, rows(0, 200))
        log.wait_for_room(timeout_s=10.0)
        assert 1.0 < clock.now_s() < 2.0

    def test_waiting_gives_up_after_the_timeout(self, tmp_path: Path) -> None:
        clock = ManualClock()
        log = open_log(tmp_path, clock, max_bytes=1000)
        put(log, 0, rows(0, 200))
        with pytest.raises(LogFullError) as caught:
            log.wait_for_room(timeout_s=3.0)
        assert clock.now_s() == pytest.approx(3.0, abs=0.1)
        assert (caught.value.edge, caught.value.limit_bytes) == ("a->b", 1000)
        assert caught.value.used_bytes == log.used_bytes()

    def test_the_error_is_an_os_error_and_survives_pickling(self) -> None:
        error = LogFullError("a->b", "/data/x", 10, 20)
        again = pickle.loads(pickle.dumps(error))
        assert isinstance(again, OSError) and str(again) == str(error) and again.used_bytes == 20
        corrupt = CorruptLogError("f", "10 bytes", "9 bytes")
        assert str(pickle.loads(pickle.dumps(corrupt))) == str(corrupt)


class TestCorruption:
    @pytest.fixture
    def log(self, tmp_path: Path) -> ArrowLog:
        log = open_log(tmp_path)
        put(log, 0, rows(0, 20_000))
        put(log, 1, rows(20_000, 5))
        return log

    def segment(self, log: ArrowLog) -> Path:
        return Path(log.segments(0, 1)[0].path)

    def manifest(self, log: ArrowLog, sequence: int) -> Path:
        return log.root / Layout.at(log.root).manifest(sequence)

    def test_a_missing_segment(self, log: ArrowLog) -> None:
        path = self.segment(log)
        path.unlink()
        with pytest.raises(CorruptLogError, match=rf"{path.name}: expected a segment of \d+ bytes, got no such"):
            ids(log, 0, 5)

    def test_a_truncated_segment(self, log: ArrowLog) -> None:
        path = self.segment(log)
        size = path.stat().st_size
        os.truncate(path, size - 1)
        with pytest.raises(CorruptLogError, match=rf"expected a segment of {size} bytes, got {size - 1} bytes"):
            ids(log, 0, 5)

    @pytest.mark.parametrize("position", [2, 3000, 150_000, -3, -200])
    def test_an_altered_segment(self, log: ArrowLog, position: int) -> None:
        path = self.segment(log)
        data = bytearray(path.read_bytes())
        data[position] ^= 1
        path.write_bytes(data)
        with pytest.raises(CorruptLogError, match=r"expected (footer )?checksum \d+.*got checksum \d+"):
            ids(log, 0, 20_000)

    def test_a_segment_replaced_by_another_of_equal_size(self, log: ArrowLog, tmp_path: Path) -> None:
        path = self.segment(log)
        other = open_log(tmp_path / "other")
        put(other, 0, rows(7, 20_000))
        shutil.copy(self.segment(other), path)
        with pytest.raises(CorruptLogError, match="checksum"):
            ids(log, 0, 5)

    def test_a_torn_manifest(self, log: ArrowLog) -> None:
        path = self.manifest(log, 1)
        path.write_bytes(path.read_bytes()[:40])
        with pytest.raises(CorruptLogError, match=rf"{path.name}: expected a JSON object .*got 40 bytes"):
            open_log(log.root).end_offset()

    def test_an_empty_manifest(self, log: ArrowLog) -> None:
        self.manifest(log, 1).write_bytes(b"")
        with pytest.raises(CorruptLogError, match="got 0 bytes"):
            open_log(log.root).end_offset()

    def test_an_altered_manifest(self, log: ArrowLog) -> None:
        path = self.manifest(log, 0)
        path.write_text(path.read_text().replace('"rows":20000', '"rows":20001', 1))
        with pytest.raises(CorruptLogError, match=r"expected checksum \d+, got checksum \d+"):
            open_log(log.root).end_offset()

    def test_a_missing_manifest(self, log: ArrowLog) -> None:
        self.manifest(log, 0).unlink()
        with pytest.raises(CorruptLogError, match="expected a manifest, since a later one exists, got no such"):
            open_log(log.root).end_offset()

    def test_a_manifest_under_another_number(self, log: ArrowLog) -> None:
        shutil.copy(self.manifest(log, 1), self.manifest(log, 2))
        with pytest.raises(CorruptLogError, match="expected sequence number 2, got sequence number 1"):
            open_log(log.root).end_offset()

    def test_a_manifest_of_a_later_format(self, log: ArrowLog) -> None:
        path = self.manifest(log, 0)
        path.write_text(path.read_text().replace('"format":1', '"format":9'))
        with pytest.raises(CorruptLogError, match="expected format 1, got format 9"):
            open_log(log.root).end_offset()

    def test_an_altered_head(self, log: ArrowLog) -> None:
        log.register("r")
        log.commit("r", 20_000)
        [head] = (log.root / "heads").iterdir()
        head.write_text(head.read_text().replace('"offset":20000', '"offset":20001'))
        with pytest.raises(CorruptLogError, match="checksum"):
            open_log(log.root).end_offset()

    def test_an_untouched_block_is_read_though_another_is_altered(self, log: ArrowLog) -> None:
        path = self.segment(log)
        data = bytearray(path.read_bytes())
        data[150_000] ^= 1  # in the second block of 16 384 rows
        path.write_bytes(data)
        assert ids(log, 0, 5) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"max_bytes": 0}, "max_bytes"), ({"compression": "gzip"}, "compression"), ({"orphan_age_s": 0}, "orphan")],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        ArrowLogSettings(**settings)


def test_the_schema_is_that_of_the_newest_rows(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert log.schema() is None
    put(log, 0, rows(0, 1))
    put(log, 1, pa.record_batch({"text": ["x"]}))
    assert log.schema() == pa.schema({"text": pa.string()})


def test_a_commit_knows_where_it_ends() -> None:
    assert Commit("s", 0, sequence=0, base_offset=7, rows=3, bytes=10).end_offset == 10
