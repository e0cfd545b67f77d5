"""A view of one partition of a state: what the changelog says up to an offset, in a mapped file beside the worker.

A view holds nothing that is not committed, so it can be thrown away, and whoever brings it up to date writes the same.
"""

from __future__ import annotations

import logging
import shutil
import struct
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import lmdb

from foretide.state.errors import DamagedViewError, StateError

__all__ = ["MARKS", "NEVER", "PartitionView", "open_view", "renew_view"]

_LOG = logging.getLogger(__name__)

# Address space for each partition; the file is as large as what is in it.
_MOST_BYTES = 8 << 30
# No key begins with these bytes: entries that say when a key is due, and how far the view has got.
_INDEX, _OFFSET = 0xFE, b"\xffoffset"
# The offset, and how many entries of the index there are.
_NUMBERS = struct.Struct(">qq")
# An entry of the index begins with which time it is, and the time, so that entries stand in its order.
_ENTRY, _FIRST_TIME = struct.Struct(">BBQ"), 1 << 63
#: What a state with times begins with: when its key is called, and when it has lived too long; both in microseconds.
MARKS = struct.Struct(">qq")
#: The time of what is never due.
NEVER = (1 << 63) - 1
# Views that a process keeps open.
_OPEN = 1024
_views: OrderedDict[Path, PartitionView] = OrderedDict()
# What LMDB says of files that are cut short, overwritten, or none of its own.
_DAMAGE = (
    lmdb.BadDbiError,
    lmdb.CorruptedError,
    lmdb.IncompatibleError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.VersionMismatchError,
)


class PartitionView:
    """The view of one partition.

    Any number of processes may have it open; the file's own lock lets one of them write, and is released when that one
    dies. Open it with `open_view`: a file must not be opened twice in a process.

    Parameters
    ----------
    path : path
        The directory of its file.
    marked : bool
        Whether states begin with their `MARKS`, by which keys can be found that are due.
    owner : bytes
        What tells the state from others: its run, operator and partition, and how its rows are written.

    Raises
    ------
    DamagedViewError
        When the file is cut short, or has another owner.

    Examples
    --------
    >>> import tempfile
    >>> view = PartitionView(Path(tempfile.mkdtemp()))
    >>> view.apply([(b"a", b"1"), (b"b", b"2")], since=0, offset=2)
    >>> view.apply([(b"a", None)], since=2, offset=3)
    >>> view.get([b"a", b"b"]), view.offset, len(view)
    ([None, b'2'], 3, 1)
    """

    def __init__(self, path: Path, *, marked: bool = False, owner: bytes = b"") -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._path, self._marked, self.owner = path, marked, owner
        with self._damage_told():
            # Nothing here must outlive the machine, and what a dead process wrote the system still has.
            self._file = lmdb.open(
                str(path), map_size=_MOST_BYTES, sync=False, metasync=False, readahead=False, max_spare_txns=1
            )
        try:
            self._check()
        except DamagedViewError:
            self.close()
            raise

    def _check(self) -> None:
        """Refuse a file that lacks pages, before somebody reads them in mapped memory and dies; and another's."""
        with self._damage_told():
            pages, width = self._file.info()["last_pgno"] + 1, self._file.stat()["psize"]
            size = (self._path / "data.mdb").stat().st_size
            with self._file.begin() as reading:
                if size < pages * width:
                    raise self._damaged("a whole file", f"{size} of {pages * width} bytes")
                raw = reading.get(_OFFSET)
        if raw is not None and raw[_NUMBERS.size :] != self.owner:
            raise self._damaged("one of this state", "one of another run, partition or of other columns")

    def _damaged(self, expected: str, got: str) -> DamagedViewError:
        return DamagedViewError(f"view {self._path}: expected {expected}, got {got}; it can be made anew")

    @contextmanager
    def _damage_told(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGE as error:
            raise self._damaged("a whole file", f"one that LMDB refuses ({error})") from error

    @property
    def offset(self) -> int:
        """How far it has got in the changelog; -1 where nothing is known."""
        with self._reading() as reading:
            return _numbers(reading)[0]

    @contextmanager
    def _reading(self) -> Iterator[lmdb.Transaction[bytes]]:
        with self._damage_told(), self._file.begin() as reading:
            yield reading

    def __len__(self) -> int:
        with self._reading() as reading:
            entries: int = reading.stat(self._file.open_db(txn=reading))["entries"]
            return max(entries - 1 - _numbers(reading)[1], 0)

    @property
    def path(self) -> Path:
        """The directory of its file."""
        return self._path

    @property
    def size(self) -> int:
        """The pages in use."""
        stat = self._file.stat()
        pages: int = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        return pages * int(stat["psize"])

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return what it has for these keys."""
        with self._reading() as reading:
            found = reading.cursor().getmulti(keys)
        if len(found) == len(keys):
            return [state for _, state in found]
        known = dict(found)
        return [known.get(key) for key in keys]

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all keys and their states."""
        with self._reading() as reading:
            for key, value in reading.cursor():
                if key[0] >= _INDEX:
                    return
                yield key, value

    def due(self, which: int, until_us: int) -> list[bytes]:
        """Return the keys whose first or second mark is not after a time, the earliest first."""
        found: list[bytes] = []
        with self._reading() as reading:
            cursor, end = reading.cursor(), _ENTRY.pack(_INDEX, which, until_us + 1 + _FIRST_TIME)
            if cursor.set_range(_ENTRY.pack(_INDEX, which, 0)):
                for entry in cursor.iternext(values=False):
                    if entry >= end:
                        break
                    found.append(entry[_ENTRY.size :])
        return found

    def apply(self, changes: Iterable[tuple[bytes, bytes | None]], *, since: int, offset: int) -> None:
        """Bring it from one offset to a later one, at once or not at all; nothing happens where somebody was first.

        A state of None removes its key. Changes may begin before what it has, since the last one of a key counts. Those
        that begin with a snapshot have a `since` of -1: what was there goes.
        """
        try:
            with self._damage_told(), self._file.begin(write=True) as writing:
                reached, entries = _numbers(writing)
                if reached >= offset:
                    return
                if since < 0:
                    writing.drop(self._file.open_db(txn=writing), delete=False)
                    entries = 0
                elif max(reached, 0) < since:
                    raise StateError(f"view {self._path}: expected offset {since}, got {reached}")
                # Within a stretch the last change of a key counts.
                latest = dict(changes)
                if self._marked:
                    for entry in _entries(writing.cursor().getmulti(list(latest))):
                        entries -= writing.delete(entry)
                kept = [(key, value) for key, value in latest.items() if value is not None]
                writing.cursor().putmulti(kept)
                if len(kept) < len(latest):
                    for key, value in latest.items():
                        if value is None:
                            writing.delete(key)
                if self._marked:
                    new = [(entry, b"") for entry in _entries(kept)]
                    writing.cursor().putmulti(new)
                    entries += len(new)
                writing.put(_OFFSET, _NUMBERS.pack(offset, entries) + self.owner)
        except lmdb.MapFullError as error:
            raise StateError(
                f"view {self._path}: expected at most {_MOST_BYTES >> 30} GiB in a partition, got more; "
                "use more partitions of state"
            ) from error
        except lmdb.DiskError as error:
            raise StateError(
                f"view {self._path}: expected room on the disk, got none; make room, or give Spark another disk "
                "(spark.local.dir)"
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def open_view(root: Path, operator: str, partition: int, *, marked: bool = False, owner: bytes = b"") -> PartitionView:
    """Return the view of a partition, the same object whenever it is asked for in this process.

    One that is damaged, or another's, is thrown away, and an empty one returned.
    """
    path = root / operator / str(partition)
    view = _views.pop(path, None)
    if view is not None and view.owner != owner:
        view.close()
        view = None
    if view is None:
        try:
            view = PartitionView(path, marked=marked, owner=owner)
        except DamagedViewError as error:
            _throw_away(path, str(error))
            view = PartitionView(path, marked=marked, owner=owner)
    _views[path] = view
    if len(_views) > _OPEN:
        _views.popitem(last=False)[1].close()
    return view


def renew_view(view: PartitionView, why: str) -> None:
    """Throw a view away; whoever opens it again gets an empty one."""
    _views.pop(view.path, None)
    view.close()
    _throw_away(view.path, why)


def _throw_away(path: Path, why: str) -> None:
    """Remove the files of a view all at once: who has them open may go on with them."""
    _LOG.warning("%s: made anew from snapshot and changelog", why)
    aside = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        path.rename(aside)
    except FileNotFoundError:  # another was first
        return
    shutil.rmtree(aside, ignore_errors=True)


def _numbers(transaction: lmdb.Transaction[bytes]) -> tuple[int, int]:
    """Return how far a view has got, and how many entries its index has."""
    raw = transaction.get(_OFFSET)
    return (-1, 0) if raw is None else _NUMBERS.unpack_from(raw)


def _entries(states: Iterable[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """Yield the entries of the index that states have."""
    for key, state in states:
        for which, at_us in enumerate(MARKS.unpack_from(state)):
            if at_us != NEVER:
                yield _ENTRY.pack(_INDEX, which, at_us + _FIRST_TIME) + key
