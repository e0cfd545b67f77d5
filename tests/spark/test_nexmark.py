"""The queries of Nexmark give what batch computations give, while replicas change with every batch and workers die."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import generator
import pandas as pd
import pytest
import queries
from checkpoints import forget_last_batch
from generator import Nexmark
from nexmark_batch import Batch
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from waiting import wait_for

from foretide.spark import EngineSettings, RunningTopology, start
from foretide.topology import Topology, flow
from foretide.topology.builder import Stream

pytestmark = pytest.mark.spark

for module in (generator, queries):
    cloudpickle.register_pickle_by_value(module)

QUERIES = [f"q{number}" for number in (*range(10), 11, 12)]
NEXMARK = Nexmark(seed=7, events_per_s=60)
EVENTS = 3000
SMALL = EngineSettings(first_rows=750, max_rows=750, warm_pool=False)
# Rows of these replace those before them of the same key, whose columns come first; rows of all others are final.
KEYS = {"q4": 1, "q6": 1, "q12": 2}
Write = Callable[..., str]


def die_at(calls: str, number: int) -> None:
    """Kill this process if it makes this call, of all calls that are counted in a file."""
    file = os.open(calls, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, b".")
    made = os.lseek(file, 0, os.SEEK_CUR)
    os.close(file)
    if made == number:
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class DeadlyNexmark(Nexmark):
    """Events whose maker dies once."""

    calls: str = ""

    def _made(self, *given: Any) -> Any:
        die_at(self.calls, 4)
        return super()._made(*given)


@dataclass(frozen=True)
class Deadly:
    """A function that kills the process which calls it, once."""

    function: Callable[..., Any]
    calls: str

    def __call__(self, *given: Any) -> Any:
        die_at(self.calls, 5)
        return self.function(*given)


def build(name: str, trace: str, folder: Path) -> Topology:
    """Return a query whose processes die: one that makes events, and one that keeps state by key."""
    job = flow(f"nexmark-{name}")
    ids = job.source("events", "trace", trace=trace, payload="ids", until="all", started_at=1)
    attach = getattr(queries, name).__wrapped__
    attach(ids, DeadlyNexmark(**asdict(NEXMARK), calls=str(folder / "made"))).sink("out", "memory")
    if name == "q12":
        Stream(job, "arrive").sink("arrived", "memory")
    topology = job.build()
    *others, last = topology.operators
    if last.key:
        last = replace(last, function=Deadly(last.function, str(folder / "called")))
    return replace(topology, operators=(*others, last))


def change_replicas(running: RunningTopology, until: Callable[[], bool]) -> None:
    """Let every batch have other replicas."""
    for number in count():
        if until():
            return
        running.change_replicas(dict.fromkeys(running.topology.layout.operators, 1 + number % 3))
        seen = len(running.batches())
        wait_for(lambda seen=seen: len(running.batches()) > seen or until(), check=running.check)


def all_read(running: RunningTopology) -> bool:
    return running.inputs()["events"].done == EVENTS


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
