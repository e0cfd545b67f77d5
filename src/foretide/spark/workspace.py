"""Where a running topology keeps what must outlive it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Workspace"]


@dataclass(frozen=True)
class Workspace:
    """A directory on a file system that driver and executors share."""

    root: Path

    def checkpoint(self, stage: str) -> Path:
        """Return the directory of a stage's Spark checkpoint."""
        return self.root / "stages" / stage / "checkpoint"

    def limits(self, stage: str) -> Path:
        """Return the file with a stage's admission limit."""
        return self.root / "stages" / stage / "limits.json"

    def edge(self, name: str) -> Path:
        """Return the directory of a queued edge's log."""
        return self.root / "edges" / name

    @property
    def runtime(self) -> Path:
        """The run-time configuration."""
        return self.root / "runtime.json"

    @property
    def topology(self) -> Path:
        """The shape of the topology that runs here."""
        return self.root / "topology.json"

    @property
    def dead_letters(self) -> Path:
        """The directory of the dead-letter log."""
        return self.root / "dead-letters"
