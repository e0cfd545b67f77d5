"""A view of one partition of a state: what the changelog says up to an offset, in a mapped file beside the worker.

A view holds nothing that is not committed, so it can be thrown away, and whoever brings it up to date writes the same.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import lmdb

from foretide.errors import ForetideError

__all__ = ["PartitionView", "StateError", "open_view"]

# Address space for each partition; the file is as large as what is in it.
_MOST_BYTES = 8 << 30
# No key begins with this byte.
_OFFSET = b"\xffoffset"
_NUMBER = struct.Struct(">q")
# Views that a process keeps open.
_OPEN = 1024
_views: OrderedDict[Path, PartitionView] = OrderedDict()


class StateError(ForetideError, RuntimeError):
    """A state cannot be used as it is."""


class PartitionView:
    """The view of one partition.

    Any number of processes may have it open; the file's own lock lets one of them write, and is released when that one
    dies. Open it with `open_view`: a file must not be opened twice in a process.

    Examples
    --------
    >>> import tempfile
    >>> view = PartitionView(Path(tempfile.mkdtemp()))
    >>> view.apply([(b"a", b"1"), (b"b", b"2")], since=0, offset=2)
    >>> view.apply([(b"a", None)], since=2, offset=3)
    >>> view.get([b"a", b"b"]), view.offset, len(view)
    ([None, b'2'], 3, 1)
    """

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._path = path
        # Nothing here must outlive the machine, and what a dead process wrote the system still has.
        self._file = lmdb.open(
            str(path), map_size=_MOST_BYTES, sync=False, metasync=False, readahead=False, max_spare_txns=1
        )

    @property
    def offset(self) -> int:
        """How far it has got in the changelog; -1 where nothing is known."""
        with self._file.begin() as reading:
            return _offset(reading)

    def __len__(self) -> int:
        entries: int = self._file.stat()["entries"]
        return max(entries - 1, 0)

    @property
    def size(self) -> int:
        """The pages in use."""
        stat = self._file.stat()
        pages: int = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        return pages * int(stat["psize"])

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return what it has for these keys."""
        with self._file.begin() as reading:
            found = reading.cursor().getmulti(keys)
        if len(found) == len(keys):
            return [state for _, state in found]
        known = dict(found)
        return [known.get(key) for key in keys]

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all keys and their states."""
        with self._file.begin() as reading:
            for key, value in reading.cursor():
                if key != _OFFSET:
                    yield key, value

    def apply(self, changes: Iterable[tuple[bytes, bytes | None]], *, since: int, offset: int) -> None:
        """Bring it from one offset to a later one, at once or not at all; nothing happens where somebody was first.

        A state of None removes its key. Changes may begin before what it has, since the last one of a key counts. Those
        that begin with a snapshot have a `since` of -1: what was there goes.
        """
        try:
            with self._file.begin(write=True) as writing:
                if _offset(writing) >= offset:
                    return
                if since < 0:
                    writing.drop(self._file.open_db(txn=writing), delete=False)
                elif max(_offset(writing), 0) < since:
                    raise StateError(f"view {self._path}: expected offset {since}, got {_offset(writing)}")
                # Within a stretch the last change of a key counts.
                latest = dict(changes)
                kept = [(key, value) for key, value in latest.items() if value is not None]
                writing.cursor().putmulti(kept)
                if len(kept) < len(latest):
                    for key, value in latest.items():
                        if value is None:
                            writing.delete(key)
                writing.put(_OFFSET, _NUMBER.pack(offset))
        except lmdb.MapFullError as error:
            raise StateError(
                f"view {self._path}: expected at most {_MOST_BYTES >> 30} GiB in a partition, got more; "
                "use more partitions of state"
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def open_view(root: Path, operator: str, partition: int) -> PartitionView:
    """Return the view of a partition, the same object whenever it is asked for in this process."""
    path = root / operator / str(partition)
    view = _views.pop(path, None) or PartitionView(path)
    _views[path] = view
    if len(_views) > _OPEN:
        _views.popitem(last=False)[1].close()
    return view


def _offset(transaction: lmdb.Transaction) -> int:
    raw = transaction.get(_OFFSET)
    return -1 if raw is None else int(_NUMBER.unpack(raw)[0])
