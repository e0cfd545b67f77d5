"""Where a running topology keeps what must outlive it."""

from __future__ import annotations

import hashlib
import os
import uuid
import weakref
from dataclasses import dataclass
from pathlib import Path

from foretide.depot import Depot, is_remote, joined, open_depot
from foretide.errors import ConfigError
from foretide.files import cache_directory

try:
    import fcntl
except ImportError:  # not on this platform: nobody looks after others
    fcntl = None  # type: ignore[assignment]

__all__ = ["FAULT_FILE", "Hold", "Workspace"]

#: The name of the file in which a stage's reader leaves an error, next to its limits.
FAULT_FILE = "fault.json"
_RUN_ID = "run-id"


class Hold:
    """A hold on the directory of a run; `Workspace.hold` takes it.

    Parameters
    ----------
    path : path
        The file that stands for the directory.
    alone : bool
        Whether nobody else may hold it at the same time.
    """

    def __init__(self, path: Path, *, alone: bool) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self._release = weakref.finalize(self, os.close, file)
        try:
            if fcntl is not None:
                fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise ConfigError(
                f"directory {path.parent}",
                expected="a run that has ended" if alone else "one that nobody is changing",
                got="one that is under way" if alone else "one whose state `foretide repartition` rewrites",
                remedy="stop it first" if alone else "wait until that has ended",
            ) from None
        except OSError:  # a file system without locks
            pass

    def release(self) -> None:
        """Give it up."""
        self._release()


@dataclass(frozen=True)
class Workspace:
    """Where a run keeps what must outlive it, and what its driver needs meanwhile.

    Parameters
    ----------
    root : Path
        The driver's directory.
    shared : str
        The URI of a folder in an object store for what executors read and write, and for what must outlive the
        driver's machine; by default all of that is in the driver's directory as well.
    """

    root: Path
    shared: str = ""

    @classmethod
    def at(cls, place: str | Path) -> Workspace:
        """Return the workspace of a run at a path, or at a URI; then the driver's directory is in the user's cache.

        Raises
        ------
        ConfigError
            When the URI is not one of an object store that is known.
        """
        uri = open_depot(place).uri
        if not is_remote(uri):
            return cls(Path(uri))
        name = hashlib.sha256(uri.encode()).hexdigest()[:16]
        return cls(cache_directory() / "runs" / name, uri)

    @property
    def depot(self) -> Depot:
        """Where the files are that must outlive the driver."""
        return open_depot(self.place())

    def place(self, *parts: str) -> str:
        """Return the path or URI of what executors read and write."""
        return joined(self.shared or str(self.root), *parts)

    def checkpoint(self, stage: str) -> Path:
        """Return the directory of a stage's Spark checkpoint."""
        return self.root / "stages" / stage / "checkpoint"

    def limits(self, stage: str) -> Path:
        """Return the file with a stage's admission limit."""
        return self.root / "stages" / stage / "limits.json"

    def fault(self, stage: str) -> Path:
        """Return the file in which a stage's reader leaves an error for the driver."""
        return self.limits(stage).with_name(FAULT_FILE)

    def planned(self, stage: str) -> Path:
        """Return the file with the batch that Spark has planned for a stage."""
        return self.root / "stages" / stage / "planned.json"

    def unread(self, stage: str) -> str:
        """Return the place for what could not be made rows of, until the batch under way is committed."""
        return self.place("stages", stage, "unread")

    def live(self, stage: str) -> Depot:
        """Return the folder of what a live stage keeps."""
        return self.depot.inside(f"stages/{stage}/live")

    def edge(self, name: str) -> Path:
        """Return the directory of a queued edge's log."""
        return self.root / "edges" / name

    def state(self, operator: str) -> Path:
        """Return the directory of an operator's state."""
        return self.root / "state" / operator

    @property
    def runtime(self) -> Path:
        """The run-time configuration."""
        return self.root / "runtime.json"

    @property
    def topology(self) -> Path:
        """The shape of the topology that runs here."""
        return self.root / "topology.json"

    def run_id(self) -> str:
        """Return the name under which sinks know the batches of this directory; it is made at the first call."""
        try:
            return self.depot.read(_RUN_ID).decode()
        except FileNotFoundError:
            # A letter first: readers of partitioned files would take digits for a number. If two processes make it, one
            # wins.
            self.depot.put_if_absent(_RUN_ID, f"r{uuid.uuid4().hex[:12]}".encode())
        return self.depot.read(_RUN_ID).decode()

    def hold(self, *, alone: bool = False) -> Hold:
        """Let nobody change what is kept here until the hold is released, or its process ends.

        Those that run here hold it together; one who changes what runs have left holds it alone.

        Raises
        ------
        ConfigError
            When another process holds it otherwise.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        return Hold(self.root / "in-use", alone=alone)

    @property
    def dead_letters(self) -> Path:
        """The directory of the dead-letter log."""
        return self.root / "dead-letters"
