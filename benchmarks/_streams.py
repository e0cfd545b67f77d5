"""The two sides of a comparison on Spark: a topology run by Foretide, and a query written by hand.

Both give the same record, the instants at which batches ended and the rows in each, from which every figure is
computed in the same way.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from foretide.spark.driver.running_topology import RunningTopology
from foretide.spark.session.builder import create_session
from foretide.spark.settings import EngineSettings
from foretide.topology import Topology

__all__ = [
    "COUNT",
    "ArrowFunction",
    "Batches",
    "constant_trace",
    "counting",
    "cpu_seconds",
    "fixed_batches",
    "open_session",
    "run_by_hand",
    "run_topology",
    "scratch",
]

ArrowFunction = Callable[[pa.RecordBatch], pa.RecordBatch]

#: The columns of what a task reports that only counts.
COUNT = "rows long"
_POLL_S = 0.02
_TIMEOUT_S = 300.0


@dataclass
class Batches:
    """When batches ended, and how many rows each had."""

    ended_s: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def add(self, rows: int, ended_s: float | None = None) -> None:
        """Note a batch that ended now."""
        self.ended_s.append(time.time() if ended_s is None else ended_s)
        self.rows.append(rows)

    def rate(self, skip: int) -> float:
        """Return rows per second after the first `skip` batches."""
        return sum(self.rows[skip:]) / (self.ended_s[-1] - self.ended_s[skip - 1])

    def gaps_s(self) -> NDArray[np.float64]:
        """Return the seconds between the ends of batches that follow one another."""
        return np.diff(np.array(self.ended_s))

    def latencies_s(self, started_at_s: float, events_per_s: float, skip: int) -> NDArray[np.float64]:
        """Return, for a source of constant rate, how long after each event was due its batch ended."""
        last = np.cumsum(self.rows)
        due = [np.arange(end - rows + 1, end + 1) for end, rows in zip(last, self.rows, strict=True)]
        ended = [
            instant - started_at_s - numbers / events_per_s
            for instant, numbers in zip(self.ended_s[skip:], due[skip:], strict=True)
        ]
        return np.concatenate(ended)


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a directory that is removed in the end."""
    path = Path(tempfile.mkdtemp(prefix="foretide-benchmark-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def open_session(master: str = "local[*]", settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark as Foretide does; queries written by hand get the same settings and the same warm workers."""
    # Workers unpickle functions of the benchmarks' modules by name.
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return create_session(master, "benchmark", settings=settings)


def cpu_seconds() -> float:
    """Return the seconds of CPU of this process and all that it has started."""
    own = psutil.Process()
    total = 0.0
    for process in (own, *own.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def constant_trace(directory: Path, events_per_s: float, seconds: int) -> str:
    """Write a trace of constant rate and return its path."""
    path = directory / f"constant-{events_per_s:g}-{seconds}.csv"
    lines = [f"{second},{events_per_s:g}" for second in range(seconds)]
    path.write_text("\n".join(["second,events_per_second", *lines]) + "\n", encoding="utf-8")
    return str(path)


def fixed_batches(rows: int, **settings: Any) -> EngineSettings:
    """Return settings under which every batch has `rows` rows while there are as many."""
    return EngineSettings(first_rows=rows, max_rows=rows, batch_target_s=600.0, **settings)


def run_topology(
    topology: Topology,
    spark: SparkSession,
    settings: EngineSettings,
    *,
    until: Callable[[RunningTopology, Batches], bool],
    stage: str | None = None,
) -> Batches:
    """Run a topology in a fresh directory until `until` says so; return the batches of `stage`, or of the last one."""
    with scratch() as path:
        running = RunningTopology(topology, spark, path, settings)
        wanted = stage or running.graph.stages[-1].id
        deadline_s = time.monotonic() + _TIMEOUT_S
        running.start()
        try:
            while not until(running, found := _batches(running, wanted)):
                running.check()
                if time.monotonic() > deadline_s:
                    raise TimeoutError(f"{topology.name}: expected to be through in {_TIMEOUT_S:.0f} s")
                time.sleep(_POLL_S)
        finally:
            # A query that is stopped in the midst of a batch fails with a page of Java; so let it finish.
            running.stop(drain=True)
        return found


def _batches(running: RunningTopology, stage: str) -> Batches:
    found = Batches()
    for batch in running.batches():
        if batch.stage == stage:
            found.add(sum(batch.rows.values()), batch.started_at_s + batch.duration_s)
    return found


def run_by_hand(
    spark: SparkSession,
    options: Mapping[str, Any],
    work: Callable[[DataFrame], int],
    *,
    until: Callable[[Batches], bool],
    source: str = "rate-micro-batch",
    query_of: Callable[[DataFrame], DataFrame] = lambda rows: rows,
    mode: str = "append",
) -> Batches:
    """Run a hand-written query on a source, each batch of its results by `work`, which returns how many rows it had."""
    found = Batches()
    done: list[bool] = []
    idle = threading.Event()

    def run_batch(frame: DataFrame, batch_id: int) -> None:
        if not done:
            found.add(work(frame))
        idle.set()

    with scratch() as path:
        reader = spark.readStream.format(source).options(**{k: str(v) for k, v in options.items()})
        query = (
            query_of(reader.load())
            .writeStream.foreachBatch(run_batch)
            .outputMode(mode)
            .option("checkpointLocation", str(path / "checkpoint"))
            .trigger(processingTime="0 seconds")
            .start()
        )
        deadline_s = time.monotonic() + _TIMEOUT_S
        try:
            while not until(found):
                if (error := query.exception()) is not None:
                    raise error
                if time.monotonic() > deadline_s:
                    raise TimeoutError(f"hand-written query: expected to be through in {_TIMEOUT_S:.0f} s")
                time.sleep(_POLL_S)
        finally:
            # A query that is stopped in the midst of a batch fails with a page of Java; so let batches be empty.
            done.append(True)
            idle.clear()
            idle.wait(10.0)
            query.stop()
    return found


def counting(functions: Sequence[ArrowFunction]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow` that applies all `functions` and gives the number of rows, nothing else."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in batches:
            for function in functions:
                batch = function(batch)
            rows += batch.num_rows
        yield pa.RecordBatch.from_pydict({"rows": pa.array([rows], pa.int64())})

    return run


if __name__ == "__main__":
    sys.exit("this module is used by the benchmarks beside it")
