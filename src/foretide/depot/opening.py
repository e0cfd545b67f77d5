"""From a path or URI to its depot."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from foretide.config import unknown_name
from foretide.depot.contract import Depot
from foretide.depot.local import LocalDepot
from foretide.errors import ConfigError

__all__ = ["is_remote", "joined", "open_depot"]

# What each scheme is to the client; Spark's own names for stores mean the same ones.
_SCHEMES = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "az": "az", "azure": "az"}
_URI = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")


def is_remote(place: str | Path) -> bool:
    """Return whether a place is a URI of an object store or of HDFS, not a path.

    >>> is_remote("s3://bucket/run"), is_remote("/runs/one"), is_remote("file:///runs/one")
    (True, False, False)
    """
    return bool(_URI.match(str(place))) and not str(place).startswith("file://")


def joined(place: str, *parts: str) -> str:
    """Return a place within another.

    >>> joined("s3://bucket/run/", "edges", "a-b"), joined("/runs", "one")
    ('s3://bucket/run/edges/a-b', '/runs/one')
    """
    return "/".join([place.rstrip("/"), *parts])


def open_depot(place: str | Path, *, fsync: bool = False, parts: str = "") -> Depot:
    """Return the depot at a path, or at a URI such as ``s3://bucket/folder``.

    For `fsync` and `parts`, which matter on disks alone, see `LocalDepot`.

    Raises
    ------
    ConfigError
        When the URI is of a kind that is not known, or names no bucket.
    MissingExtraError
        When the extra is not installed that it needs: ``objects`` for an object store, ``hdfs`` for HDFS.
    """
    text = str(place)
    if not is_remote(text):
        path = unquote(urlsplit(text).path) if text.startswith("file://") else text
        return LocalDepot(Path(path).absolute(), fsync, parts)
    uri = urlsplit(text)
    if uri.scheme == "hdfs":
        from foretide.depot.hdfs import HdfsDepot

        return HdfsDepot(text.rstrip("/"))
    if uri.scheme not in _SCHEMES:
        error = unknown_name(text, uri.scheme, [*_SCHEMES, "hdfs", "file"])
        raise ConfigError(text, expected=f"a path, or a URI with {error.expected}", got=uri.scheme, remedy=error.remedy)
    if not uri.netloc or uri.query or uri.fragment:
        raise ConfigError(text, expected="a bucket and a folder, such as s3://bucket/folder", got="none")
    from foretide.depot.objects import ObjectDepot

    return ObjectDepot(f"{_SCHEMES[uri.scheme]}://{uri.netloc}{uri.path.rstrip('/')}")
