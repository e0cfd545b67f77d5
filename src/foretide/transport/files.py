"""Small durable files: JSON with a checksum, put in place in one step."""

from __future__ import annotations

import errno
import json
import os
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from foretide.transport.errors import CorruptLogError, LogFullError

__all__ = ["claim_json", "full_disk_as", "read_json", "remove", "replace_json", "sync_directory"]

FORMAT = 1


def read_json(path: Path) -> dict[str, Any]:
    """Return the body of a file that `replace_json` or `claim_json` wrote.

    Raises
    ------
    CorruptLogError
        When the file is not what was written.
    FileNotFoundError
        When there is none.
    """
    data = path.read_bytes()
    try:
        envelope = json.loads(data)
        body, checksum, version = envelope["body"], envelope["checksum"], envelope["format"]
    except (ValueError, KeyError, TypeError) as error:
        expected = "a JSON object with format, checksum and body"
        raise CorruptLogError(str(path), expected, f"{len(data)} bytes that are not one") from error
    if version != FORMAT:
        remedy = "read it with the version of Foretide that wrote it"
        raise CorruptLogError(str(path), f"format {FORMAT}", f"format {version}", remedy)
    if checksum != _checksum(body):
        raise CorruptLogError(str(path), f"checksum {checksum}", f"checksum {_checksum(body)}")
    return dict(body)


def replace_json(path: Path, body: dict[str, Any], scratch: Path, *, fsync: bool) -> None:
    """Write `body` at `path` in one step, over what was there."""
    os.replace(_write_scratch(body, scratch, fsync=fsync), path)
    sync_directory(path.parent, fsync=fsync)


def claim_json(path: Path, body: dict[str, Any], scratch: Path, *, fsync: bool) -> bool:
    """Write `body` at `path` in one step unless something is there; tell whether it was written.

    A hard link, unlike a rename, fails when its target exists: of two competing writers exactly one wins.
    """
    temporary = _write_scratch(body, scratch, fsync=fsync)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        remove(temporary)
    sync_directory(path.parent, fsync=fsync)
    return True


@contextmanager
def full_disk_as(edge: str, path: Path) -> Iterator[None]:
    """Turn a full disk (or quota) into a LogFullError that names `edge` and `path`."""
    try:
        yield
    except LogFullError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise LogFullError(edge, str(path)) from error
        raise


def sync_directory(path: Path, *, fsync: bool) -> None:
    """Make the names in a directory durable: a rename is only safe once its directory is written."""
    if not fsync:
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: Path) -> bool:
    """Delete a file; tell whether it was there."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def _write_scratch(body: dict[str, Any], scratch: Path, *, fsync: bool) -> Path:
    path = scratch / f"{uuid.uuid4().hex}.json"
    envelope = {"format": FORMAT, "checksum": _checksum(body), "body": body}
    with path.open("x", encoding="utf-8") as file:
        json.dump(envelope, file, separators=(",", ":"))
        file.flush()
        if fsync:
            os.fsync(file.fileno())
    return path


def _checksum(body: object) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True, separators=(",", ":")).encode())
