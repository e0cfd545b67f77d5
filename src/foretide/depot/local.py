"""A depot on a disk, of this machine or one that machines share."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from foretide.depot.contract import DepotError, Entry
from foretide.files import PART_PREFIX, claim_file, replace_file

__all__ = ["LocalDepot"]


@dataclass(frozen=True)
class LocalDepot:
    """A folder on a disk.

    Parameters
    ----------
    root : path
        The folder; made when something is put there.
    fsync : bool
        Whether what is put survives a loss of power.
    parts : str
        A folder in it for unfinished files; by default they lie beside their targets.

    Examples
    --------
    >>> import tempfile
    >>> depot = LocalDepot(Path(tempfile.mkdtemp()))
    >>> depot.put_if_absent("a/1", b"first"), depot.put_if_absent("a/1", b"second")
    (True, False)
    >>> [entry.name for entry in depot.entries("a")], depot.read("a/1")
    (['1'], b'first')
    """

    root: Path
    fsync: bool = False
    parts: str = ""

    @property
    def uri(self) -> str:
        """The folder's path."""
        return str(self.root)

    def check(self) -> None:
        """Make the folder.

        Raises
        ------
        DepotError
            When that is not allowed.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            got = error.strerror or str(error)
            remedy = "give a directory in which you may write"
            raise DepotError(self.uri, expected="a directory", got=got, remedy=remedy) from error

    def inside(self, folder: str) -> LocalDepot:
        """Return the depot of a folder in this one."""
        return LocalDepot(self.root / folder, self.fsync)

    def make_folders(self, folders: Iterable[str]) -> None:
        """Make folders that are missing, for files that are written past the depot."""
        for folder in folders:
            (self.root / folder).mkdir(parents=True, exist_ok=True)

    def put(self, name: str, content: bytes | memoryview) -> None:
        """Write a file under another name, and give it its own."""
        try:
            replace_file(self.root / name, content, fsync=self.fsync, folder=self._aside)
        except FileNotFoundError:
            replace_file(self._made(name), content, fsync=self.fsync, folder=self._aside)

    def put_if_absent(self, name: str, content: bytes) -> bool:
        """Write a file and link it to its name, which fails where there is one."""
        try:
            return claim_file(self.root / name, content, fsync=self.fsync, folder=self._aside)
        except FileNotFoundError:
            return claim_file(self._made(name), content, fsync=self.fsync, folder=self._aside)

    def read(self, name: str) -> bytes:
        """Return a file's content."""
        return (self.root / name).read_bytes()

    def read_ranges(self, name: str, ranges: Iterable[tuple[int, int]]) -> list[memoryview]:
        """Return parts of a file."""
        with (self.root / name).open("rb") as file:
            found = []
            for first, end in ranges:
                file.seek(first)
                found.append(memoryview(file.read(end - first)))
            return found

    def names(self, folder: str = "", after: str = "") -> list[str]:
        """Return the names in a folder, without those of files that are being written beside others."""
        try:
            found = os.listdir(self.root / folder)
        except FileNotFoundError:
            return []
        hides = not self.parts or folder != self.parts
        return sorted(name for name in found if name > after and not (hides and name.startswith(PART_PREFIX)))

    def size(self, name: str) -> int | None:
        """Return a file's size."""
        try:
            return os.stat(self.root / name).st_size
        except FileNotFoundError:
            return None

    def entries(self, folder: str = "", after: str = "") -> list[Entry]:
        """Return the files in a folder."""
        found = (_entry(self.root / folder, name) for name in self.names(folder, after))
        return [entry for entry in found if entry is not None]

    def copy(self, name: str, target: str) -> None:
        """Read a file and write it under another name."""
        self.put(target, self.read(name))

    def delete(self, names: Iterable[str]) -> int:
        """Remove files one by one."""
        removed = 0
        for name in names:
            try:
                (self.root / name).unlink()
                removed += 1
            except FileNotFoundError:
                continue
        return removed

    @property
    def _aside(self) -> Path | None:
        return self.root / self.parts if self.parts else None

    def _made(self, name: str) -> Path:
        path = self.root / name
        for folder in (path.parent, self._aside or path.parent):
            folder.mkdir(parents=True, exist_ok=True)
        return path


def _entry(folder: Path, name: str) -> Entry | None:
    try:
        found = os.stat(folder / name)
    except FileNotFoundError:  # removed since it was listed
        return None
    return Entry(name, found.st_size, found.st_mtime) if stat.S_ISREG(found.st_mode) else None
