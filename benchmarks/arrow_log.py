"""Rows per second through the embedded log, against Parquet files with the same rows, in one process.

python benchmarks/arrow_log.py --rows 2000000
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from foretide.traces import payload
from foretide.transport import ArrowLog, ArrowLogSettings

CHUNK = 10_000  # what Spark hands to a Python writer by default


def log_run(settings: ArrowLogSettings) -> Callable[[Path, list[list[pa.RecordBatch]]], tuple[float, float]]:
    def run(directory: Path, batches: list[list[pa.RecordBatch]]) -> tuple[float, float]:
        log = ArrowLog(directory / "log", settings=settings)
        log.register("r")
        started = time.perf_counter()
        for batch_id, chunks in enumerate(batches):
            writer = log.begin("s", batch_id)
            writer.commit([writer.segment_writer().write(chunks)])
        written = time.perf_counter()
        for batch_id in range(len(batches)):
            size = log.end_offset() // len(batches)
            for piece in log.segments(batch_id * size, (batch_id + 1) * size):
                touch(log.read(piece))
        return written - started, time.perf_counter() - written

    return run


def parquet_run(**settings: object) -> Callable[[Path, list[list[pa.RecordBatch]]], tuple[float, float]]:
    def run(directory: Path, batches: list[list[pa.RecordBatch]]) -> tuple[float, float]:
        started = time.perf_counter()
        for index, chunks in enumerate(batches):
            pq.write_table(pa.Table.from_batches(chunks), directory / f"{index}.parquet", **settings)
        written = time.perf_counter()
        for index in range(len(batches)):
            touch(pq.ParquetFile(directory / f"{index}.parquet").iter_batches(CHUNK))
        return written - started, time.perf_counter() - written

    return run


def touch(batches: object) -> None:
    """Read every value's bytes once, so that a memory map cannot win by never being read."""
    for batch in batches:
        for column in batch.columns:
            for buffer in column.buffers():
                if buffer is not None:
                    np.frombuffer(buffer, np.uint8)[::64].sum()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    size = options.rows // options.batches
    make = payload("words")
    batches = [
        [make(np.arange(first, min(first + CHUNK, base + size)), 1) for first in range(base, base + size, CHUNK)]
        for base in range(0, options.rows, size)
    ]
    runs = {
        "arrow log": log_run(ArrowLogSettings(fsync=False)),
        "arrow log, fsync": log_run(ArrowLogSettings(fsync=True)),
        "arrow log, lz4": log_run(ArrowLogSettings(fsync=False, compression="lz4")),
        "parquet": parquet_run(),
        "parquet, plain": parquet_run(compression="none", use_dictionary=False),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(options.repeats):  # interleaved, so that a noisy neighbour hits all alike
        for name, run in runs.items():
            with tempfile.TemporaryDirectory() as directory:
                times[name].append(run(Path(directory), batches))
    for name, pairs in times.items():
        write, read = (statistics.median(values) for values in zip(*pairs, strict=True))
        rates = {"write_rows_per_s": options.rows / write, "read_rows_per_s": options.rows / read}
        print(json.dumps({"store": name, **{key: round(value) for key, value in rates.items()}}))


if __name__ == "__main__":
    main()
