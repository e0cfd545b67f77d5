"""A long run in bounded memory and disk: an hour of a trace at ten times its speed, by default.

The topology has a chain, an exchange and a queued edge, and its replicas change every few seconds. Memory of the driver
(what lives in Java's heap, and Python), of its workers, and the size of the workspace (checkpoints, edges, dead
letters) are sampled from the first batch on; after the first third they may not grow by more than a tenth, which a leak
of any size does in an hour. Java's process is shown, not judged: its heap takes room up to its limit at will.

    python benchmarks/soak.py                 # one hour
    python benchmarks/soak.py --minutes 5     # shorter
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

import psutil
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from foretide.spark import EngineSettings, RunningTopology, create_session
from foretide.topology import Topology, flow

# What may be added after the first third: a part of what was there, and a little of each for noise.
GROWTH = 0.10
SLACK = {"heap_mb": 32.0, "driver_mb": 24.0, "workers_mb": 64.0, "workspace_mb": 8.0, "files": 100.0}


@dataclass(frozen=True)
class Sample:
    """The resources in use at one instant."""

    elapsed_s: float
    batches: int
    rows: int
    heap_mb: float
    jvm_mb: float
    driver_mb: float
    workers_mb: float
    workspace_mb: float
    files: float
    kept_batches: int


def topology(trace: str, speed: float, scale: float) -> Topology:
    """Return in -> words -> letters -> (queue) -> short -> nothing."""

    def words(row: Mapping[str, Any]) -> list[dict[str, Any]]:
        if row["id"] % 9973 == 0:
            raise ValueError("an event that nobody can take")
        return [{"id": row["id"], "word": word} for word in row["text"].split()]

    def letters(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.append_column("letters", pc.utf8_length(batch["word"]))

    def short(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pc.less(batch["letters"], 6))

    job = flow("soak")
    source = job.source("in", "trace", trace=trace, speed=speed, rate_scale=scale)
    split = source.operator("words", words, replicas=(1, 3), schema="id long, word string")
    counted = split.operator("letters", letters, mode="arrow", grouping="fields:word", replicas=(1, 2))
    counted.operator("short", short, mode="arrow", queued=True, replicas=(1, 2)).sink("out")
    return job.build()


def looped_trace(path: Path, seconds: float) -> str:
    """Write a trace of so many seconds, with a swing and a burst in each ten minutes; return its path."""
    lines = ["second,events_per_second"]
    for second in range(0, int(seconds) + 10, 5):
        phase = second % 600
        lines.append(f"{second},{200 + 150 * (phase > 300) + 600 * (120 <= phase < 180)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def live_heap_mb(spark: SparkSession) -> float:
    """Return what lives in the driver's heap, after a collection."""
    runtime = cast(Any, spark)._jvm.java.lang.Runtime.getRuntime()
    runtime.gc()
    return float(runtime.totalMemory() - runtime.freeMemory()) / 1e6


def take_sample(spark: SparkSession, running: RunningTopology, workspace: Path, started_s: float) -> Sample:
    """Measure now."""
    own = psutil.Process()
    jvm = workers = 0
    for child in own.children(recursive=True):
        try:
            used = child.memory_info().rss
            jvm, workers = (jvm + used, workers) if "java" in child.name() else (jvm, workers + used)
        except psutil.Error:
            continue
    sizes = [size for file in workspace.rglob("*") if (size := _size(file)) is not None]
    totals = running.totals()
    return Sample(
        round(time.monotonic() - started_s, 1),
        totals.batches,
        totals.rows,
        live_heap_mb(spark),
        jvm / 1e6,
        own.memory_info().rss / 1e6,
        workers / 1e6,
        sum(sizes) / 1e6,
        float(len(sizes)),
        len(running.batches()),
    )


def _size(file: Path) -> int | None:
    try:
        return file.stat().st_size if file.is_file() else None
    except FileNotFoundError:
        return None


def growth(samples: Sequence[Sample], warm: float = 1 / 3) -> dict[str, tuple[float, float]]:
    """Return the median of each resource just after the warm-up, and at the end."""
    rest = samples[int(len(samples) * warm) :]
    width = max(1, len(rest) // 4)
    return {name: (_median(rest[:width], name), _median(rest[-width:], name)) for name in SLACK}


def _median(samples: Sequence[Sample], name: str) -> float:
    values = sorted(getattr(sample, name) for sample in samples)
    return float(values[len(values) // 2])


def grown(samples: Sequence[Sample]) -> list[str]:
    """Return what has grown more than it may."""
    return [
        f"{name}: from {before:.1f} to {after:.1f}"
        for name, (before, after) in growth(samples).items()
        if after > before * (1 + GROWTH) + SLACK[name]
    ]


def soak(seconds: float, every_s: float, speed: float, scale: float, workspace: Path) -> list[Sample]:
    """Run for so long, with replicas that change, and return the samples."""
    trace = looped_trace(workspace.parent / "soak.csv", seconds * speed)
    # Few old batches in Spark's checkpoints, so that a steady state is reached early.
    spark = create_session(
        "local[2]",
        "foretide-soak",
        settings={"spark.driver.memory": "1g", "spark.sql.streaming.minBatchesToRetain": "10"},
    )
    settings = EngineSettings(log_max_bytes=64 << 20, kept_batches=200)
    running = RunningTopology(topology(trace, speed, scale), spark, workspace, settings)
    samples: list[Sample] = []
    numbers, stopped = random.Random(7), threading.Event()

    def change() -> None:
        while not stopped.wait(5.0):
            running.change_replicas({"words": numbers.randint(1, 3), "letters": numbers.randint(1, 2)})

    started_s = time.monotonic()
    changes = threading.Thread(target=change, daemon=True)
    try:
        running.start()
        changes.start()
        while time.monotonic() - started_s < seconds:
            running.wait(every_s)
            if running.totals().rows:
                samples.append(take_sample(spark, running, workspace, started_s))
                print(_line(samples[-1]), flush=True)
        stopped.set()
        changes.join()
        if not running.drain(120.0):
            raise SystemExit("the topology could not be drained: it has fallen behind")
    finally:
        stopped.set()
        running.stop(drain=False)
        spark.stop()
    return samples


def _line(sample: Sample) -> str:
    return "  ".join(f"{field.name} {getattr(sample, field.name):.0f}" for field in fields(sample))


def main() -> int:
    """Run the soak and tell whether anything grew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long to run (60)")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two samples (10)")
    parser.add_argument("--speed", type=float, default=10.0, help="trace seconds per second (10)")
    parser.add_argument("--scale", type=float, default=0.2, help="events of the trace to keep (0.2)")
    parser.add_argument("--json", type=Path, help="write the samples to this file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        samples = soak(given.minutes * 60, given.every, given.speed, given.scale, Path(folder) / "run")
    if given.json:
        given.json.write_text(json.dumps([asdict(sample) for sample in samples]), encoding="utf-8")
    for name, (before, after) in growth(samples).items():
        print(f"{name:14} {before:10.1f} -> {after:10.1f}")
    wrong = grown(samples)
    print("bounded" if not wrong else f"GREW: {'; '.join(wrong)}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
