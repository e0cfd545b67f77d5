"""An operator with a key in a worker, without Spark: what its function gets, and what it may return."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from foretide.spark.batches.declared import operator_spec, state_schema
from foretide.spark.errors import OperatorError
from foretide.spark.tasks.keyed import KeyedRunner
from foretide.spark.tasks.operators import OperatorSpec
from foretide.state.clock import MICROS
from foretide.state.keys import decode_key, encode_keys
from foretide.state.memory import DueKeys
from foretide.state.rows import RowCodec
from foretide.topology import Operator, flow
from foretide.topology.builder import Stream

AT_10, AT_20 = datetime(1970, 1, 1, 0, 0, 10, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 20, tzinfo=UTC)
STATE = pa.schema([("n", pa.int64()), ("last", pa.string())])


class Kept:
    """A state in memory, in place of a task's."""

    now_us = 0
    watermark_us: int | None = None
    columns = ""

    def __init__(self, **known: tuple[int, str]) -> None:
        self.known: dict[tuple[Any, ...], tuple[int, str] | None] = {(key,): state for key, state in known.items()}

    def look_up(self, partitions: Any, keys: list[bytes]) -> pa.RecordBatch:
        assert (np.diff(partitions) >= 0).all()
        codec = RowCodec(STATE)
        rows = [self.known.get(decode_key(key)) or (None, None) for key in keys]
        columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), STATE, strict=True)]
        return codec.decode(codec.encode(pa.RecordBatch.from_arrays(columns, schema=STATE)))

    def due(self) -> None:
        return None

    def note(self, partitions: Any, keys: list[bytes], deleted: Any, state: pa.RecordBatch) -> None:
        assert (np.diff(partitions) >= 0).all()
        for key, gone, row in zip(keys, deleted.tolist(), state.to_pylist(), strict=True):
            self.known[decode_key(key)] = None if gone else (row["n"], row["last"])


def run(function: Any, mode: Any, rows: dict[str, list[Any]], kept: Kept, key: Any = ("k",)) -> tuple[Any, KeyedRunner]:
    runner = KeyedRunner(OperatorSpec(Operator("count", function, mode=mode, key=key, state="x int"), {}, 0, STATE))
    outputs = runner.run_keyed(pa.record_batch(rows), kept, 8)  # type: ignore[arg-type]
    return [row for part in outputs.get("out", []) for row in part.to_pylist()], runner


ROWS = {"k": ["a", "b", "a", "c"], "v": [1, 2, 3, 4]}


def test_a_function_of_pandas_gets_all_rows_and_the_states_of_their_keys() -> None:
    seen: list[Any] = []

    def function(rows: pd.DataFrame, state: pd.DataFrame) -> Any:
        seen.append((rows["v"].tolist(), state.sort_index()["n"].fillna(-1).tolist(), state.index.name))
        return rows[["v"]], pd.DataFrame({"n": rows.groupby("k").size(), "last": "x"})

    kept = Kept(a=(5, "y"))
    outputs, runner = run(function, "pandas", ROWS, kept)
    assert seen == [([1, 2, 3, 4], [5, -1, -1], "k")]
    assert [row["v"] for row in outputs] == [1, 2, 3, 4]
    assert kept.known == {("a",): (2, "x"), ("b",): (1, "x"), ("c",): (1, "x")}
    assert (runner.rows_in, runner.rows_out, [sum(counts) for counts in zip(*runner.work.values(), strict=True)]) == (
        4,
        4,
        [4, 3],
    )
    assert runner.hottest == ("('a',)", 2) and 0 < runner.cpu_s


def test_columns_of_an_input_without_rows_are_there_too() -> None:
    def both(rows: pd.DataFrame, state: pd.DataFrame) -> Any:
        return rows[["k", "price"]].assign(opened=rows["opened"].notna()), None

    job = flow("auctions")
    job.source("ids", "trace", trace="pasps_dns", payload="ids")
    read = job.source("in").operator(
        "read",
        outputs=("opened", "bids"),
        schema={"opened": "k string, opened timestamp", "bids": "k string, price int"},
    )
    job.operator(
        "both", both, mode="pandas", inputs=[read["opened"], read["bids"], Stream(job, "ids")], key="k", state="n long"
    )
    topology = job.build()
    spec = operator_spec(topology, topology.operator("both"), 0)
    assert spec.united is not None and spec.united.names == ["k", "opened", "price", "id", "event_time"]
    assert operator_spec(topology, topology.operator("read"), 0).united is None
    runner = KeyedRunner(OperatorSpec(spec.operator, {}, 0, STATE, spec.united))
    [rows] = runner.run_keyed(pa.record_batch({"k": ["a"], "price": [3]}), Kept(), 8)["out"]  # type: ignore[arg-type]
    assert rows.select(["k", "price", "opened"]).to_pylist() == [{"k": "a", "price": 3, "opened": False}]


def test_keys_that_are_not_returned_stay_and_those_without_values_go() -> None:
    def function(rows: pd.DataFrame, state: pd.DataFrame) -> Any:
        return None, pd.DataFrame({"n": [None, 7], "last": [None, "z"]}, index=pd.Index(["a", "c"], name="k"))

    kept = Kept(a=(5, "y"), b=(6, "y"))
    run(function, "pandas", ROWS, kept)
    assert kept.known == {("a",): None, ("b",): (6, "y"), ("c",): (7, "z")}


def test_a_key_may_have_several_columns() -> None:
    def by_key(key: tuple[str, int], rows: list[Any], state: Any) -> Any:
        return [{"key": str(key), "rows": len(rows)}], {"n": len(rows), "last": None}

    def in_pandas(rows: pd.DataFrame, state: pd.DataFrame) -> Any:
        return None, state.assign(n=rows.groupby(["k", "v"]).size(), last="x")

    rows = {"k": ["a", "a", "b"], "v": [1, 1, 1]}
    kept = Kept()
    outputs, _ = run(by_key, "rows", rows, kept, key=("k", "v"))
    assert sorted(row["key"] for row in outputs) == ["('a', 1)", "('b', 1)"]
    assert kept.known == {("a", 1): (2, None), ("b", 1): (1, None)}
    run(in_pandas, "pandas", rows, kept, key=("k", "v"))
    assert kept.known == {("a", 1): (2, "x"), ("b", 1): (1, "x")}


def test_keys_at_fault_are_found_and_keep_their_states() -> None:
    def function(rows: pa.RecordBatch, state: pa.RecordBatch) -> Any:
        if "b" in rows["k"].to_pylist():
            raise ValueError("no b")
        return rows, pa.record_batch({"k": state["k"], "n": pa.array([9] * len(state)), "last": ["x"] * len(state)})

    kept = Kept(b=(1, "y"))
    outputs, runner = run(function, "arrow", {"k": [*"aabbcde"], "v": [*range(7)]}, kept)
    assert sorted(row["v"] for row in outputs) == [0, 1, 4, 5, 6]
    assert runner.failed == 2 and [letter.error for letter in runner.letters] == ["ValueError"] * 2
    assert kept.known == {(key,): (9, "x") for key in "acde"} | {("b",): (1, "y")}


@pytest.mark.parametrize(
    ("function", "mode", "expected"),
    [
        (lambda rows, state: rows, "pandas", "returns two things, its output and the new state, got DataFrame"),
        (lambda rows, state: (None, state.reset_index()), "pandas", r"a frame indexed by \[None\]"),
        (lambda rows, state: (None, state[["n"]]), "pandas", r"columns \['n'\] without \['last'\]"),
        (lambda rows, state: (None, state.assign(n="many")), "pandas", "got .*many"),
        (lambda rows, state: (None, 3), "pandas", "int instead of a frame"),
        (lambda rows, state: (None, pd.concat([state, state])), "pandas", "two rows of one key"),
        (lambda rows, state: (None, state.rename(index={"a": "z"})), "pandas", "a key of which there are no rows"),
        (lambda key, rows, state: (None, {"m": 1}), "rows", "got a column 'm'"),
        (lambda key, rows, state: (None, {"n": "many"}), "rows", "got .*many"),
        (lambda key, rows, state: (None, 3), "rows", "got int instead of a row or None"),
        (lambda rows, state: (None, rows), "arrow", r"without \['n', 'last'\]"),
        (lambda rows, state: (None, state.select(["n", "last"])), "arrow", "without the key 'k'"),
        (lambda rows, state: (None, {}), "arrow", "dict instead of a batch"),
    ],
)
def test_a_function_that_breaks_its_contract_is_named(function: Any, mode: str, expected: str) -> None:
    with pytest.raises(OperatorError, match=f"'count'.*{expected}"):
        run(function, mode, ROWS, Kept())


def test_rows_without_their_key_are_named() -> None:
    with pytest.raises(OperatorError, match=r"expected a column 'k', which its state is kept by, got columns \['v'\]"):
        run(lambda rows, state: (None, None), "pandas", {"v": [1]}, Kept())
    with pytest.raises(OperatorError, match=r"'count'.*keys of at most 500 bytes"):
        run(lambda rows, state: (None, None), "pandas", {"k": ["x" * 600]}, Kept())


TIMED = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
TIMES = pa.timestamp("us", "UTC")


class Due(Kept):
    """A state whose keys are due, each with a count of 1 and a timer at 10 s."""

    watermark_us = 15 * MICROS

    def __init__(self, *keys: str) -> None:
        super().__init__()
        self._keys = [key for _, key in sorted((key, encode_keys([pa.array([key])])[0]) for key in keys)]
        self.noted: dict[str, dict[str, Any] | None] = {}
        self.columns = pa.schema([("k", pa.string()), ("event_time", TIMES)]).serialize().to_pybytes().hex()

    def due(self) -> DueKeys | None:  # type: ignore[override]
        state = pa.record_batch({"n": [1] * len(self._keys), "at": pa.array([10 * MICROS] * len(self._keys), TIMES)})
        return DueKeys(np.zeros(len(self._keys), dtype=np.int64), self._keys, state) if self._keys else None

    def look_up(self, partitions: Any, keys: list[bytes]) -> pa.RecordBatch:
        return RowCodec(TIMED).decode([None] * len(keys))

    def note(self, partitions: Any, keys: list[bytes], deleted: Any, state: pa.RecordBatch) -> None:
        for key, gone, row in zip(keys, deleted.tolist(), state.to_pylist(), strict=True):
            self.noted[decode_key(key)[0]] = None if gone else row


def call(
    function: Any, mode: Any, kept: Due, rows: pa.RecordBatch | None = None, **more: str
) -> tuple[list[Any], KeyedRunner]:
    options = {"timer": "at", "watermark_s": 5.0, **more}
    operator = Operator("count", function, mode=mode, key=("k",), state="x int", options=options)
    runner = KeyedRunner(OperatorSpec(operator, {}, 0, TIMED))
    outputs = runner.run_keyed(rows, kept, 8)
    return [row for part in outputs.get("out", []) for row in part.to_pylist()], runner


def in_rows(key: str, rows: list[Any], state: Any) -> Any:
    if key == "kept":
        return {"k": key, "n": state["n"], "rows": len(rows)}, state
    return None, {"n": 5, "at": AT_20} if key == "again" else None


def in_pandas(rows: pd.DataFrame, state: pd.DataFrame) -> Any:
    assert rows.empty and list(rows.columns) == ["k", "event_time"]
    out = pd.DataFrame({"k": ["kept"], "n": [1], "rows": [0]}) if "kept" in state.index else None
    again = state.index == "again"
    after = state.assign(n=state["n"].mask(again, 5), at=state["at"].mask(again, AT_20))
    return out, after[after.index != "gone"].reindex(state.index)


@pytest.mark.parametrize(("mode", "function"), [("rows", in_rows), ("pandas", in_pandas)])
def test_keys_that_are_due_are_called_without_rows(mode: str, function: Any) -> None:
    kept = Due("kept", "again", "gone")
    outputs, runner = call(function, mode, kept)
    # What completed the output is the time that was waited for.
    assert outputs == [{"k": "kept", "n": 1, "rows": 0, "event_time": AT_10}]
    # A timer that is left as it was goes; another time stays.
    assert kept.noted == {"kept": {"n": 1, "at": None}, "again": {"n": 5, "at": AT_20}, "gone": None}
    assert (runner.rows_in, runner.rows_out) == (0, 1)


def test_what_timers_of_another_clock_bring_has_the_time_of_the_latest_event() -> None:
    times = [pa.array([second * MICROS for second in seconds], TIMES) for seconds in ((90, 91), (20, 19))]
    rows = pa.record_batch({"k": ["x", "y"], "seen": times[0], "event_time": times[1]})
    outputs, _ = call(in_rows, "rows", Due("kept"), rows, event_time="seen")
    assert outputs == [{"k": "kept", "n": 1, "rows": 0, "event_time": AT_20}]
    # Without rows it is the time of the batch, which stays the same when it runs again.
    kept = Due("kept")
    kept.now_us = 10 * MICROS
    [output], _ = call(in_rows, "rows", kept, event_time="seen")
    assert output["event_time"] == AT_10


def test_a_key_that_is_due_and_not_returned_stays_without_a_timer() -> None:
    kept = Due("a", "b")
    assert call(lambda rows, state: (None, None), "arrow", kept)[0] == []
    assert kept.noted == {"a": {"n": 1, "at": None}, "b": {"n": 1, "at": None}}


def test_a_call_that_fails_is_a_dead_letter_with_the_state_and_is_not_repeated() -> None:
    def bad(key: str, rows: list[Any], state: Any) -> Any:
        if key == "b":
            raise ValueError("no")
        return None, None

    kept = Due("a", "b", "c")
    _, runner = call(bad, "rows", kept)
    assert kept.noted == {"a": None, "b": {"n": 1, "at": None}, "c": None}
    [letter] = runner.letters
    assert json.loads(letter.event) == {"k": "b", "n": 1, "at": "1970-01-01 00:00:10+00:00"}


def test_events_before_the_watermark_are_late() -> None:
    times = pa.array([None, 14_999_999, 15 * MICROS, 90 * MICROS], pa.int64()).cast(TIMES)
    seen: list[str] = []

    def function(key: str, rows: list[Any], state: Any) -> Any:
        seen.append(key)
        return None, None

    rows = pa.record_batch({"k": ["none", "late", "just", "early"], "event_time": times})
    _, runner = call(function, "rows", Due(), rows)
    assert (sorted(seen), runner.late, runner.latest_us, runner.rows_in) == (
        ["early", "just", "none"],
        1,
        90 * MICROS,
        4,
    )


def test_a_watermark_needs_times() -> None:
    with pytest.raises(OperatorError, match=r"a column 'event_time' of timestamps, .* got columns k string"):
        call(in_rows, "rows", Due(), pa.record_batch({"k": ["a"]}))


@pytest.mark.parametrize("timer", ["n", "when"])
def test_a_timer_must_be_a_timestamp_of_the_state(timer: str) -> None:
    operator = Operator("count", None, key=("k",), state="n long, at timestamp", options={"timer": timer})
    with pytest.raises(OperatorError, match=rf"a column of its state, of type timestamp, got '{timer}' and state="):
        state_schema(operator)


@pytest.mark.parametrize("key", ["s", "i"])
@pytest.mark.parametrize("mode", ["pandas", "arrow", "rows", "pandas without nulls"])
def test_nulls_are_one_key_of_their_own_unless_pandas_leaves_them_out(mode: str, key: str) -> None:
    def by_pandas(rows: pd.DataFrame, state: pd.DataFrame) -> tuple[None, pd.DataFrame]:
        sizes = rows.groupby(key, dropna=False).size()
        return None, pd.DataFrame({"n": state["n"].fillna(0) + sizes.reindex(state.index), "last": "x"}, state.index)

    def by_default(rows: pd.DataFrame, state: pd.DataFrame) -> tuple[None, pd.DataFrame]:
        sizes = rows.groupby(key).size()
        return None, pd.DataFrame({"n": state["n"].reindex(sizes.index).fillna(0) + sizes, "last": "x"})

    def by_arrow(rows: pa.RecordBatch, state: pa.RecordBatch) -> tuple[None, pa.RecordBatch]:
        came = [rows[key].to_pylist().count(value) for value in state[key].to_pylist()]
        n = [(n or 0) + more for n, more in zip(state["n"].to_pylist(), came, strict=True)]
        return None, state.set_column(1, "n", pa.array(n)).set_column(2, "last", pa.array(["x"] * len(n)))

    def by_row(value: Any, rows: list[Any], state: Any) -> tuple[None, dict[str, Any]]:
        return None, {"n": (state["n"] if state else 0) + len(rows), "last": "x"}

    functions = {"arrow": by_arrow, "rows": by_row, "pandas": by_pandas, "pandas without nulls": by_default}
    kept = Kept()
    for _ in range(2):
        rows = {"s": ["a", None, None, "b"], "i": [1, None, None, 2]}
        run(functions[mode], mode.partition(" ")[0], rows, kept, (key,))
    a, b = ("a", "b") if key == "s" else (1, 2)
    nulls = {} if mode.endswith("nulls") else {(None,): (4, "x")}
    assert kept.known == {(a,): (2, "x"), (b,): (2, "x"), **nulls}


@pytest.mark.parametrize("key", ["s", "i"])
def test_pandas_finds_the_state_of_a_key_that_is_null(key: str) -> None:
    def grouped(rows: pd.DataFrame, state: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        sizes = rows.groupby(key, dropna=False).size()
        return rows.join(state[["n"]], on=key), pd.DataFrame({"n": state["n"].fillna(0) + sizes, "last": "x"})

    def listed(rows: pd.DataFrame, state: pd.DataFrame) -> tuple[None, pd.DataFrame]:
        again = pd.Index([None if pd.isna(value) else value for value in state.index], dtype=object, name=key)
        return None, state.set_index(again)[::-1].assign(last="y")

    kept, rows = Kept(), {"s": ["a", None, None, "b"], "i": [1, None, None, 2], "x": [1, 2, 3, 4]}
    run(grouped, "pandas", rows, kept, (key,))
    found, _ = run(grouped, "pandas", rows, kept, (key,))
    assert [(row["s"], row["i"], row["n"]) for row in found] == [
        ("a", 1, 1),
        (None, None, 2),
        (None, None, 2),
        ("b", 2, 1),
    ]
    assert kept.known[(None,)] == (4, "x") and len(kept.known) == 3
    run(listed, "pandas", rows, kept, (key,))
    assert kept.known[(None,)] == (4, "y")
