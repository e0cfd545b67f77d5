"""The PostgreSQL sink against a real server: repeats, restarts, keys, and every type that a source gives."""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from postgres_server import PASSWORD, PostgresServer

from foretide.errors import ConfigError
from foretide.postgres.rows import column_type, copy_text
from foretide.spark.errors import SinkError
from foretide.spark.sinks.contract import ClosableSink, open_sink
from foretide.spark.sinks.postgres import PostgresSink
from foretide.topology import Connector, Sink

Open = Callable[..., PostgresSink]


def rows(*ids: int, **more: Any) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), **more})


@pytest.fixture
def schema(postgres: PostgresServer) -> str:
    return postgres.make_schema()


@pytest.fixture
def query(postgres: PostgresServer, schema: str) -> Callable[..., list[Any]]:
    return lambda sql="SELECT id FROM out ORDER BY id": postgres.ask(sql, schema)


@pytest.fixture
def open_one(postgres: PostgresServer, schema: str) -> Iterator[Open]:
    opened: list[PostgresSink] = []

    def open_(run: str = "0", sink: str = "out", **options: Any) -> PostgresSink:
        options = {"url": postgres.url(schema), "table": "out", "retry_s": 20.0, **options}
        opened.append(PostgresSink.of(sink, options, run))
        return opened[-1]

    yield open_
    for sink in opened:
        sink.close()


class TestOnce:
    def test_a_repeat_changes_nothing(self, open_one: Open, query: Callable[..., list[Any]]) -> None:
        sink = open_one()
        assert not sink.committed(0)
        for batch_id, table in ((0, rows(1, 2)), (0, rows(1, 2)), (1, rows(3)), (1, rows(3))):
            sink.commit(batch_id, (), table)
            assert sink.committed(batch_id)
        assert query() == [1, 2, 3] and not sink.committed(2)

    def test_a_new_start_knows_what_is_there(self, open_one: Open, query: Callable[..., list[Any]]) -> None:
        open_one().commit(0, (), rows(1))
        again = open_one()
        assert again.committed(0) and not again.committed(1)
        again.commit(0, (), rows(1))
        again.commit(1, (), rows(2))
        assert query() == [1, 2]

    def test_a_batch_without_rows_is_remembered(self, open_one: Open) -> None:
        sink = open_one()
        sink.commit(0, (), None)
        assert sink.committed(0) and open_one().committed(0)

    def test_two_sinks_and_two_runs_share_a_table(self, open_one: Open, query: Callable[..., list[Any]]) -> None:
        for sink, run, id in (("a", "x", 1), ("b", "x", 2), ("a", "y", 3)):
            open_one(run, sink).commit(0, (), rows(id))
        assert query() == [1, 2, 3] and query("SELECT count(*) FROM foretide_batches") == [3]

    def test_sinks_that_begin_at_once_do_not_stumble_over_each_other(
        self, open_one: Open, query: Callable[..., list[Any]]
    ) -> None:
        def write(number: int) -> None:
            open_one(sink=f"sink-{number}").commit(0, (), rows(number))

        threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert query() == list(range(6))

    def test_a_batch_that_fails_half_way_leaves_nothing(
        self, open_one: Open, query: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sink = open_one()
        sink.commit(0, (), rows(1))
        copy = PostgresSink._copy

        def crash(self: PostgresSink, *arguments: Any) -> None:
            copy(self, *arguments)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(PostgresSink, "_copy", crash)
            with pytest.raises(KeyboardInterrupt):
                sink.commit(1, (), rows(2))
        assert query() == [1] and not open_one().committed(1)
        sink.commit(1, (), rows(2))
        assert query() == [1, 2]


class TestRestarts:
    @pytest.mark.parametrize("how", ["fast", "immediate"])
    def test_a_server_that_restarts_between_batches_costs_no_row(
        self, postgres: PostgresServer, open_one: Open, query: Callable[..., list[Any]], how: str
    ) -> None:
        sink = open_one()
        sink.commit(0, (), rows(1))
        postgres.restart(how)
        sink.commit(1, (), rows(2))
        assert query() == [1, 2]

    @pytest.mark.parametrize("moment", ["before the rows", "after the rows", "after the commit"])
    def test_a_server_that_restarts_within_a_batch_costs_and_doubles_no_row(
        self,
        postgres: PostgresServer,
        open_one: Open,
        query: Callable[..., list[Any]],
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        moment: str,
    ) -> None:
        sink = open_one()
        sink.commit(0, (), rows(1))
        happened = []

        def once() -> None:
            if not happened:
                happened.append(moment)
                postgres.restart("immediate")

        copy, write = PostgresSink._copy, PostgresSink._write

        def interrupted_copy(self: PostgresSink, *arguments: Any) -> None:
            if moment == "before the rows":
                once()
            copy(self, *arguments)
            if moment == "after the rows":
                once()

        def interrupted_write(self: PostgresSink, connection: Any, *arguments: Any) -> None:
            write(self, connection, *arguments)
            if moment == "after the commit":
                # The answer to the commit never arrives.
                once()
                connection.execute("SELECT 1")

        monkeypatch.setattr(PostgresSink, "_copy", interrupted_copy)
        monkeypatch.setattr(PostgresSink, "_write", interrupted_write)
        with caplog.at_level(logging.WARNING):
            sink.commit(1, (), rows(2, 3))
        assert happened and query() == [1, 2, 3] and sink.committed(1)
        assert "waiting for postgresql://" in caplog.text and "is back" in caplog.text

    def test_a_server_that_stays_away_is_told_of_with_what_to_do(
        self, postgres: PostgresServer, open_one: Open, query: Callable[..., list[Any]]
    ) -> None:
        sink = open_one(retry_s=0.3)
        with postgres.down(), pytest.raises(SinkError, match=r"sink 'out': .* to be back within 0.3 s, got .*retry_s"):
            sink.commit(0, (), rows(1))
        sink.commit(0, (), rows(1))
        assert query() == [1]

    def test_who_closes_it_does_not_wait_for_the_server(self, postgres: PostgresServer, open_one: Open) -> None:
        sink = open_one(retry_s=3600)
        failed: list[Exception] = []

        def commit() -> None:
            try:
                sink.commit(0, (), rows(1))
            except SinkError as error:
                failed.append(error)

        assert isinstance(sink, ClosableSink)
        with postgres.down():
            thread = threading.Thread(target=commit)
            thread.start()
            sink.close()
            thread.join(60)
        assert failed and not thread.is_alive()


class TestStart:
    def test_a_server_that_is_down_is_named(self) -> None:
        with pytest.raises(
            ConfigError, match=r"sink 'out'\": expected to reach PostgreSQL at postgresql://127.0.0.1:1/x"
        ):
            open_sink(Sink("out", Connector("postgres", {"url": "postgresql://127.0.0.1:1/x"})))

    @pytest.mark.parametrize(
        ("wrong", "said"),
        [({"password": "no"}, "password authentication failed"), ({"database": "no"}, 'database "no" does not exist')],
    )
    def test_what_the_server_refuses_is_told(self, postgres: PostgresServer, wrong: Any, said: str) -> None:
        with pytest.raises(ConfigError, match=said) as caught:
            PostgresSink.of("out", {"url": postgres.tcp_url(**wrong)})
        assert ":no@" not in str(caught.value) and caught.value.remedy

    def test_a_password_may_come_from_a_variable(
        self, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        options = {"url": postgres.tcp_url(password=""), "password_env": "TIDE_PASSWORD"}
        with pytest.raises(ConfigError, match="in the environment variable TIDE_PASSWORD, got no such variable"):
            PostgresSink.of("out", options)
        monkeypatch.setenv("TIDE_PASSWORD", PASSWORD)
        PostgresSink.of("out", options).close()

    def test_options_are_checked(self) -> None:
        with pytest.raises(ConfigError, match="expected the option 'url'"):
            open_sink(Sink("out", Connector("postgres", {"table": "t"})))
        with pytest.raises(ConfigError, match="did you mean 'table'"):
            PostgresSink.of("out", {"url": "postgresql://h/d", "tabel": "t"})
        with pytest.raises(ConfigError, match="expected 1 to 63 bytes"):
            PostgresSink.of("out", {"url": "postgresql://h/d", "table": "t" * 64})


class TestTables:
    def test_columns_may_come_and_go(self, open_one: Open, query: Callable[..., list[Any]]) -> None:
        sink = open_one()
        for batch_id, table in enumerate((rows(1), rows(2, note=["x"]), rows(3))):
            sink.commit(batch_id, (), table)
        assert query("SELECT id, note FROM out ORDER BY id") == [(1, None), (2, "x"), (3, None)]

    def test_a_table_of_someone_elses_keeps_its_types(self, open_one: Open, query: Callable[..., list[Any]]) -> None:
        query("CREATE TABLE out (id integer, at timestamptz, kind varchar(8), seen timestamptz DEFAULT now())")
        at = pa.array(["2024-01-02T03:04:05Z"])
        open_one(create=False).commit(0, (), rows(7, at=at, kind=["ok"]))
        [found] = query("SELECT id, at, kind, seen IS NOT NULL FROM out")
        assert found == (7, dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC), "ok", True)

    def test_a_schema_may_be_part_of_the_name(
        self, postgres: PostgresServer, schema: str, open_one: Open, query: Callable[..., list[Any]]
    ) -> None:
        open_one(url=postgres.url(), table=f'{schema}.Odd %s "name"?').commit(0, (), rows(1, **{'a "%s"?': [2]}))
        assert query('SELECT * FROM "Odd %s ""name""?"') == [(1, 2)]
        assert query("SELECT last_batch FROM foretide_batches") == [0]

    @pytest.mark.parametrize(
        ("table", "options", "said"),
        [
            ("CREATE TABLE out (id smallint)", {}, r"out of range.*COPY out, line 1, column id.*correct the rows"),
            ("CREATE TABLE out (id bigint CHECK (id < 5))", {}, r"check constraint.*correct the rows"),
            ("CREATE TABLE out (id bigint)", {"keys": ["id"]}, r"no unique or exclusion constraint.*primary key"),
            ("SELECT 1", {"create": False}, r"does not exist.*make the table"),
        ],
    )
    def test_what_the_table_does_not_take_is_told_and_leaves_nothing(
        self, open_one: Open, query: Callable[..., list[Any]], table: str, options: Any, said: str
    ) -> None:
        query(table)
        sink = open_one(**options)
        with pytest.raises(SinkError, match=said):
            sink.commit(0, (), rows(1_000_000))
        assert not open_one(**options).committed(0)

    def test_a_row_replaces_the_one_with_its_key(self, open_one: Open, query: Callable[..., list[Any]]) -> None:
        sink = open_one(keys="id, day")
        days = [dt.date(2024, 1, 1)] * 3
        sink.commit(0, (), rows(1, 2, 1, day=days, count=[1, 1, 5]))
        sink.commit(1, (), rows(2, 3, day=days[:2], count=[7, 1]))
        sink.commit(1, (), rows(2, 3, day=days[:2], count=[7, 1]))
        assert query("SELECT id, count FROM out ORDER BY id") == [(1, 5), (2, 7), (3, 1)]

    def test_a_table_that_is_all_key_holds_each_once(self, open_one: Open, query: Callable[..., list[Any]]) -> None:
        sink = open_one(keys=["id"])
        sink.commit(0, (), rows(1, 2, 2))
        sink.commit(1, (), rows(2, 3))
        assert query() == [1, 2, 3]

    def test_a_key_without_a_value_is_told(self, open_one: Open) -> None:
        table = pa.table({"id": pa.array([1, None], pa.int64())})
        with pytest.raises(SinkError, match="leave out rows without a value for the key"):
            open_one(keys=["id"]).commit(0, (), table)


AWARE = dt.datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
AT = AWARE.replace(tzinfo=None)
#: An Arrow type, values of it, and what the server gives back.
TYPES: list[tuple[pa.DataType, list[Any], list[Any]]] = [
    (pa.bool_(), [True, False], [True, False]),
    (pa.int8(), [-128], [-128]),
    (pa.int32(), [2**31 - 1], [2**31 - 1]),
    (pa.int64(), [-(2**63)], [-(2**63)]),
    (pa.uint64(), [2**64 - 1], [Decimal(2**64 - 1)]),
    (pa.float32(), [0.5], [0.5]),
    (pa.float64(), [0.1, 1e300, float("inf"), -0.0], [0.1, 1e300, float("inf"), -0.0]),
    (pa.decimal128(38, 10), [Decimal("-1234567890123456789012345678.0123456789")], ["same"]),
    (pa.decimal128(5, 2), [Decimal("1.50"), Decimal("0.00")], ["same"]),
    (pa.string(), ["", "NULL", "\\N", "\\.", "a\tb\r\nc\\d", "\\.\n\\.", "'\"ü→😀"], ["same"]),
    (pa.large_string(), ["x"], ["same"]),
    (pa.dictionary(pa.int32(), pa.string()), ["a", "a"], ["same"]),
    (pa.binary(), [b"", b"\x00\xff\\x"], ["same"]),
    (pa.date32(), [dt.date(1582, 10, 4), dt.date(2024, 2, 29)], ["same"]),
    (pa.timestamp("us"), [AT], ["same"]),
    (pa.timestamp("us", "UTC"), [AWARE], ["same"]),
    (pa.timestamp("ns", "Europe/Madrid"), [AWARE], ["same"]),
    (pa.time64("us"), [dt.time(23, 59, 59, 999999)], ["same"]),
    (pa.duration("us"), [dt.timedelta(days=-1, microseconds=1)], ["same"]),
    (pa.list_(pa.int64()), [[1, None, 3], []], ["same"]),
    (pa.list_(pa.float64()), [[0.5, float("nan"), float("-inf")]], [[0.5, "NaN", "-Infinity"]]),
    (
        pa.struct({"a": pa.string(), "at": pa.date32()}),
        [{"a": 'q"\n', "at": AT.date()}],
        [{"a": 'q"\n', "at": "2024-01-02"}],
    ),
    (pa.map_(pa.string(), pa.list_(pa.int32())), [[("a", [1]), ("b", None)]], [{"a": [1], "b": None}]),
    (pa.null(), [None], [None]),
]


class TestTypes:
    @pytest.mark.parametrize(("type", "values", "expected"), TYPES, ids=[str(case[0])[:30] for case in TYPES])
    def test_values_come_back_as_they_were(
        self, open_one: Open, query: Callable[..., list[Any]], type: pa.DataType, values: list[Any], expected: list[Any]
    ) -> None:
        given = [*values, None]
        table = rows(*range(len(given)), value=pa.array(given, type))
        open_one().commit(0, (), table)
        found = query("SELECT value FROM out ORDER BY id")
        assert found == [*(values if expected == ["same"] else expected), None]

    def test_a_number_that_is_none_stays_one(self, open_one: Open, query: Callable[..., list[Any]]) -> None:
        open_one().commit(0, (), rows(1, value=[float("nan")]))
        assert query("SELECT value::text FROM out") == ["NaN"]

    def test_a_nul_becomes_the_replacement_character(self, open_one: Open, query: Callable[..., list[Any]]) -> None:
        table = rows(1, 2, text=["a\x00\tb", "c"], words=[["d\x00", "\\u0000"], []])
        open_one().commit(0, (), table)
        assert query("SELECT text, words FROM out ORDER BY id") == [("a\ufffd\tb", ["d\ufffd", "\\u0000"]), ("c", [])]

    @pytest.mark.parametrize("column", [{"text": ["a\x00b"]}, {"words": [["a\x00"]]}])
    def test_a_nul_may_be_an_error(self, open_one: Open, column: Any) -> None:
        name = next(iter(column))
        with pytest.raises(SinkError, match=f"a NUL character, got one in column '{name}'"):
            open_one(nul="error").commit(0, (), rows(1, **column))

    def test_many_pieces_are_one_batch(self, open_one: Open, query: Callable[..., list[Any]]) -> None:
        open_one().commit(0, (), pa.concat_tables([rows(*range(20_000)), rows(*range(20_000, 30_001))]))
        assert query("SELECT count(*), sum(id) FROM out") == [(30_001, sum(range(30_001)))]

    def test_a_decimal_of_hundreds_has_a_type(self) -> None:
        assert column_type(pa.decimal128(5, -2)) == "numeric"

    def test_sliced_rows_are_written_as_they_are(self) -> None:
        assert list(copy_text(rows(1, 2, 3).slice(1, 1))) == [b"2\n"]
