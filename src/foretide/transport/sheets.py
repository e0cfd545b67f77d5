"""Where a segment is while it is written: in a file under another name, or in memory until it is put."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

from foretide.depot import joined, open_depot
from foretide.files import sync
from foretide.transport.errors import NOT_SHARED, CorruptLogError

__all__ = ["DiskSheet", "ObjectSheet"]


class DiskSheet:
    """A file under a scratch name, which gets its own by a rename.

    Parameters
    ----------
    scratch, target : Path
        Both names, on one file system.
    fsync : bool
        Whether the file is forced to the disk before it gets its name.
    """

    def __init__(self, scratch: Path, target: Path, *, fsync: bool) -> None:
        self._scratch, self._target, self._fsync = scratch, target, fsync
        self.path, self.name = str(scratch), target.name

    def open(self) -> pa.NativeFile:
        """Return what the segment is written to."""
        try:
            return pa.OSFile(self.path, "wb")
        except FileNotFoundError as error:
            folder = str(self._scratch.parent)
            raise CorruptLogError(folder, "the directory of a log", "none on this machine", NOT_SHARED) from error

    def written(self, sink: pa.NativeFile) -> pa.NativeFile:
        """Return what was written, for reading: it is in the page cache."""
        sink.close()
        return pa.memory_map(self.path, "r")

    def publish(self) -> None:
        """Give the file its name."""
        if self._fsync:
            sync(self._scratch)
        os.rename(self._scratch, self._target)
        if self._fsync:
            sync(self._target.parent)

    def remove(self) -> None:
        """Remove the file."""
        self._scratch.unlink(missing_ok=True)


class ObjectSheet:
    """Memory, which becomes an object.

    Parameters
    ----------
    root, name : str
        The log's URI, and the name of the segment.
    """

    def __init__(self, root: str, name: str) -> None:
        self._root, self.name = root, name
        self.path = joined(root, "segments", name)
        self._content: pa.Buffer | None = None

    def open(self) -> pa.NativeFile:
        """Return what the segment is written to."""
        return pa.BufferOutputStream()

    def written(self, sink: pa.NativeFile) -> pa.NativeFile:
        """Return what was written, for reading."""
        self._content = sink.getvalue()
        return pa.BufferReader(self._content)

    def publish(self) -> None:
        """Put the object."""
        assert self._content is not None, "what is published was written"
        open_depot(self._root).put(f"segments/{self.name}", memoryview(self._content))

    def remove(self) -> None:
        """Let go of the memory: nothing was put."""
        self._content = None
