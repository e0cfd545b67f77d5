"""An operator with a key in a worker, without Spark: what its function gets, and what it may return."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from foretide.spark.errors import OperatorError
from foretide.spark.tasks.keyed import KeyedRunner
from foretide.spark.tasks.operators import OperatorSpec
from foretide.state.keys import decode_key
from foretide.state.rows import RowCodec
from foretide.topology import Operator

STATE = pa.schema([("n", pa.int64()), ("last", pa.string())])


class Kept:
    """A state in memory, in place of a task's."""

    def __init__(self, **known: tuple[int, str]) -> None:
        self.known: dict[tuple[Any, ...], tuple[int, str] | None] = {(key,): state for key, state in known.items()}

    def look_up(self, partitions: Any, keys: list[bytes]) -> pa.RecordBatch:
        assert (np.diff(partitions) >= 0).all()
        codec = RowCodec(STATE)
        rows = [self.known.get(decode_key(key)) or (None, None) for key in keys]
        columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), STATE, strict=True)]
        return codec.decode(codec.encode(pa.RecordBatch.from_arrays(columns, schema=STATE)))

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
