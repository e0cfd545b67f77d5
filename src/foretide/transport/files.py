"""Small durable files: JSON with a checksum, put in place in one step."""

from __future__ import annotations

import errno
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from foretide.depot import Depot, joined
from foretide.transport.errors import CorruptLogError, LogFullError

__all__ = ["claim_json", "full_disk_as", "read_json", "replace_json"]

FORMAT = 1


def read_json(depot: Depot, name: str) -> dict[str, Any]:
    """Return the body of a file that `replace_json` or `claim_json` wrote.

    Raises
    ------
    CorruptLogError
        When the file is not what was written.
    FileNotFoundError
        When there is no such file.
    """
    data, path = depot.read(name), joined(depot.uri, name)
    try:
        envelope = json.loads(data)
        body, checksum, version = envelope["body"], envelope["checksum"], envelope["format"]
    except (ValueError, KeyError, TypeError) as error:
        expected = "a JSON object with format, checksum and body"
        raise CorruptLogError(path, expected, f"{len(data)} bytes that are not one") from error
    if version != FORMAT:
        remedy = "read it with the version of Foretide that wrote it"
        raise CorruptLogError(path, f"format {FORMAT}", f"format {version}", remedy)
    if checksum != _checksum(body):
        raise CorruptLogError(path, f"checksum {checksum}", f"checksum {_checksum(body)}")
    return dict(body)


def replace_json(depot: Depot, name: str, body: dict[str, Any]) -> None:
    """Write `body` in one step, over what was there."""
    depot.put(name, _enveloped(body))


def claim_json(depot: Depot, name: str, body: dict[str, Any]) -> bool:
    """Write `body` in one step unless something is there; tell whether it was written."""
    return depot.put_if_absent(name, _enveloped(body))


@contextmanager
def full_disk_as(edge: str, path: str) -> Iterator[None]:
    """Turn a full disk (or quota) into a LogFullError that names `edge` and `path`."""
    try:
        yield
    except LogFullError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise LogFullError(edge, path) from error
        raise


def _enveloped(body: dict[str, Any]) -> bytes:
    return json.dumps({"format": FORMAT, "checksum": _checksum(body), "body": body}, separators=(",", ":")).encode()


def _checksum(body: object) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True, separators=(",", ":")).encode())
