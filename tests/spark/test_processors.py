# ruff: noqa: N802, N803 - Spark's names
"""Processors of PySpark's as operators: exact while their replicas change, and by event time too."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from waiting import wait_for

from foretide.spark import EngineSettings, start
from foretide.spark.errors import OperatorError
from foretide.topology import Topology, flow
from foretide.traces import Replay, load_trace, payload

pytestmark = pytest.mark.spark

SMALL = EngineSettings(first_rows=200, max_rows=200)
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
Write = Callable[..., str]


class Counting(StatefulProcessor):
    """Numbers the events of each key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getValueState("n", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        [before] = self.state.get() if self.state.exists() else (0,)
        found = pd.concat(list(rows))
        self.state.update((before + len(found),))
        nth = range(before + 1, before + len(found) + 1)
        yield pd.DataFrame({"id": found["id"], "key": key[0], "nth": list(nth)})

    def close(self) -> None: ...


class Dying(Counting):
    """The same, but its process dies in the midst of a batch, once."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        if self.state.exists() and not os.path.exists(self.mark):
            Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().handleInputRows(key, rows, timerValues)


class Sessions(StatefulProcessor):
    """Counts the events of a key, and tells how many there were once the watermark has passed the first of them."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle, self.state = handle, handle.getValueState("n", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        [before] = self.state.get() if self.state.exists() else (0,)
        found = list(rows)
        if not before:
            self.handle.registerTimer(int(found[0]["event_time"].timestamp() * 1000) + 1)
        self.state.update((before + len(found),))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        [count] = self.state.get()
        self.state.clear()
        yield Row(key=key[0], n=count)

    def close(self) -> None: ...


def counting(trace: str, processor: Any, **options: Any) -> Topology:
    job = flow("counting")
    declared = {"key": "key", "schema": "id long, key string, nth long", "replicas": (1, 5, 2), **options}
    job.source("in", "trace", trace=trace, until="all").operator("count", processor, **declared).sink("out", "memory")
    return job.build()


def numbers(found: pd.DataFrame) -> dict[str, list[int]]:
    """Return the numbers that the events of each key got."""
    return found.groupby("key")["nth"].agg(sorted).to_dict()


def expected(trace: str) -> dict[str, list[int]]:
    """Return the numbers that they are to get."""
    replay = Replay(load_trace(trace), payload("words"), 0)
    counts = Counter(key for batch in replay.events(0, replay.total_events, 0) for key in batch["key"].to_pylist())
    return {key: list(range(1, count + 1)) for key, count in counts.items()}


def test_every_event_is_counted_once_while_replicas_change_with_every_batch(
    spark: SparkSession, tmp_path: Path, write_trace: Write
) -> None:
    trace = write_trace(*[300] * 4)
    # A session of the user's own need not keep state as a processor must have it kept.
    provider = spark.conf.get(PROVIDER)
    spark.conf.unset(PROVIDER)
    try:
        with start(counting(trace, Counting(), state_partitions=5), spark, tmp_path / "run", SMALL) as running:
            for replicas in (1, 5, 3):
                running.change_replicas({"count": replicas})
                seen = len(running.batches())
                wait_for(lambda seen=seen: len(running.batches()) > seen + 1, check=running.check)
            running.wait()
            found, slots = running.sink("out").table(), {batch.slots for batch in running.batches()}
    finally:
        assert spark.conf.get(PROVIDER, None) is None
        spark.conf.set(PROVIDER, str(provider))
    assert {1, 5, 3} <= slots
    assert numbers(found.to_pandas()) == expected(trace)
    [state] = (tmp_path / "run" / "stages").glob("*/checkpoint/state/0")
    assert len(list(state.glob("[0-9]*"))) == 5


def test_a_worker_that_dies_in_the_midst_of_a_batch_costs_an_attempt_and_nothing_else(
    spark: SparkSession, tmp_path: Path, write_trace: Write
) -> None:
    trace, mark = write_trace(*[300] * 3), tmp_path / "died"
    with start(counting(trace, Dying(str(mark)), state_partitions=5), spark, tmp_path / "run", SMALL) as running:
        running.wait()
        found = running.sink("out").table().to_pandas()
    assert mark.exists()
    assert numbers(found) == expected(trace)


def test_timers_fire_as_the_watermark_passes(spark: SparkSession, tmp_path: Path, write_trace: Write) -> None:
    topology = counting(
        write_trace(*[200] * 4), Sessions(), schema="key string, n long", watermark_s=1, output_mode="append"
    )
    assert topology.operator("count").mode == "rows"  # by its annotations
    with start(topology, spark, tmp_path / "run", SMALL) as running:
        running.wait()
        found = running.sink("out").table().to_pandas()
    # Those of the last seconds wait for events after them.
    assert 200 <= found["n"].sum() < 800


@pytest.mark.parametrize(
    ("attribute", "options", "message"),
    [
        (threading.Lock(), {}, "operator 'count': expected code that can be sent to workers, got TypeError: cannot"),
        (None, {"key": "kay"}, "expected a column 'kay', which its state is kept by, .*; did you mean 'key'"),
        (None, {"watermark_s": 1, "event_time": "at"}, "expected a column 'at', the time of its events"),
    ],
)
def test_what_cannot_run_is_refused_at_the_start(
    spark: SparkSession, tmp_path: Path, write_trace: Write, attribute: Any, options: dict[str, Any], message: str
) -> None:
    processor = Counting()
    processor.attribute = attribute  # type: ignore[attr-defined]
    with pytest.raises(OperatorError, match=message):
        start(counting(write_trace(1, 1), processor, **options), spark, tmp_path / "run", SMALL)
