"""A depot in HDFS, Hadoop's file system."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from foretide.depot.contract import DepotError, Entry
from foretide.extras import needs_extra
from foretide.files import PART_PREFIX

with needs_extra("hdfs", "a directory in HDFS"):
    from hdfs_native import Client, FileStatus, WriteOptions

__all__ = ["HdfsDepot"]

T = TypeVar("T")

# Seconds that a NameNode which is away is waited for, and between two tries; the client itself tries a few seconds.
_PATIENCE_S, _PAUSE_S = 30.0, 0.2
_TRIES = {
    "dfs.client.failover.max.attempts": "4",
    "dfs.client.failover.sleep.base.millis": "200",
    "dfs.client.failover.sleep.max.millis": "1000",
}
# What servers call a refusal that no further try changes.
_DENIED = ("AccessControlException", "AuthorizationException", "SaslException", "GSSAPI")


@dataclass(frozen=True)
class HdfsDepot:
    """A folder in HDFS; servers, user and tickets are found as Hadoop's own tools find them.

    Files are written under another name and renamed, which the NameNode does in one step, and on the condition that
    there is none of that name where it is asked to.

    Parameters
    ----------
    uri : str
        Where, such as ``hdfs://namenode:8020/folder``, or ``hdfs:///folder`` for the one that Hadoop's configuration
        names.
    """

    uri: str

    def inside(self, folder: str) -> HdfsDepot:
        """Return the depot of a folder in this one."""
        return HdfsDepot(f"{self.uri.rstrip('/')}/{folder}")

    def put(self, name: str, content: bytes | memoryview) -> None:
        """Write a file under another name, and give it its own."""
        self._put(name, content, overwrite=True)

    def put_if_absent(self, name: str, content: bytes) -> bool:
        """Write a file under another name, and give it its own on the condition that there is none."""
        # Most that come too late need not write first.
        return self.size(name) is None and self._put(name, content, overwrite=False)

    def read(self, name: str) -> bytes:
        """Return a file's content."""
        return self._ask(name, lambda: self._client.read(self._path(name)).read())

    def read_ranges(self, name: str, ranges: Iterable[tuple[int, int]]) -> list[memoryview]:
        """Return parts of a file."""

        def read() -> list[memoryview]:
            file = self._client.read(self._path(name))
            return [memoryview(file.read_range(first, end - first)) for first, end in ranges]

        ranges = list(ranges)
        return self._ask(name, read)

    def names(self, folder: str = "", after: str = "") -> list[str]:
        """Return the names of the files in a folder."""
        return [entry.name for entry in self.entries(folder, after)]

    def size(self, name: str) -> int | None:
        """Return a file's size."""
        try:
            found: FileStatus = self._ask(name, lambda: self._client.get_file_info(self._path(name)))
        except FileNotFoundError:
            return None
        return None if found.isdir else found.length

    def entries(self, folder: str = "", after: str = "") -> list[Entry]:
        """Return the files in a folder, without those that are being written."""
        try:
            found = self._ask(folder, lambda: list(self._client.list_status(self._path(folder))))
        except FileNotFoundError:
            return []
        files = (
            Entry(one.path.rpartition("/")[2], one.length, one.modification_time / 1e3)
            for one in found
            if not one.isdir
        )
        wanted = (entry for entry in files if entry.name > after and not entry.name.startswith(PART_PREFIX))
        return sorted(wanted, key=lambda entry: entry.name)

    def copy(self, name: str, target: str) -> None:
        """Read a file and write it under another name."""
        self.put(target, self.read(name))

    def delete(self, names: Iterable[str]) -> int:
        """Remove files one by one."""
        return sum(self._ask(name, partial(self._client.delete, self._path(name))) for name in names)

    def check(self) -> None:
        """Write a file and remove it; without patience.

        Raises
        ------
        DepotError
            Saying what is wrong.
        """
        name = f"{PART_PREFIX}{uuid.uuid4().hex}"
        with self._explained(""):
            self._write(name, b"")
            self._client.delete(self._path(name))

    @property
    def _client(self) -> Client:
        return _client(urlsplit(self.uri).netloc)

    def _path(self, name: str) -> str:
        parts = (unquote(urlsplit(self.uri).path).strip("/"), name)
        return "/" + "/".join(part for part in parts if part)

    def _put(self, name: str, content: bytes | memoryview, *, overwrite: bool) -> bool:
        """Return whether the file has got its name."""
        part = f"{name.rpartition('/')[0]}/{PART_PREFIX}{uuid.uuid4().hex}".lstrip("/")
        tries = 0

        def rename() -> None:
            nonlocal tries
            tries += 1
            try:
                self._client.rename(self._path(part), self._path(name), overwrite)
            except FileNotFoundError:
                # One whose answer was lost has renamed it already.
                if tries == 1:
                    raise

        self._ask(name, lambda: self._write(part, content))
        try:
            self._ask(name, rename)
        except FileExistsError:
            self.delete([part])
            return False
        except BaseException:
            with suppress(Exception):
                self._client.delete(self._path(part))
            raise
        return True

    def _write(self, name: str, content: bytes | memoryview) -> None:
        with self._client.create(self._path(name), WriteOptions(overwrite=True, create_parent=True)) as file:
            file.write(memoryview(content).cast("B"))

    def _ask(self, name: str, call: Callable[[], T]) -> T:
        """Return what HDFS answers; a NameNode that is away is asked again for a while."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while True:
            with self._explained(name):
                try:
                    return call()
                except (FileNotFoundError, FileExistsError):
                    raise
                except (OSError, RuntimeError) as error:
                    if time.monotonic() > deadline_s or any(text in str(error) for text in _DENIED):
                        raise
            time.sleep(_PAUSE_S)

    @contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        """Turn what HDFS refuses into an error that says what to do."""
        where = f"{self.uri.rstrip('/')}/{name}".rstrip("/")
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(2, "no such file", where) from error
        except FileExistsError:
            raise
        except (OSError, RuntimeError, ValueError) as error:
            got = " ".join(str(error).split())[:400]
            if any(text in got for text in _DENIED):
                expected, remedy = "a user that may read and write there", "see to HADOOP_USER_NAME, or kinit"
            else:
                expected = "an answer of HDFS"
                remedy = "see to the NameNode, and to HADOOP_CONF_DIR, which says where it is"
            raise DepotError(where, expected=expected, got=got, remedy=remedy) from error


@lru_cache(maxsize=16)
def _client(server: str) -> Client:
    """Return a client, which keeps its connections."""
    return Client(f"hdfs://{server}" if server else None, _TRIES)
