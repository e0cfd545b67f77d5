"""Small durable files: JSON with a checksum, put in place in one step."""

from __future__ import annotations

import errno
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from foretide.files import claim_file, replace_file
from foretide.transport.errors import CorruptLogError, LogFullError

__all__ = ["claim_json", "full_disk_as", "read_json", "remove", "replace_json"]

FORMAT = 1


def read_json(path: Path) -> dict[str, Any]:
    """Return the body of a file that `replace_json` or `claim_json` wrote.

    Raises
    ------
    CorruptLogError
        When the file is not what was written.
    FileNotFoundError
        When there is no such file.
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
    replace_file(path, _enveloped(body), fsync=fsync, folder=scratch)


def claim_json(path: Path, body: dict[str, Any], scratch: Path, *, fsync: bool) -> bool:
    """Write `body` at `path` in one step unless something is there; tell whether it was written."""
    return claim_file(path, _enveloped(body), fsync=fsync, folder=scratch)


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


def remove(path: Path) -> bool:
    """Delete a file; tell whether it was there."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def _enveloped(body: dict[str, Any]) -> str:
    return json.dumps({"format": FORMAT, "checksum": _checksum(body), "body": body}, separators=(",", ":"))


def _checksum(body: object) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True, separators=(",", ":")).encode())
