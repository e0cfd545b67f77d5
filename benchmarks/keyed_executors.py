"""State by key on executors of their own: what it costs that partitions come to another one, and how long after a kill.

Spark starts a task wherever a core is free, so a partition of a state may come to another executor with every batch;
that one has to bring its own view up to date from the changelog first. The same topology with views that both
executors share, which is the best that keeping partitions in their place could give, shows what that costs. Then an
executor is killed under a steady load: it takes so many seconds until batches take no longer than before and nothing
waits, with so large a state.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pyarrow as pa
from pyspark import SparkFiles
from pyspark.sql import SparkSession

from _harness import OF_TURNS, Measured, Options, Ratio, alternate, between, parse_options, progress, report
from _streams import constant_trace, fixed_batches, open_session, run_topology, scratch
from foretide.spark import EngineSettings, start
from foretide.spark.driver.running_topology import RunningTopology
from foretide.topology import Topology, flow
from keyed_state import STATE, keyed, together

EXECUTORS, SKIPPED = 2, 3
RATE = 2_000
# Batches in a row that must be as before, and how much longer than before that may be.
CALM, LONGER = 3, 1.25
TIMEOUT_S = 180.0


class SharedFiles:
    """Stands in for `SparkFiles` where executors of one machine share their views."""

    def __init__(self, path: str) -> None:
        self._path = path

    def getRootDirectory(self) -> str:  # noqa: N802 - Spark's name
        """Return the folder that they share."""
        return self._path


def placing(function: Callable[[pa.RecordBatch], pa.RecordBatch], shared: str) -> Callable[..., pa.RecordBatch]:
    """Return the function, which tells the worker that calls it where views are: in a shared folder, or its own."""

    def run(batch: pa.RecordBatch) -> pa.RecordBatch:
        from foretide.spark.tasks import work

        work.SparkFiles = SharedFiles(shared) if shared else SparkFiles  # type: ignore[assignment]
        return function(batch)

    return run


def counting(keys: int, shared: str = "", **replay: Any) -> Topology:
    """Return a topology that counts keys; with views in a folder that executors share, where one is given."""
    job = flow("counting")
    source = job.source("in", "trace", payload="ids", **replay)
    made = source.operator("key", placing(keyed(keys), shared), mode="arrow", replicas=1)
    made.operator("count", together, mode="pandas", key="key", state=STATE, replicas=(1, 8, EXECUTORS)).sink("out")
    return job.build()


def rows_per_s(spark: SparkSession, trace: str, keys: int, batches: int, *, shared: bool) -> float:
    """Return the rows of full batches that get through in a second, each key having a state."""
    rows = 20_000 if keys >= 20_000 else keys
    filled = SKIPPED + -(-keys // rows)
    with scratch() as path:
        topology = counting(keys, str(path) if shared else "", trace=trace, until="all")
        found = run_topology(
            topology,
            spark,
            fixed_batches(rows, kept_batches=10_000),
            until=lambda _, done: len(done.rows) >= filled + batches,
        )
    return found.rate(filled)


def victims() -> list[psutil.Process]:
    """Return the processes of executors; where Spark runs in one process, those of its Python workers."""
    below = psutil.Process().children(recursive=True)
    found: dict[str, list[psutil.Process]] = {"CoarseGrainedExecutorBackend": [], ".daemon": []}
    for process in below:
        try:
            command = " ".join(process.cmdline())
        except psutil.Error:
            continue
        for kind, known in found.items():
            if kind in command:
                known.append(process)
                break
    return found["CoarseGrainedExecutorBackend"] or found[".daemon"][-1:]


def recovery(spark: SparkSession, keys: int, rate: float, steady_s: float, longer: float) -> dict[str, float]:
    """Fill a state, kill an executor under a steady load, and return seconds until all is as before, and sizes."""
    with scratch() as path:
        # As many events at once as there are keys, then a steady stream of them.
        trace = path / "trace.csv"
        lines = [f"{second},{keys if second == 0 else rate:g}" for second in range(3600)]
        trace.write_text("\n".join(["second,events_per_second", *lines]) + "\n", encoding="utf-8")
        settings = EngineSettings(first_rows=50_000, max_rows=200_000, trigger_s=0.25)
        with start(counting(keys, trace=str(trace)), spark, path / "run", settings) as running:
            _wait(running, lambda: running.state_sizes()["count"].keys >= keys and _backlog(running) < rate)
            _pass(running, steady_s)
            before_s = median(batch.duration_s for batch in _since(running, time.time() - steady_s))
            size = running.state_sizes()["count"]
            killed_s = time.time()
            os.kill(victims()[0].pid, signal.SIGKILL)
            _wait(running, lambda: _calm(running, killed_s, longer * before_s) and _backlog(running) < rate)
            calm = _since(running, killed_s)[-CALM]
            seconds = calm.started_at_s - killed_s
    return {"seconds": max(seconds, 0.0), "batch_s": before_s, "keys": float(size.keys), "bytes": float(size.bytes)}


def _since(running: RunningTopology, at_s: float) -> list[Any]:
    return [batch for batch in running.batches() if batch.started_at_s >= at_s and any(batch.rows.values())]


def _backlog(running: RunningTopology) -> int:
    return sum(state.backlog for state in running.inputs().values())


def _calm(running: RunningTopology, since_s: float, most_s: float) -> bool:
    last = _since(running, since_s)[-CALM:]
    return len(last) == CALM and all(batch.duration_s <= most_s for batch in last)


def _wait(running: RunningTopology, condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        running.check()
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"expected the state to be filled, or calm again, in {TIMEOUT_S:.0f} s")
        time.sleep(0.05)


def _pass(running: RunningTopology, seconds: float) -> None:
    until_s = time.monotonic() + seconds
    _wait(running, lambda: time.monotonic() >= until_s)


def main() -> None:
    options = parse_options(__doc__)
    # One process has one Spark: in the tests, that is the one of all benchmarks.
    master = "local[2]" if options.smoke else f"local-cluster[{EXECUTORS},1,1536]"
    spark = open_session(master, {"spark.task.maxFailures": "8"})
    try:
        with scratch() as path:
            lines, details = measure(spark, path, options)
    finally:
        spark.stop()
    intro = f"{OF_TURNS} {EXECUTORS} executors of one core each."
    report("keyed_executors", "State by key on executors", lines, details, options, intro=intro)


def measure(spark: SparkSession, path: Path, options: Options) -> tuple[list[Measured], dict[str, Any]]:
    """Return the lines of the table, and what else was found."""
    trace, lines = constant_trace(path, 200_000, 600), list[Measured]()
    batches = options.size(20, quick=8, smoke=1)
    for keys in options.size((20_000, 1_000_000), quick=(20_000,), smoke=(200,)):
        progress(f"state on {EXECUTORS} executors: {keys:,} keys")
        sides = {
            "own views": lambda keys=keys: rows_per_s(spark, trace, keys, batches, shared=False),
            "shared views": lambda keys=keys: rows_per_s(spark, trace, keys, batches, shared=True),
        }
        rates = alternate(sides, options.repeats, warm_up=options.warm_up, show=lambda value: f"{value:,.0f} rows/s")
        ratio = between(rates["own views"], rates["shared views"])
        what = f"rows/s where partitions come to other executors, {keys:,} keys"
        lines.append(Measured(what, "views that executors share", "at least", 0.85, ratio))
    keys, rate, steady_s, longer = options.size(
        (1_000_000, RATE, 20.0, LONGER), quick=(50_000, 1_000, 8.0, LONGER), smoke=(200, 200, 1.0, 10.0)
    )
    runs = []
    for number in range(options.repeats):
        runs.append(recovery(spark, keys, rate, steady_s, longer))
        progress(
            f"  {number + 1}/{options.repeats}  after a kill: "
            + ", ".join(f"{k} {v:,.2f}" for k, v in runs[-1].items())
        )
    what = f"seconds until batches are as before, an executor with {keys:,} keys killed"
    size = median(run["bytes"] for run in runs) / 2**20
    note = f"The state had {runs[-1]['keys']:,.0f} keys and {size:,.0f} MiB in views."
    lines.append(Measured(what, "seconds", "at most", 15.0, Ratio(tuple(run["seconds"] for run in runs)), note))
    return lines, {"recoveries": runs}


if __name__ == "__main__":
    main()
