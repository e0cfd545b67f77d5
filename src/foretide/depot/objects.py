"""A depot in an object store: S3 and what speaks its language, Google Cloud Storage, Azure."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

from foretide.depot.contract import DepotError, Entry
from foretide.extras import needs_extra

with needs_extra("objects", "a directory in an object store"):
    import obstore
    import obstore.exceptions as refusals
    from obstore.store import from_url

__all__ = ["ObjectDepot"]

T = TypeVar("T")

#: Where clients of each kind of store look for credentials and servers, for messages.
_VARIABLES = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY",
}
#: What to set where there are no credentials at all.
_TO_SET = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (profiles in ~/.aws are not read), and for a server other "
    "than Amazon's AWS_ENDPOINT_URL",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account's key",
    "az": "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
# Without credentials clients ask the machine for some, as clouds lend them; by these parts of what they ask for, an
# error tells that it gave none either. An account is asked for nothing.
_OF_THE_MACHINE = (
    "/latest/api/token",
    "/latest/meta-data/",
    "/computeMetadata/",
    "/metadata/identity/",
    "Account must be specified",
)
_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")
_CLIENT: Any = {"connect_timeout": "4s", "timeout": "60s"}
# A store that is away for a moment is waited for; batches are repeated if it stays away.
_PATIENT: Any = {"max_retries": 8, "retry_timeout": timedelta(seconds=30)}
# The client gives up at once what fails in the midst of an answer; then we ask again, as long as it would have.
_PATIENCE_S, _PAUSE_S = 30.0, 0.2
# What is wrong from the start is told within ten seconds, but not what is wrong for a moment.
_CHECK_S = 4.0
_AT_ONCE: Any = {"max_retries": 1, "retry_timeout": timedelta(seconds=4)}


@dataclass(frozen=True)
class ObjectDepot:
    """A folder of an object store; credentials come from the environment, as for each store's own tools.

    Parameters
    ----------
    uri : str
        Where, such as ``s3://bucket/folder``.
    """

    uri: str

    def inside(self, folder: str) -> ObjectDepot:
        """Return the depot of a folder in this one."""
        return ObjectDepot(f"{self.uri.rstrip('/')}/{folder}")

    def put(self, name: str, content: bytes | memoryview) -> None:
        """Write an object."""
        body = memoryview(content).cast("B")
        self._ask(name, lambda: obstore.put(self._store, self._key(name), body), writing=True)

    def put_if_absent(self, name: str, content: bytes) -> bool:
        """Write an object on the condition that there is none."""
        tries = 0

        def put() -> None:
            nonlocal tries
            tries += 1
            obstore.put(self._store, self._key(name), content, mode="create")

        try:
            self._ask(name, put, writing=True)
        except refusals.AlreadyExistsError:
            # A try whose answer was cut off may have been the one that wrote it.
            return tries > 1 and self.read(name) == content
        return True

    def read(self, name: str) -> bytes:
        """Return an object's content."""
        return self._ask(name, lambda: bytes(obstore.get(self._store, self._key(name)).bytes()))

    def read_ranges(self, name: str, ranges: Iterable[tuple[int, int]]) -> list[memoryview]:
        """Return parts of an object, fetched side by side."""
        starts, ends = zip(*ranges, strict=True)
        parts = self._ask(name, lambda: obstore.get_ranges(self._store, self._key(name), starts=starts, ends=ends))
        return [memoryview(part) for part in parts]

    def names(self, folder: str = "", after: str = "") -> list[str]:
        """Return the names of the objects in a folder."""
        return [entry.name for entry in self.entries(folder, after)]

    def size(self, name: str) -> int | None:
        """Return an object's size."""
        try:
            return self._ask(name, lambda: int(obstore.head(self._store, self._key(name))["size"]))
        except FileNotFoundError:
            return None

    def entries(self, folder: str = "", after: str = "") -> list[Entry]:
        """Return the objects in a folder."""
        prefix = self._key(folder)
        offset = f"{prefix}/{after}" if after else None
        found = self._ask(folder, lambda: obstore.list(self._store, prefix, offset=offset).collect())
        names = ((str(item["path"]).removeprefix(prefix).lstrip("/"), item) for item in found)
        files = (Entry(name, item["size"], item["last_modified"].timestamp()) for name, item in names)
        return sorted((entry for entry in files if "/" not in entry.name), key=lambda entry: entry.name)

    def copy(self, name: str, target: str) -> None:
        """Let the store copy an object."""
        self._ask(name, lambda: obstore.copy(self._store, self._key(name), self._key(target)))

    def delete(self, names: Iterable[str]) -> int:
        """Remove objects, many in one request."""
        keys = [self._key(name) for name in names]
        if keys:
            self._ask("", lambda: _delete(self._store, keys))
        return len(keys)

    def check(self) -> None:
        """Write an object, try to write it again on the condition that there is none, and remove it; in some seconds.

        Raises
        ------
        DepotError
            Saying what is wrong: credentials, bucket, server, or one that does not heed conditions.
        """
        key = self._key(f"foretide-{uuid.uuid4().hex}")
        with self._explained("", writing=True):
            strict = _store(self._bucket, patient=False)

        def heeds_conditions() -> bool:
            obstore.put(strict, key, b"")
            try:
                obstore.put(strict, key, b"", mode="create")
            except refusals.AlreadyExistsError:
                return True
            finally:
                obstore.delete(strict, key)
            return False

        if not self._ask("", heeds_conditions, writing=True, patience_s=_CHECK_S):
            raise DepotError(
                self.uri,
                expected="a store that puts an object on the condition that there is none (If-None-Match)",
                got="one that put it over another",
                remedy="use a store, or a version of it, with conditional writes: exactly once rests on them",
            )

    @property
    def _bucket(self) -> str:
        parts = urlsplit(self.uri)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def _store(self) -> Any:
        return _store(self._bucket)

    def _key(self, name: str) -> str:
        return "/".join(part for part in (urlsplit(self.uri).path.strip("/"), name) if part)

    def _ask(self, name: str, call: Callable[[], T], *, writing: bool = False, patience_s: float | None = None) -> T:
        """Return what a store answers; one that is away, or whose answer was cut off, is asked again for a while."""
        deadline_s = time.monotonic() + (_PATIENCE_S if patience_s is None else patience_s)
        while True:
            with self._explained(name, writing=writing):
                try:
                    return call()
                except refusals.GenericError:
                    if time.monotonic() > deadline_s:
                        raise
            time.sleep(_PAUSE_S)

    @contextmanager
    def _explained(self, name: str, *, writing: bool = False) -> Iterator[None]:
        """Turn what a store refuses into an error that says what to do; one that is not there is a file not found."""
        where = f"{self.uri}/{name}".rstrip("/")
        try:
            yield
        except refusals.AlreadyExistsError:
            raise
        except FileNotFoundError as error:
            if not writing:
                raise FileNotFoundError(2, "no such object", where) from error
            remedy = "make the bucket, or correct its name"
            raise DepotError(where, expected=f"the bucket {self._bucket}", got="none", remedy=remedy) from error
        except (refusals.PermissionDeniedError, refusals.UnauthenticatedError) as error:
            raise self._refused(where, "credentials that may read and write there", error) from error
        except (refusals.BaseError, OSError, ValueError) as error:
            raise self._refused(where, "an answer of the object store", error) from error

    def _refused(self, where: str, expected: str, error: Exception) -> DepotError:
        got = " ".join(str(error).split()).partition(" Debug source")[0][:400]
        scheme = urlsplit(self.uri).scheme
        if any(part in got for part in _OF_THE_MACHINE):
            return DepotError(
                where,
                expected="credentials that may read and write there",
                got=f"none: neither the environment nor the machine gives any ({got})",
                remedy=_TO_SET.get(scheme, "set them"),
            )
        remedy = f"see to the server, and to what says where it is and who may: {_VARIABLES.get(scheme, 'credentials')}"
        return DepotError(where, expected=expected, got=got, remedy=remedy)


def _delete(store: Any, keys: list[str]) -> None:
    try:
        obstore.delete(store, keys)
    except FileNotFoundError:  # some kinds of stores mind; the others are deleted all the same
        for key in keys:
            with suppress(FileNotFoundError):
                obstore.delete(store, key)


@lru_cache(maxsize=64)
def _store(bucket: str, *, patient: bool = True) -> Any:
    """Return a client, which keeps its connections."""
    # Who names a server without TLS wants it without.
    plain = any(os.environ.get(name, "").startswith("http://") for name in _ENDPOINTS)
    options: Any = {**_CLIENT, "allow_http": plain}
    return from_url(bucket, client_options=options, retry_config=_PATIENT if patient else _AT_ONCE)
