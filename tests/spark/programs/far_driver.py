"""A driver on a cluster that shares no disk with it: what needs one is refused, and what executors see is told.

Its arguments are the master and a folder that executors do not see; it prints what it found as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from foretide.errors import ConfigError
from foretide.spark import create_session, start
from foretide.spark.pool.sight import look_around
from foretide.topology import Topology, flow


def count(batch: pa.RecordBatch, state: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Change nothing."""
    return batch, state


def needy(folder: Path) -> Topology:
    """Return a topology with all that goes through files."""
    job = flow("needy")
    rows = job.source("in", "trace", trace="pasps_dns").operator("same", "builtins:dict", mode="rows")
    counted = rows.operator("count", count, mode="arrow", key="id", state="n long")
    queued = counted.operator("last", "builtins:dict", mode="rows", queued=True)
    queued.sink("files", "parquet", path=str(folder / "out"))
    return job.build()


def main(master: str, folder: Path) -> dict[str, Any]:
    """Return what is refused, and what each executor misses."""
    spark = create_session(master, "far")
    found: dict[str, Any] = {}
    try:
        start(needy(folder), spark, folder / "run").stop()
    except ConfigError as error:
        found["refused"] = str(error)
    found["missing"] = [sight.missing for sight in look_around(spark, [folder])]
    spark.stop()
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
