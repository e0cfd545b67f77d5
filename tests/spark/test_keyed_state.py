"""Operators that keep state by key, on Spark: exact whatever their replicas do, and across restarts."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import SparkFiles
from pyspark.sql import SparkSession
from waiting import wait_for

from foretide.spark import EngineSettings, start
from foretide.state.reading import read_state
from foretide.topology import Topology, flow
from foretide.traces import Replay, load_trace, payload

pytestmark = pytest.mark.spark

SMALL = EngineSettings(first_rows=400, max_rows=400)
Write = Callable[..., str]


def in_pandas(rows: pd.DataFrame, state: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    before = state["n"].fillna(0).astype("int64")
    nth = rows.groupby("key").cumcount() + 1 + rows["key"].map(before)
    total = before.add(rows.groupby("key").size(), fill_value=0).astype("int64")
    return rows[["id", "key"]].assign(nth=nth), pd.DataFrame({"n": total, "last": "x"})


def in_arrow(rows: pa.RecordBatch, state: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    keys = state["key"].to_pylist()
    known = dict(zip(keys, pc.fill_null(state["n"], 0).to_pylist(), strict=True))
    nth = []
    for key in rows["key"].to_pylist():
        known[key] += 1
        nth.append(known[key])
    out = pa.record_batch({"id": rows["id"], "key": rows["key"], "nth": nth})
    # In another order than they were given.
    turned = pa.record_batch({"key": keys[::-1], "n": [known[key] for key in keys[::-1]], "last": ["x"] * len(keys)})
    return out, turned


def in_rows(key: str, rows: list[dict[str, Any]], state: Mapping[str, Any] | None) -> tuple[Any, dict[str, Any]]:
    n = 0 if state is None else state["n"]
    out = [{"id": row["id"], "key": row["key"], "nth": n + place} for place, row in enumerate(rows, start=1)]
    return out, {"n": n + len(rows), "last": "x"}


MODES = {"pandas": in_pandas, "arrow": in_arrow, "rows": in_rows}


def counting(trace: str, function: Any, mode: Any, state: str = "n long, last string", **options: Any) -> Topology:
    job = flow("counting")
    job.source("in", "trace", trace=trace, until="all").operator(
        "count",
        function,
        mode=mode,
        key="key",
        state=state,
        schema="id long, key string, nth long",
        replicas=(1, 6, 2),
        **options,
    ).sink("out", "memory")
    return job.build()


def keys_of(trace: str) -> Counter[str]:
    replay = Replay(load_trace(trace), payload("words"), 0)
    batches = replay.events(0, replay.total_events, 0)
    return Counter(key for batch in batches for key in batch["key"].to_pylist())


@pytest.mark.parametrize("mode", MODES)
def test_every_event_is_counted_once_while_replicas_change_with_every_batch(
    spark: SparkSession, tmp_path: Path, write_trace: Write, mode: str
) -> None:
    trace = write_trace(*[1000] * 6)
    topology = counting(trace, MODES[mode], mode, state_partitions=16)
    with start(topology, spark, tmp_path / "run", SMALL) as running:
        for replicas in (1, 4, 6, 2, 3):
            running.change_replicas({"count": replicas})
            seen = len(running.batches())
            wait_for(lambda seen=seen: len(running.batches()) > seen + 1, check=running.check)
        running.wait()
        found = running.sink("out").table()
        slots = {batch.slots for batch in running.batches()}
    assert {1, 4, 6, 2, 3} <= slots
    expected = keys_of(trace)
    # For each key the numbers from 1 to its count, each once: none is lost, and none was counted from an old state.
    nth = found.to_pandas().groupby("key")["nth"].agg(lambda values: sorted(values))
    assert {key: len(values) for key, values in nth.items()} == expected
    assert all(values == list(range(1, len(values) + 1)) for values in nth)


def test_a_run_goes_on_with_the_state_it_had(spark: SparkSession, tmp_path: Path, write_trace: Write) -> None:
    trace = write_trace(*[500] * 4)
    topology = counting(trace, in_pandas, "pandas")
    with start(topology, spark, tmp_path / "run", SMALL) as running:
        wait_for(lambda: len(running.batches()) >= 2, check=running.check)
    first = running.sink("out").table()
    # Views are no more than copies.
    shutil.rmtree(Path(SparkFiles.getRootDirectory()) / "foretide-state")
    with start(topology, spark, tmp_path / "run", SMALL) as running:
        running.wait()
    found = pa.concat_tables([first, running.sink("out").table()]).to_pandas()
    nth = found.drop_duplicates("id").groupby("key")["nth"].agg(lambda values: sorted(values))
    assert {key: values for key, values in nth.items()} == {
        key: list(range(1, count + 1)) for key, count in keys_of(trace).items()
    }


def sometimes_bad(rows: pd.DataFrame, state: pd.DataFrame) -> tuple[Any, Any]:
    if (rows["id"] % 97 == 5).any():
        raise ValueError("a bad event")
    return in_pandas(rows, state)


def test_keys_at_fault_are_set_aside_with_their_rows_and_keep_their_state(
    spark: SparkSession, tmp_path: Path, write_trace: Write
) -> None:
    trace = write_trace(300, 300)
    with start(counting(trace, sometimes_bad, "pandas"), spark, tmp_path / "run", SMALL) as running:
        running.wait()
        found = running.sink("out").table().to_pandas()
        failed = running.by_operator()["count"].failed
    nth = found.groupby("key")["nth"].agg(lambda values: sorted(values))
    assert failed and len(found) + failed == 600
    assert all(values == list(range(1, len(values) + 1)) for values in nth)


def forgets(key: str, rows: list[dict[str, Any]], state: Mapping[str, Any] | None) -> tuple[Any, Any]:
    n = len(rows) + (0 if state is None else state["n"])
    return {"id": rows[-1]["id"], "key": key, "nth": n}, None if n >= 3 else {"n": n}


def test_a_state_of_none_removes_its_key(spark: SparkSession, tmp_path: Path, write_trace: Write) -> None:
    topology = counting(write_trace(300, 300), forgets, "rows", state="n long", state_partitions=4)
    with start(topology, spark, tmp_path / "run", EngineSettings(first_rows=20, max_rows=20)) as running:
        running.wait()
        counts = running.sink("out").table()["nth"].to_numpy()
    # Nothing is counted on from 3 or more.
    assert counts.min() == 1 and (counts >= 3).any() and counts.max() < 2 + 20


BEGIN_S = 1_767_225_600


def in_windows(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(start=rows["event_time"].dt.floor("1s"))


def count_windows(rows: pd.DataFrame, state: pd.DataFrame) -> tuple[Any, pd.DataFrame]:
    """Count the rows of a window, and give the count when it closes."""
    if rows.empty:
        return state.reset_index()[["key", "start", "n"]], state.assign(n=None, closes=None)
    n = state["n"].fillna(0).add(rows.groupby(["key", "start"]).size()).astype("int64")
    closes = state.index.get_level_values("start") + pd.Timedelta("1s")
    return None, pd.DataFrame({"n": n, "closes": closes}, index=state.index)


def test_windows_close_once_when_the_watermark_passes_while_replicas_change(
    spark: SparkSession, tmp_path: Path, write_trace: Write
) -> None:
    # More batches than both starts wait for, however quick they are.
    trace = write_trace(*[600] * 10)
    job = flow("windows")
    job.source("in", "trace", trace=trace, until="all", started_at=BEGIN_S).operator(
        "window", in_windows, mode="pandas", replicas=(1, 4)
    ).operator(
        "count",
        count_windows,
        mode="pandas",
        key=["key", "start"],
        state="n long, closes timestamp",
        schema="key string, start timestamp, n long",
        timer="closes",
        watermark_s=0.5,
        replicas=(1, 6, 2),
        state_partitions=16,
    ).sink("out", "memory")
    found = []
    for start_with in (1, 4):
        with start(job.build(), spark, tmp_path / "run", EngineSettings(first_rows=300, max_rows=300)) as running:
            for replicas in (start_with, 6, 2):
                running.change_replicas({"count": replicas})
                seen = len(running.batches())
                wait_for(lambda seen=seen: len(running.batches()) > seen + 1, check=running.check)
            if start_with == 4:
                running.wait()
            drops = running.drops()
        found.append(running.sink("out").table())
    assert not drops
    made = pa.concat_tables(found).to_pandas()
    left = read_state(tmp_path / "run", "count").to_pandas()
    replay = Replay(load_trace(trace), payload("words"), 0)
    events = pa.Table.from_batches(replay.events(0, replay.total_events, BEGIN_S * 1_000_000)).to_pandas()
    expected = events.groupby(["key", events["event_time"].dt.floor("1s")]).size()
    # Each window is given once or is still open; together they are all events.
    closed, still_open = made.set_index(["key", "start"])["n"], left.set_index(["key", "start"])["n"]
    assert closed.index.is_unique and not closed.index.isin(still_open.index).any()
    assert len(closed) > 100 and pd.concat([closed, still_open]).sort_index().tolist() == expected.sort_index().tolist()
    assert closed.index.get_level_values("start").max() < still_open.index.get_level_values("start").min()
