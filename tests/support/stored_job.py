"""A job whose queued edge, state, dead letters and results are files, and what must become of it."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

__all__ = ["check_stored", "read_stored_hdfs", "write_stored_job"]

_EVENTS = 200
_JOB = """
import pyarrow as pa

from foretide.topology import flow


def picky(row):
    if row["id"] % 50 == 7:
        raise ValueError(f"not {row['id']}")
    return {"id": row["id"], "key": row["id"] % 3}


def number(batch, state):
    seen = dict(zip(state["key"].to_pylist(), state["n"].fill_null(0).to_pylist()))
    nth = []
    for key in batch["key"].to_pylist():
        seen[key] += 1
        nth.append(seen[key])
    state = state.set_column(1, "n", pa.array(list(seen.values()), pa.int64()))
    return batch.append_column("nth", pa.array(nth)), state


def same(row):
    return row


job = flow("stored")
rows = job.source("in", "trace", trace=TRACE, until="all").operator("picky", picky, schema="id long, key long")
numbered = rows.operator("number", number, mode="arrow", key="key", state="n long", replicas=(2, 2))
numbered.operator("same", same, queued=True).sink("out", "parquet", path=OUT)
topology = job.build()
"""


def write_stored_job(folder: Path, out: str) -> Path:
    """Write the job and its trace into a folder; its Parquet files go to `out`."""
    trace, job = folder / "trace.csv", folder / "job.py"
    trace.write_text("second,events_per_second\n0,100\n1,100\n")
    job.write_text(_JOB.replace("TRACE", repr(str(trace))).replace("OUT", repr(out)))
    return job


def read_stored_hdfs(uri: str, folder: str) -> list[dict[str, Any]]:
    """Return the rows of the Parquet files in a folder of an HDFS."""
    from hdfs_native import Client

    client = Client(uri)
    paths = [one.path for one in client.list_status(folder, True)]
    files = [path for path in paths if path.endswith(".parquet") and "/batch_id=" in path and "/_" not in path]
    return [row for path in files for row in pq.read_table(io.BytesIO(client.read(path).read())).to_pylist()]


def check_stored(rows: Sequence[Mapping[str, Any]], letters: Sequence[Mapping[str, Any]]) -> None:
    """See that every event is there once, numbered by its key, and every failed one a letter."""
    assert sorted(row["id"] for row in rows) == [id for id in range(_EVENTS) if id % 50 != 7]
    assert sorted(json.loads(letter["event"])["id"] for letter in letters) == list(range(7, _EVENTS, 50))
    for key in range(3):
        nth = sorted(row["nth"] for row in rows if row["key"] == key)
        assert nth == list(range(1, len(nth) + 1))
