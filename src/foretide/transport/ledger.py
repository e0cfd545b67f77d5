"""Committing batches: each once, in one order, by any number of competing writers."""

from __future__ import annotations

from urllib.parse import quote

import pyarrow as pa

from foretide.depot import is_remote
from foretide.transport.contract import Commit, SegmentInfo
from foretide.transport.errors import NOT_SHARED, BatchOrderError, CorruptLogError
from foretide.transport.files import claim_json, full_disk_as
from foretide.transport.manifest import Layout, Manifest, ManifestIndex
from foretide.transport.segment import ArrowSegmentWriter
from foretide.transport.settings import ArrowLogSettings

__all__ = ["Ledger"]

_MISSING = f"run the batch again; if it happens every time, {NOT_SHARED}"


class Ledger:
    """Decides which batches are in a log.

    A commit claims the next sequence number by creating its manifest file. Of two writers that want the same
    number one gets it; the other looks again, and either finds its own batch committed or tries the next number.

    Parameters
    ----------
    layout : Layout
        Where the log is.
    index : ManifestIndex
        The log's manifests.
    edge : str
        The edge's name, for messages.
    settings : ArrowLogSettings
        How rows are stored.
    """

    def __init__(self, layout: Layout, index: ManifestIndex, edge: str, settings: ArrowLogSettings) -> None:
        self.layout, self.index, self.edge, self.settings = layout, index, edge, settings

    def known(self, stage: str, batch_id: int) -> Commit | None:
        """Return the commit of a batch, also of one consumed since; None if there is none.

        Raises
        ------
        BatchOrderError
            When the stage has committed a later batch, but not this one.
        """
        manifest = self.index.find(stage, batch_id)
        if manifest is not None:
            return manifest.commit
        retired, last = self.index.head.stages.get(stage), self.index.last_batch(stage)
        if retired is not None and batch_id <= retired.batch_id:
            unknown = Commit(stage, batch_id, sequence=-1, base_offset=0, rows=0, bytes=0, retired=True)
            return retired if batch_id == retired.batch_id else unknown
        if batch_id < last:
            raise BatchOrderError(self.edge, stage, batch_id, last)
        return None

    def commit(self, stage: str, batch_id: int, segments: list[SegmentInfo]) -> Commit:
        """Put a batch into the log unless it is there; return the commit that counts."""
        with full_disk_as(self.edge, self.layout.place()):
            if not self.index.loaded:
                self.index.refresh()
            while True:
                # What others have done since the batch was begun, the claim of the next number finds out.
                known = self.known(stage, batch_id)
                if known is not None:
                    self.discard(stage, batch_id, segments)
                    return known
                manifest = self._next_manifest(stage, batch_id, segments)
                if self._publish(manifest):
                    return manifest.commit
                self.index.refresh()

    def segment_writer(self, stage: str, schema: pa.Schema | None) -> ArrowSegmentWriter:
        """Return what the tasks of a stage write with."""
        return ArrowSegmentWriter(
            root=self.layout.place(),
            edge=self.edge,
            stage=quote(stage, safe="")[:80],
            schema=schema,
            compression=self.settings.compression,
            fsync=self.settings.fsync,
        )

    def discard(self, stage: str, batch_id: int, segments: list[SegmentInfo]) -> None:
        """Remove those of `segments` that the commit of the batch does not name."""
        manifest = self.index.find(stage, batch_id)
        named = {info.name for info in manifest.segments} if manifest else set()
        self.layout.depot.delete(self.layout.segment(info.name) for info in segments if info.name not in named)

    def _next_manifest(self, stage: str, batch_id: int, segments: list[SegmentInfo]) -> Manifest:
        self._check_files(segments)
        commit = Commit(
            stage,
            batch_id,
            sequence=self.index.next_sequence,
            base_offset=self.index.end_offset,
            rows=sum(info.rows for info in segments),
            bytes=sum(info.bytes for info in segments),
        )
        return Manifest(commit, tuple(segments))

    def _publish(self, manifest: Manifest) -> bool:
        name = self.layout.manifest(manifest.commit.sequence)
        if not claim_json(self.layout.depot, name, manifest.to_json()):
            return False
        if self.index.add_own(manifest):
            return True
        self.index.refresh()
        # The number lies before the head. Either this batch was consumed and retired at once, or the number had
        # been taken, retired and thereby freed before: then the claim was void, and readers do not see it.
        retired = self.index.head.stages.get(manifest.commit.stage)
        if retired is not None and retired.batch_id >= manifest.commit.batch_id:
            return True
        self.layout.depot.delete([name])
        return False

    def _check_files(self, segments: list[SegmentInfo]) -> None:
        if is_remote(self.layout.place()):  # an object store has what it said it took
            return
        for info in segments:
            name = self.layout.segment(info.name)
            size = self.layout.depot.size(name)
            if size != info.bytes:
                got = "no such file" if size is None else f"{size} bytes"
                raise CorruptLogError(self.layout.place(name), f"a segment of {info.bytes} bytes", got, _MISSING)
