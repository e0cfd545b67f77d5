from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from foretide.records import Measurement
from foretide.store import RunSpec, RunStore, StoreVersionError
from foretide.store.databases.schema import MIGRATIONS
from foretide.store.databases.sqlite import SqliteDatabase
from foretide.store.errors import DatabaseError

NEWEST = len(MIGRATIONS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def schema(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as raw:
        return {row[0] for row in raw.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}


def pragma(path: Path, name: str) -> object:
    with closing(sqlite3.connect(path)) as raw:
        return raw.execute(f"PRAGMA {name}").fetchone()[0]


def shape(path: Path) -> dict[str, object]:
    """Return the columns, indexes and references of every table."""
    with closing(sqlite3.connect(path)) as raw:
        tables = [row[0] for row in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        about = ("table_info", "index_list", "foreign_key_list")
        indexes = [row[0] for row in raw.execute("SELECT name FROM sqlite_master WHERE type = 'index'")]
        return {
            **{table: [raw.execute(f"PRAGMA {name}({table})").fetchall() for name in about] for table in tables},
            **{index: raw.execute(f"PRAGMA index_info({index})").fetchall() for index in indexes},
        }


def test_the_tables_are_those_that_were_released(path: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript((Path(__file__).parent / "released_schema.sql").read_text())
    SqliteDatabase(tmp_path / "new.db").connect(create=True).close()
    assert shape(tmp_path / "new.db") == shape(path)


def test_a_new_file_has_the_newest_version_and_a_write_ahead_log(path: Path) -> None:
    SqliteDatabase(path).connect(create=True).close()
    assert (pragma(path, "user_version"), pragma(path, "journal_mode")) == (NEWEST, "wal")
    assert pragma(path, "auto_vacuum") == 2


@pytest.mark.parametrize("version", range(1, NEWEST))
def test_an_older_file_is_brought_up_to_date_with_what_is_in_it(
    path: Path, tmp_path: Path, version: int, spec: RunSpec, measured: Callable[..., Measurement]
) -> None:
    older = SqliteDatabase(path, migrations=MIGRATIONS[:version])
    with RunStore(older, threaded=False) as store:
        store.begin_run(spec).measured([measured(1.0)])
    assert pragma(path, "user_version") == version
    newer = RunStore(path)
    assert [one.ended_at_s for one in newer.run("line").measurements()] == [1.0]
    assert newer.run("line").features() == [] and newer.run("line").latencies() == []
    assert pragma(path, "user_version") == NEWEST
    SqliteDatabase(tmp_path / "new.db").connect(create=True).close()
    assert schema(path) == schema(tmp_path / "new.db")


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    assert RunStore(path).runs() == []


def test_a_step_that_fails_leaves_the_older_version_whole(path: Path) -> None:
    SqliteDatabase(path, migrations=MIGRATIONS[:1]).connect(create=True).close()
    before = schema(path)
    broken = (*MIGRATIONS[:1], ("CREATE TABLE more (id {whole})", "CREATE TABLE more (id {whole})"))
    with pytest.raises(DatabaseError):
        SqliteDatabase(path, migrations=broken).connect()
    assert schema(path) == before and pragma(path, "user_version") == 1


def test_older_code_refuses_a_newer_file(path: Path) -> None:
    SqliteDatabase(path).connect(create=True).close()
    with pytest.raises(StoreVersionError, match=f"expected version 1 or older, got version {NEWEST}"):
        SqliteDatabase(path, migrations=MIGRATIONS[:1]).connect()


def test_reading_makes_no_file(path: Path) -> None:
    with pytest.raises(DatabaseError, match="no such file"):
        SqliteDatabase(path).connect()
    assert not path.exists()


def test_room_that_is_free_is_given_back(path: Path, spec: RunSpec, measured: Callable[..., Measurement]) -> None:
    with RunStore(path, threaded=False) as store:
        store.begin_run(spec).measured(measured(float(second)) for second in range(1, 3001))
        store.flush()
        store.delete("line")
    connection = SqliteDatabase(path).connect()
    assert connection.size_bytes() == path.stat().st_size < 200_000
    connection.close()


def test_many_may_open_a_new_store_at_once(tmp_path: Path) -> None:
    errors: list[Exception] = []

    def connect(database: SqliteDatabase, together: threading.Barrier) -> None:
        together.wait()
        try:
            database.connect(create=True).close()
        except Exception as error:
            errors.append(error)

    for number in range(40):
        database, together = SqliteDatabase(tmp_path / f"{number}.db", lock_wait_s=30.0), threading.Barrier(6)
        threads = [threading.Thread(target=connect, args=(database, together)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []
