"""Where a running topology keeps what must outlive it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

from foretide.files import claim_file

__all__ = ["FAULT_FILE", "Workspace"]

#: The name of the file in which a stage's reader leaves an error, next to its limits.
FAULT_FILE = "fault.json"


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

    def fault(self, stage: str) -> Path:
        """Return the file in which a stage's reader leaves an error for the driver."""
        return self.limits(stage).with_name(FAULT_FILE)

    def planned(self, stage: str) -> Path:
        """Return the file with the batch that Spark has planned for a stage."""
        return self.root / "stages" / stage / "planned.json"

    def unread(self, stage: str) -> Path:
        """Return the directory for what could not be made rows of, until the batch under way is committed."""
        return self.root / "stages" / stage / "unread"

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
        file = self.root / "run-id"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            # A letter first: readers of partitioned files would take digits for a number. If two processes make it, one
            # wins.
            claim_file(file, f"r{uuid.uuid4().hex[:12]}")
        return file.read_text(encoding="utf-8")

    @property
    def dead_letters(self) -> Path:
        """The directory of the dead-letter log."""
        return self.root / "dead-letters"
