"""Files that appear as a whole or not at all, however many threads and processes write them."""

from __future__ import annotations

import errno
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["PART_PREFIX", "cache_directory", "claim_file", "replace_file", "replace_json", "replacing", "sync"]

#: The prefix of the names of incomplete files; a killed process can leave such files behind.
PART_PREFIX = ".part-"
# Writing and flushing fail with these without a word about the file.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def cache_directory() -> Path:
    """Return where things are kept that can be had again: ``$FORETIDE_CACHE``, else a folder in the user's cache."""
    if given := os.environ.get("FORETIDE_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "foretide"


@contextmanager
def replacing(path: str | os.PathLike[str], *, fsync: bool = False, folder: Path | None = None) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of the one at `path` when the block ends without an error.

    Every call writes a file of its own, so writers do not disturb each other: the last one to finish wins.

    Parameters
    ----------
    path : str or path-like
        The file to replace.
    fsync : bool
        Whether contents and name are forced to the disk before the block is left.
    folder : Path, optional
        Folder of the unfinished file, on the same file system; by default that of `path`.
    """
    target = Path(path)
    with _part(target, fsync=fsync, folder=folder) as part:
        with part.open("xb") as file:
            yield file
            _flush(file, fsync=fsync)
        os.replace(part, target)


def replace_file(
    path: str | os.PathLike[str], content: str | bytes | memoryview, *, fsync: bool = False, folder: Path | None = None
) -> None:
    """Write `content` at `path` in one step, over what was there; see `replacing` for the parameters."""
    with replacing(path, fsync=fsync, folder=folder) as file:
        file.write(_encoded(content))


def replace_json(path: str | os.PathLike[str], body: Any, *, fsync: bool = False) -> None:
    """Write `body` as JSON at `path` in one step, over what was there."""
    replace_file(path, json.dumps(body), fsync=fsync)


def claim_file(
    path: str | os.PathLike[str], content: str | bytes, *, fsync: bool = False, folder: Path | None = None
) -> bool:
    """Write `content` at `path` in one step unless something is there; return whether it was written.

    A hard link, unlike a rename, fails when its target exists: of two competing writers exactly one wins.
    """
    target = Path(path)
    try:
        with _part(target, fsync=fsync, folder=folder) as part:
            with part.open("xb") as file:
                file.write(_encoded(content))
                _flush(file, fsync=fsync)
            os.link(part, target)
    except FileExistsError:
        return False
    return True


def sync(path: Path) -> None:
    """Force the contents of a file, or the names in a directory, to the disk: a rename is only safe after both."""
    if os.name == "nt" and path.is_dir():  # Windows cannot open directories
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _part(target: Path, *, fsync: bool, folder: Path | None) -> Iterator[Path]:
    """Yield the name of a file that no other writer has; it is removed afterwards, unless the block renamed it."""
    part = (folder or target.parent) / f"{PART_PREFIX}{uuid.uuid4().hex}"
    try:
        yield part
    except OSError as error:
        if error.errno in _NO_ROOM and error.filename is None:
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise
    finally:
        part.unlink(missing_ok=True)
    if fsync:
        sync(target.parent)


def _encoded(content: str | bytes | memoryview) -> bytes | memoryview:
    return content.encode("utf-8") if isinstance(content, str) else content


def _flush(file: BinaryIO, *, fsync: bool) -> None:
    file.flush()
    if fsync:
        os.fsync(file.fileno())
