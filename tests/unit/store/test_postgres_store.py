"""A store in PostgreSQL: versions, and a server that restarts, refuses, is locked or is gone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres_server import PostgresServer
from stores import ends, kinds, opened

from foretide.errors import ConfigError
from foretide.events import Event, EventLog
from foretide.postgres import PostgresAddress, without_password
from foretide.records import Measurement
from foretide.store import (
    DatabaseError,
    RunSpec,
    RunStore,
    StoreSettings,
    StoreVersionError,
    default_store,
    default_store_path,
)
from foretide.store.databases.postgres import PostgresDatabase
from foretide.store.databases.schema import MIGRATIONS

NEWEST = len(MIGRATIONS)
Measured = Callable[..., Measurement]


@pytest.fixture
def schema(postgres: PostgresServer) -> str:
    return postgres.new_schema()


@pytest.fixture
def url(postgres: PostgresServer, schema: str) -> str:
    return postgres.url(schema)


@pytest.fixture
def raw(postgres: PostgresServer, schema: str) -> Iterator[psycopg.Connection[Any]]:
    """Return a connection of someone else's."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"SET search_path = {schema}")
        yield connection


def columns(raw: psycopg.Connection[Any], schema: str) -> list[Any]:
    query = "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
    return raw.execute(f"{query} WHERE table_schema = %s ORDER BY 1, 2", (schema,)).fetchall()


class TestFaults:
    @pytest.mark.parametrize("how", ["fast", "immediate"])
    def test_while_the_server_is_down_records_wait_and_then_all_are_stored(
        self, postgres: PostgresServer, url: str, log: EventLog, spec: RunSpec, measured: Measured, how: str
    ) -> None:
        with opened(url, log) as store:
            recorder = store.begin_run(spec)
            recorder.measured([measured(1.0)])
            assert store.flush(0.0)
            with postgres.down(how):
                for second in (2.0, 3.0):
                    recorder.measured([measured(second)])
                    assert not store.flush(0.0)
                assert store.trouble == "unavailable" and kinds(log) == ["store.unavailable"]
                assert "start the server" in next(iter(log)).message
                with pytest.raises(DatabaseError, match="expected to read or write it"):
                    store.runs()
            assert store.flush(0.0) and store.trouble is None
            assert kinds(log) == ["store.unavailable", "store.recovered"]
            assert ends(store) == [1.0, 2.0, 3.0]

    def test_a_restart_between_two_writes_is_not_noticed(
        self, postgres: PostgresServer, url: str, log: EventLog, spec: RunSpec, measured: Measured
    ) -> None:
        with opened(url, log) as store:
            recorder = store.begin_run(spec)
            recorder.measured([measured(1.0)])
            assert store.flush(0.0) and ends(store) == [1.0]
            postgres.restart()
            recorder.measured([measured(2.0)])
            assert store.flush(0.0) and ends(store) == [1.0, 2.0]
            assert kinds(log) == []

    def test_a_run_begins_while_the_server_is_down(
        self, postgres: PostgresServer, url: str, log: EventLog, spec: RunSpec, measured: Measured
    ) -> None:
        with opened(url, log) as store:
            with postgres.down():
                store.begin_run(spec).measured([measured(1.0)])
                assert not store.flush(0.0)
            assert store.flush(0.0) and ends(store) == [1.0]

    @pytest.mark.parametrize(
        ("wrong", "said"),
        [
            ({"password": "wrong"}, r"password authentication failed .*; give the right password: in \$PGPASSWORD"),
            ({"database": "missing"}, 'database "missing" does not exist.*; make the database with: createdb'),
        ],
    )
    def test_what_the_server_refuses_is_told_and_the_run_goes_on(
        self, postgres: PostgresServer, log: EventLog, spec: RunSpec, measured: Measured, wrong: Any, said: str
    ) -> None:
        with opened(postgres.tcp_url(**wrong), log) as store:
            store.begin_run(spec).measured([measured(1.0)])
            assert not store.flush(0.0) and store.trouble == "unavailable"
            assert kinds(log) == ["store.unavailable"] and "wrong@" not in next(iter(log)).message
            with pytest.raises(DatabaseError, match=said):
                store.runs()

    def test_a_lock_is_waited_for(
        self, url: str, raw: psycopg.Connection[Any], log: EventLog, spec: RunSpec, measured: Measured
    ) -> None:
        with opened(url, log) as store:
            recorder = store.begin_run(spec)
            assert store.flush(0.0)
            with raw.transaction():
                raw.execute("LOCK TABLE measurements IN ACCESS EXCLUSIVE MODE")
                recorder.measured([measured(1.0)])
                assert not store.flush(0.0) and store.trouble == "locked"
            assert store.flush(0.0) and ends(store) == [1.0]
            assert kinds(log) == ["store.locked", "store.recovered"]

    def test_a_schema_that_is_dropped_under_a_run_is_begun_anew(
        self, url: str, schema: str, raw: psycopg.Connection[Any], log: EventLog, spec: RunSpec, measured: Measured
    ) -> None:
        with opened(url, log) as store:
            recorder = store.begin_run(spec)
            recorder.measured([measured(1.0)])
            store.flush(0.0)
            raw.execute(f"DROP SCHEMA {schema} CASCADE")
            recorder.measured([measured(2.0)])
            assert store.flush(0.0)
            assert kinds(log) == ["store.moved"] and ends(store) == [2.0]

    def test_texts_with_a_nul_are_stored_and_instants_that_are_none_are_not(
        self, url: str, log: EventLog, spec: RunSpec
    ) -> None:
        with opened(url, log) as store:
            recorder = store.begin_run(spec)
            recorder.emit(Event(1.0, "odd", "a\x00b", data={"text": "c\x00d"}))
            recorder.emit(Event(float("nan"), "odd", "never"))
            assert store.flush(0.0) and kinds(log) == ["store.refused"]
            found = store.run("latest").events(kind="odd")
            assert [(event.message, event.data) for event in found] == [("a\ufffdb", {"text": "c\x00d"})]

    def test_above_its_bound_the_oldest_run_goes_and_the_others_stay(
        self, url: str, raw: psycopg.Connection[Any], log: EventLog, spec: RunSpec, measured: Measured
    ) -> None:
        with opened(url, log, StoreSettings(lock_wait_s=0.0, max_mb=1)) as store:
            for _ in range(4):
                recorder = store.begin_run(spec)
                recorder.measured(measured(float(second)) for second in range(1, 1201))
                recorder.finish()
            raw.execute("UPDATE runs SET seen_at_s = seen_at_s - 3600")
            known = [info.id for info in store.runs()]
            assert store.prune().runs >= 1
            kept = [info.id for info in store.runs()]
            assert kept and kept == known[-len(kept) :] and len(kept) < 4
            assert store.prune().runs == 0


class TestVersions:
    @pytest.mark.parametrize("version", range(1, NEWEST))
    def test_an_older_store_is_brought_up_to_date_with_what_is_in_it(
        self,
        postgres: PostgresServer,
        schema: str,
        raw: psycopg.Connection[Any],
        spec: RunSpec,
        measured: Measured,
        version: int,
    ) -> None:
        older = PostgresDatabase(postgres.url(schema), migrations=MIGRATIONS[:version])
        with RunStore(older, threaded=False) as store:
            store.begin_run(spec).measured([measured(1.0)])
        with RunStore(postgres.url(schema)) as newer:
            assert [one.ended_at_s for one in newer.run("line").measurements()] == [1.0]
            assert newer.run("line").features() == [] and newer.run("line").latencies() == []
        assert raw.execute("SELECT version FROM foretide_store").fetchall() == [(NEWEST,)]
        fresh = postgres.new_schema()
        PostgresDatabase(postgres.url(fresh)).connect(create=True).close()
        assert columns(raw, schema) == columns(raw, fresh)

    def test_a_step_that_fails_leaves_the_older_version_whole(
        self, url: str, schema: str, raw: psycopg.Connection[Any]
    ) -> None:
        PostgresDatabase(url, migrations=MIGRATIONS[:1]).connect(create=True).close()
        before = columns(raw, schema)
        broken = (*MIGRATIONS[:1], ("CREATE TABLE more (id {whole})", "CREATE TABLE more (id {whole})"))
        with pytest.raises(DatabaseError):
            PostgresDatabase(url, migrations=broken).connect()
        assert columns(raw, schema) == before
        assert raw.execute("SELECT version FROM foretide_store").fetchall() == [(1,)]

    def test_older_code_refuses_a_newer_store(self, url: str, spec: RunSpec) -> None:
        PostgresDatabase(url).connect(create=True).close()
        older = PostgresDatabase(url, migrations=MIGRATIONS[:1])
        with pytest.raises(StoreVersionError, match=f"expected version 1 or older, got version {NEWEST}"):
            RunStore(older).begin_run(spec)

    def test_the_tables_of_another_program_are_left_alone(
        self, url: str, schema: str, raw: psycopg.Connection[Any], log: EventLog, spec: RunSpec
    ) -> None:
        raw.execute(f"CREATE SCHEMA {schema}")
        raw.execute("CREATE TABLE runs (name TEXT)")
        with opened(url, log) as store:
            store.begin_run(spec)
            assert not store.flush(0.0) and kinds(log) == ["store.version"]
            assert "another program's tables" in next(iter(log)).message
        assert columns(raw, schema) == [("runs", "name", "text", "YES")]

    def test_reading_makes_nothing(self, url: str, schema: str, raw: psycopg.Connection[Any]) -> None:
        with RunStore(url) as store:
            assert store.runs() == []
        with pytest.raises(DatabaseError, match=f"no store in schema {schema}"):
            PostgresDatabase(url).connect()
        assert raw.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchall() == []

    def test_a_damaged_store_is_put_aside_under_another_name(self, url: str, schema: str, log: EventLog) -> None:
        database = PostgresDatabase(url)
        for ending in ("corrupt", "corrupt_1"):
            database.connect(create=True).close()
            assert database.exists()
            assert database.set_aside() == f"schema {schema}_{ending}"
            assert not database.exists()


class TestAddresses:
    def test_the_password_is_never_shown(self) -> None:
        url = "postgresql://ann:p:a%2Fhidden@db.example.org:5433/runs?password=secret"
        for text in (str(PostgresAddress.of(url)), repr(PostgresAddress.of(url))):
            assert "hidden" not in text and "secret" not in text
        assert str(PostgresDatabase(url).name) == "postgresql://ann@db.example.org:5433/runs"
        assert without_password(url) == "postgresql://ann@db.example.org:5433/runs"

    def test_what_is_no_address_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="expected an address such as postgresql://user@host:5432/database"):
            PostgresAddress.of("mysql://host/database")
        with pytest.raises(ConfigError, match=r"in a user or password as %2F") as caught:
            PostgresAddress.of("postgresql://ann:sec/ret@host/database")
        assert "ret@" not in str(caught.value)
        with pytest.raises(DatabaseError, match=r"expected parameters that libpq knows, got .*colour"):
            RunStore("postgresql://127.0.0.1:1/runs?colour=blue").runs()

    def test_without_the_driver_the_extra_is_named(self, monkeypatch: pytest.MonkeyPatch, spec: RunSpec) -> None:
        monkeypatch.setitem(sys.modules, "psycopg", None)
        with pytest.raises(ConfigError, match=r"pip install 'foretide\[postgres\]'"):
            RunStore("postgresql://127.0.0.1:1/runs").begin_run(spec)

    def test_the_variable_may_name_a_server(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
        monkeypatch.setenv("FORETIDE_STORE", "postgresql://host/runs")
        assert default_store() == "postgresql://host/runs"
        assert default_store_path() == tmp_path / "foretide" / "runs.db"
        monkeypatch.setenv("FORETIDE_STORE", "here.db")
        assert default_store() == Path("here.db")
