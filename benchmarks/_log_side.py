"""One side of `log_port.py`: measures the log of the package that is on its path, as often as it is asked.

Each line of its input is a request in JSON, and each is answered by such a line. It is run with the present package and
with the one of before, so it uses what both have.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import foretide
from foretide.transport import ArrowLog, ArrowLogSettings

#: Rows that Spark hands to a Python writer at once.
CHUNK = 10_000
_WORDS = ["tide", "ebb", "flood", "surge", "lull", "wave", "spring", "neap"]


class Edge:
    """A queued edge: what writes its log and what reads it, each with a log of its own on the same directory."""

    def __init__(self, folder: Path) -> None:
        settings = ArrowLogSettings(fsync=False)
        self._in, self._out = (ArrowLog(folder / "log", edge="a -> b", settings=settings) for _ in range(2))
        self._out.register("b")
        self._batch, self._next = 0, 0

    def pass_on(self, chunks: list[pa.RecordBatch]) -> None:
        """Write a batch, read it at the other end, and say that it is not needed any more."""
        transaction = self._in.begin("a", self._batch)
        transaction.commit([transaction.segment_writer().write(chunks)])
        # Each looks for news as its own engine does.
        look: Any = getattr(self._out, "end_beyond", None)
        end = self._out.end_offset() if look is None else look(self._next)
        rows = sum(_touch(self._out.read(piece)) for piece in self._out.segments(self._next, end))
        expected = sum(chunk.num_rows for chunk in chunks)
        if rows != expected:
            raise RuntimeError(f"batch {self._batch}: expected {expected} rows, got {rows}")
        self._out.commit("b", end)
        self._batch, self._next = self._batch + 1, end


def _touch(batches: Iterable[pa.RecordBatch]) -> int:
    """Read every value's bytes, so that a memory map cannot win by never being read; return how many rows there are."""
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        for column in batch.columns:
            for buffer in column.buffers():
                if buffer is not None:
                    np.frombuffer(buffer, np.uint8)[::64].sum()
    return rows


def _chunks(rows: int) -> list[pa.RecordBatch]:
    """Return rows with a number, an instant and some words each."""
    texts = [" ".join(_WORDS[(row + k) % 8] for k in range(12)) for row in range(min(rows, CHUNK))]
    sizes = [min(CHUNK, rows - first) for first in range(0, rows, CHUNK)]
    return [
        pa.record_batch({"id": np.arange(size), "event_time": np.arange(size) / 1e3, "text": texts[:size]})
        for size in sizes
    ]


def seconds_of_batches(rows: int, batches: int) -> list[float]:
    """Return how long each batch took through a new log."""
    chunks, found = _chunks(rows), []
    with tempfile.TemporaryDirectory(prefix="foretide-log-") as folder:
        edge = Edge(Path(folder))
        for _ in range(batches):
            began_s = time.perf_counter()
            edge.pass_on(chunks)
            found.append(time.perf_counter() - began_s)
    return found


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        found = seconds_of_batches(asked["rows"], asked["batches"])
        answer = {"sum_s": sum(found), "median_s": median(found), "package": foretide.__file__}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
