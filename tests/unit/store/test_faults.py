"""A store that is locked, full, damaged, gone, or of another kind: the run goes on, the events say what happened."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import stores
from stores import SETTINGS, ends, kinds, opened

from foretide.events import Event, EventLog
from foretide.records import Layout, Measurement
from foretide.store import DatabaseError, RunSpec, RunStore, StoreSettings, StoreVersionError
from foretide.store.databases.database import Connection
from foretide.store.databases.sqlite import SqliteConnection, SqliteDatabase

Measured = Callable[..., Measurement]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


def test_while_it_is_locked_records_wait_and_then_all_are_stored(
    path: Path, log: EventLog, spec: RunSpec, measured: Measured
) -> None:
    with opened(path, log) as store:
        recorder = store.begin_run(spec)
        assert store.flush(0.0)
        with locked(path):
            for second in (1.0, 2.0, 3.0):
                recorder.measured([measured(second)])
                assert not store.flush(0.0)
            assert store.trouble == "locked"
            assert kinds(log) == ["store.locked"]
        assert store.flush(0.0) and store.trouble is None
        assert kinds(log) == ["store.locked", "store.recovered"]
        assert ends(store) == [1.0, 2.0, 3.0]
        store.flush(0.0)
        # The run tells of it as well.
        assert [event.kind for event in store.run("latest").events()] == ["store.locked", "store.recovered"]


def test_a_run_begins_while_the_store_is_locked(path: Path, log: EventLog, spec: RunSpec, measured: Measured) -> None:
    with opened(path, log) as store:
        with locked(path):
            store.begin_run(spec).measured([measured(1.0)])
            assert not store.flush(0.0)
        assert store.flush(0.0) and ends(store) == [1.0]


def test_of_too_many_that_wait_the_oldest_are_dropped_and_counted(
    path: Path, log: EventLog, spec: RunSpec, measured: Measured
) -> None:
    with opened(path, log, StoreSettings(lock_wait_s=0.0, queue=10)) as store:
        recorder = store.begin_run(spec)
        store.flush(0.0)
        with locked(path):
            for second in range(1, 31):
                recorder.measured([measured(float(second))])
                store.flush(0.0)
        store.flush(0.0)
        assert store.flush(0.0)
        kept, dropped = ends(store), store.run("latest").info.dropped
        assert kept == [float(second) for second in range(31 - len(kept), 31)]
        assert len(kept) <= 10 and len(kept) + dropped["measurements"] == 30
        # Told of once, and summed up at the end.
        assert kinds(log).count("store.dropped") == 1
        [recovered] = [event for event in log if event.kind == "store.recovered"]
        assert sum(recovered.data["dropped"][recorder.id].values()) >= 20


def test_a_full_disk_is_waited_for(path: Path, log: EventLog, spec: RunSpec, measured: Measured) -> None:
    database = SqliteDatabase(path, lock_wait_s=0.0)
    with opened(database, log, StoreSettings(lock_wait_s=0.0, queue=500)) as store:
        recorder = store.begin_run(spec)
        store.flush(0.0)
        database.max_bytes = 1
        store.close(0.0)  # the next connection has no room at all
        for second in range(1, 1001):
            recorder.measured([measured(float(second))])
        assert not store.flush(0.0) and store.trouble == "full"
        assert kinds(log)[0] == "store.full" and "free disk space" in next(iter(log)).message
        database.max_bytes = None
        assert store.flush(0.0) and store.trouble is None
        assert ends(store)[-1] == 1000.0
        store.flush(0.0)
        assert len(ends(store)) + store.run("latest").info.dropped["measurements"] == 1000


def test_a_store_at_its_bound_loses_its_oldest_run_first(
    path: Path, log: EventLog, spec: RunSpec, measured: Measured
) -> None:
    settings = StoreSettings(lock_wait_s=0.0, max_mb=1)
    with opened(path, log, settings) as store:
        old = store.begin_run(spec)
        old.measured(measured(float(second)) for second in range(1, 2001))
        old.finish()
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("UPDATE runs SET seen_at_s = seen_at_s - 3600")
        new = store.begin_run(spec)
        for second in range(1, 6001, 100):
            new.measured(measured(float(second + more)) for more in range(100))
            store.flush(0.0)
        store.flush(0.0)
        assert store.trouble is None and "store.recovered" in kinds(log)
        assert [info.id for info in store.runs()] == [new.id]
        assert ends(store)[-1] == 6000.0 and new.info.dropped == {}
    assert path.stat().st_size <= 2**20


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 8000])
def test_a_damaged_file_is_moved_away_and_a_new_one_begun(
    path: Path, log: EventLog, spec: RunSpec, measured: Measured, content: bytes
) -> None:
    for number in range(2):
        path.write_bytes(content)
        with opened(path, log) as store:
            store.begin_run(spec).measured([measured(1.0)])
            assert store.flush(0.0) and ends(store) == [1.0]
        aside = path.with_name("runs.db.corrupt" + ("-1" if number else ""))
        assert aside.read_bytes() == content
        path.unlink()
    assert kinds(log) == ["store.corrupt"] * 2
    assert next(iter(log)).data["moved_to"] == f"{path}.corrupt"


def test_a_file_that_is_damaged_under_a_run_costs_what_was_in_it_and_no_more(
    path: Path, log: EventLog, spec: RunSpec, measured: Measured
) -> None:
    with opened(path, log) as store:
        recorder = store.begin_run(spec)
        recorder.measured([measured(1.0)])
        store.flush(0.0)
        for file in (path, Path(f"{path}-wal")):
            with file.open("r+b") as damaged:
                damaged.write(os.urandom(file.stat().st_size))
        for second in (2.0, 3.0, 4.0):
            recorder.measured([measured(second)])
            store.flush(0.0)
        # A new start sees the damage at the latest.
        store.close(0.0)
        recorder.measured([measured(5.0)])
        assert store.flush(0.0)
        assert "store.corrupt" in kinds(log)
        assert ends(store)[-1] == 5.0
        info = store.run("latest").info
        assert info.id == recorder.id and info.status == "running"


def test_a_file_that_is_removed_under_a_run_is_begun_anew(
    path: Path, log: EventLog, spec: RunSpec, measured: Measured
) -> None:
    with opened(path, log) as store:
        recorder = store.begin_run(spec)
        recorder.measured([measured(1.0)])
        store.flush(0.0)
        for ending in ("", "-wal", "-shm"):
            Path(f"{path}{ending}").unlink()
        recorder.measured([measured(2.0)])
        assert store.flush(0.0)
        assert kinds(log) == ["store.moved"] and ends(store) == [2.0]


def test_a_path_that_cannot_be_written_does_not_stop_the_run(log: EventLog, spec: RunSpec, measured: Measured) -> None:
    with opened("/dev/null/runs.db", log) as store:
        recorder = store.begin_run(spec)
        recorder.measured([measured(1.0)])
        assert not recorder.flush(0.0) and store.trouble == "unavailable"
        assert kinds(log) == ["store.unavailable"]


def test_a_record_that_cannot_be_stored_does_not_keep_others_from_it(
    path: Path, log: EventLog, spec: RunSpec, measured: Measured
) -> None:
    with opened(path, log) as store:
        recorder = store.begin_run(spec)
        strange = Measurement(
            layout=Layout(("x",), ("y",), ()),
            ended_at_s=2.0,
            duration_s=1.0,
            **{name: [1.0] for name in ("arrived", "processed", "queued", "busy_s", "replicas")},  # type: ignore[arg-type]
            passed=[],  # type: ignore[arg-type]
        )
        recorder.measured([measured(1.0), strange, measured(3.0), strange])
        recorder.emit(Event(float("nan"), "odd", "an instant that is none"))
        assert store.flush(0.0) and ends(store) == [1.0, 3.0]
        assert kinds(log) == ["store.refused", "store.refused"]
        assert "expected the layout of the run's topology" in next(iter(log)).message
        store.flush(0.0)
        assert store.run("latest").info.dropped == {"measurements": 2, "events": 1}


def test_a_sink_that_fails_does_not_matter(path: Path, spec: RunSpec, measured: Measured) -> None:
    class Broken:
        def emit(self, event: Event) -> None:
            raise RuntimeError("no")

    path.write_bytes(b"damaged" * 500)
    store = RunStore(path, SETTINGS, events=Broken(), threaded=False)
    store.begin_run(spec).measured([measured(1.0)])
    assert store.flush(0.0) and ends(store) == [1.0]
    store.close()


def test_a_fault_of_ours_costs_the_batch_and_is_told(
    path: Path, log: EventLog, spec: RunSpec, measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(path, log) as store:
        recorder = store.begin_run(spec)
        store.flush(0.0)
        with monkeypatch.context() as patch:
            patch.setattr(SqliteConnection, "write_many", lambda *_: 1 / 0)
            recorder.measured([measured(1.0)])
            store.flush(0.0)
        recorder.measured([measured(2.0)])
        assert store.flush(0.0) and ends(store) == [2.0]
        assert kinds(log) == ["store.failed", "store.dropped", "store.recovered"]


def test_nobody_waits_for_a_disk_that_hangs(path: Path, log: EventLog, spec: RunSpec, measured: Measured) -> None:
    may_go_on = threading.Event()

    class Hanging(SqliteDatabase):
        def connect(self, *, create: bool = False) -> Connection:
            if create:
                may_go_on.wait(60)
            return super().connect(create=create)

    store = RunStore(Hanging(path), SETTINGS, events=log)
    recorder = store.begin_run(spec)
    recorder.measured(measured(float(second)) for second in range(1, 101))
    assert not recorder.flush(0.0)
    may_go_on.set()
    assert store.flush(60.0)
    assert len(ends(store)) == 100
    assert store.close()


def test_those_who_read_get_errors(path: Path, log: EventLog) -> None:
    path.write_bytes(b"damaged" * 500)
    with pytest.raises(DatabaseError, match=r"runs\.db: expected to read or write it, got 'file is not a database'"):
        RunStore(path).runs()
    assert path.exists()  # reading moves nothing


def test_a_newer_store_is_refused(path: Path, log: EventLog, spec: RunSpec) -> None:
    with opened(path, log) as store:
        store.begin_run(spec)
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreVersionError, match=r"expected version \d+ or older, got version 99; upgrade foretide"):
        RunStore(path).begin_run(spec)
    with pytest.raises(StoreVersionError):
        RunStore(path).runs()


def test_the_database_of_another_program_is_left_alone(path: Path, log: EventLog, spec: RunSpec) -> None:
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE addresses (name TEXT)")
    with pytest.raises(StoreVersionError, match="expected a store of runs, got another program's database"):
        RunStore(path).begin_run(spec)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("addresses",)]


WRITER = """
import sys
from itertools import count
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[2]).parent))
from stores import TOPOLOGY, measurement_at
from foretide.store import RunSpec, RunStore, StoreSettings

store = RunStore(sys.argv[1], StoreSettings(flush_s=0.001))
recorder = store.begin_run(RunSpec(topology=TOPOLOGY, started_at_s=0.0))
for second in count(1):
    recorder.measured([measurement_at(float(second))])
    if second % 50 == 0:
        recorder.flush(60.0)
        print(second, flush=True)
"""


def test_a_writer_that_is_killed_leaves_a_sound_store_behind(
    path: Path, log: EventLog, spec: RunSpec, measured: Measured
) -> None:
    command = [sys.executable, "-c", WRITER, str(path), stores.__file__]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        reader = RunStore(path)
        try:
            for _ in range(5):
                told = int(writer.stdout.readline())
                assert len(ends(reader)) >= told  # another process reads while it writes
        finally:
            writer.send_signal(signal.SIGKILL)
        last = [told, *(int(text) for text in writer.stdout.read().split())][-1]
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    found = ends(reader)
    assert len(found) >= last and found == [float(second) for second in range(1, len(found) + 1)]
    info = reader.run("latest").info
    assert info.status == "running" and not info.is_alive(info.seen_at_s + 120)
    with opened(path, log) as store:
        again = store.begin_run(spec)
        again.measured([measured(1.0)])
        assert again.finish() and ends(store) == [1.0] and len(store.runs()) == 2
