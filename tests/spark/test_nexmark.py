"""The queries of Nexmark give what batch computations give, while replicas change with every batch and workers die."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nexmark_deaths
import nexmark_driver
import pandas as pd
import pytest
from checkpoints import forget_last_batch
from nexmark_batch import Batch
from nexmark_deaths import EVENTS, NEXMARK, all_read, build, change_replicas
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from waiting import wait_for

from foretide.spark import EngineSettings, RunningTopology, start

pytestmark = pytest.mark.spark

cloudpickle.register_pickle_by_value(nexmark_deaths)

QUERIES = [f"q{number}" for number in (*range(10), 11, 12)]
SMALL = EngineSettings(first_rows=750, max_rows=750, warm_pool=False)
# Rows of these replace those before them of the same key, whose columns come first; rows of all others are final.
KEYS = {"q4": 1, "q6": 1, "q12": 2}
Write = Callable[..., str]


def expected_of(name: str, found: pd.DataFrame, last: int) -> pd.DataFrame:
    """Return the result of a batch computation; `last` is the first event of the last batch.

    Windows and auctions are closed by the time of all batches before.
    """
    batch = Batch(NEXMARK, EVENTS)
    if name == "q12":  # no batch computation knows when bids came
        assert_same(found[["bidder"]], batch.bids[["bidder"]])
        return found.groupby(["bidder", "start"]).size().rename("bids").reset_index()
    batch.now = Batch(NEXMARK, last).now
    return getattr(batch, name)()


def table(running: RunningTopology, sink: str = "out") -> pd.DataFrame:
    found = running.sink(sink).table().to_pandas()
    return found.drop(columns="event_time")


def assert_same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Compare rows in any order."""
    columns = list(expected.columns)
    assert sorted(found.columns) == sorted(columns) and len(expected) > 1
    ordered = [frame[columns].sort_values(columns).reset_index(drop=True) for frame in (found, expected)]
    pd.testing.assert_frame_equal(*ordered, check_dtype=False)


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_gives_what_a_batch_computation_gives(
    spark: SparkSession, tmp_path: Path, write_trace: Write, name: str
) -> None:
    topology = build(name, write_trace(*[EVENTS / 2] * 2), tmp_path)
    with start(topology, spark, tmp_path / "run", SMALL) as running:
        change_replicas(running, lambda: all_read(running))
        running.wait()
        found, batches = table(running), [batch for batch in running.batches() if batch.rows["events"]]
        arrived = table(running, "arrived") if name == "q12" else found
        assert not running.failures()
    if name in KEYS:
        found = found.drop_duplicates(list(found.columns[: KEYS[name]]), keep="last")
    assert_same(found, expected_of(name, arrived, EVENTS - batches[-1].rows["events"]))
    assert len({batch.slots for batch in batches}) > 1
    assert (tmp_path / "made").stat().st_size > 4
    assert not topology.operators[-1].key or (tmp_path / "called").stat().st_size > 5


@pytest.mark.parametrize("name", ["q5", "q9"])
def test_a_query_goes_on_where_it_was_and_does_its_last_batch_again(
    spark: SparkSession, tmp_path: Path, write_trace: Write, name: str
) -> None:
    topology = build(name, write_trace(*[EVENTS / 2] * 2), tmp_path)
    with start(topology, spark, tmp_path / "run", SMALL) as running:
        wait_for(lambda: running.inputs()["events"].done >= EVENTS / 2, check=running.check)
    first = table(running)
    forget_last_batch(tmp_path / "run", "events")
    with start(topology, spark, tmp_path / "run", SMALL) as running:
        change_replicas(running, lambda: all_read(running))
        running.wait()
        batches = [batch for batch in running.batches() if batch.rows["events"]]
    second = table(running)
    assert not first.duplicated().any() and not second.duplicated().any()
    found = pd.concat([first, second]).drop_duplicates()
    assert_same(found, expected_of(name, found, EVENTS - batches[-1].rows["events"]))


@pytest.mark.slow
def test_queries_are_exact_on_executors_that_are_killed(tmp_path: Path, write_trace: Write) -> None:
    # One whose state we keep by key, and one whose state Spark keeps.
    names, trace = ["q9", "q5"], write_trace(*[EVENTS / 2] * 2)
    given = {"root": str(tmp_path), "trace": trace, "queries": names, "batch_rows": 750}
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({**given, "master": "local-cluster[2,1,1024]"}))
    done = subprocess.run(
        [sys.executable, nexmark_driver.__file__, str(settings)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    for name in names:
        folder = tmp_path / name
        found, told = pd.read_parquet(folder / "out.parquet"), json.loads((folder / "batches.json").read_text())
        assert_same(found.drop(columns="event_time"), expected_of(name, found, EVENTS - told["last"]))
        assert len(set(told["slots"])) > 1
    # One more died where the state is ours: with the function that keeps it.
    killed = [(tmp_path / file).read_text() for file in ("q9/made-killed", "q9/called-killed", "q5/made-killed")]
    assert len(set(killed)) == 3
