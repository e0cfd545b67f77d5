"""Parquet files in an object store, where nothing can be renamed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from foretide.depot import open_depot
from foretide.spark.tasks.contract import EdgeWriter

__all__ = ["ObjectParquetSink"]


class ObjectParquetSink:
    """Writes Parquet objects from the tasks, one folder per batch: ``run=<id>/batch_id=<number>``.

    Tasks put files aside, under ``_attempts``. The driver puts down which of them make up the batch, unless that is
    done already, copies them into place, and notes that they are there. A batch that was put down and is not all in
    place is finished when it runs again, with the files that were put down. Readers pass over names that begin with
    ``_``; between the first copy and the last they see part of a batch.

    Parameters
    ----------
    uri : str
        The folder, such as ``s3://bucket/orders``.
    compression : str
        That of Parquet's columns.
    run : str
        The run, whose batches these are.
    """

    collects = False

    def __init__(self, uri: str, compression: str = "zstd", run: str = "0") -> None:
        self._depot, self._compression, self._run = open_depot(uri), compression, run

    def committed(self, batch_id: int) -> bool:
        """Return whether the batch is in place."""
        note = self._note(batch_id)
        return note is not None and bool(note["done"])

    def task_writer(self, batch_id: int) -> EdgeWriter:
        """Return what tasks write with."""
        return _Writer(self._depot.uri, self._aside(batch_id), self._compression)

    def commit(self, batch_id: int, written: Sequence[Any], rows: pa.Table | None) -> None:
        """Bring the files that tasks have named into place, or those that an earlier attempt put down."""
        files = sorted(str(item["file"]) for item in written)
        if not files:
            return
        name = self._name(batch_id)
        if not self._depot.put_if_absent(name, _packed(files, done=False)):
            note = self._note(batch_id)
            if note is None or note["done"]:
                self._clear(batch_id)
                return
            files = note["files"]
        for number, file in enumerate(files):
            self._depot.copy(file, f"run={self._run}/batch_id={batch_id:09d}/part-{number:05d}.parquet")
        self._depot.put(name, _packed(files, done=True))
        self._clear(batch_id)

    def _clear(self, batch_id: int) -> None:
        """Remove what lies aside, and the notes of batches that Spark will not repeat any more."""
        aside, notes = self._aside(batch_id), self._notes
        old = [f"{notes}/{name}" for name in self._depot.names(notes) if name < f"{batch_id - 1:09d}.json"]
        self._depot.delete([*old, *(f"{aside}/{name}" for name in self._depot.names(aside))])

    def _note(self, batch_id: int) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._depot.read(self._name(batch_id)))
        except FileNotFoundError:
            return None
        return found

    @property
    def _notes(self) -> str:
        return f"_batches/run={self._run}"

    def _name(self, batch_id: int) -> str:
        return f"{self._notes}/{batch_id:09d}.json"

    def _aside(self, batch_id: int) -> str:
        return f"_attempts/run={self._run}/{batch_id:09d}"


@dataclass(frozen=True)
class _Writer:
    uri: str
    folder: str
    compression: str

    def open(self) -> Any:
        return _File(self)


class _File:
    def __init__(self, writer: _Writer) -> None:
        self._settings, self._rows = writer, 0
        self._sink = pa.BufferOutputStream()
        self._writer: pq.ParquetWriter | None = None

    def append(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._sink, batch.schema, compression=self._settings.compression)
        self._writer.write_batch(batch)
        self._rows += batch.num_rows

    def close(self) -> Any:
        if self._writer is None:
            return None
        self._writer.close()
        name = f"{self._settings.folder}/{uuid.uuid4().hex}.parquet"
        open_depot(self._settings.uri).put(name, memoryview(self._sink.getvalue()))
        return {"file": name, "rows": self._rows}

    def discard(self) -> None:
        self._writer = None


def _packed(files: Sequence[str], *, done: bool) -> bytes:
    return json.dumps({"files": list(files), "done": done}).encode()
