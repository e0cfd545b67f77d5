"""What Spark has planned for a stage, on its way from the stage's reader to the driver.

Spark tells the positions of a batch to the reader of its data source, in a process of its own, before it calls the
driver for that batch (ADR 0017). The reader writes them into a small file; the driver reads it once a batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from foretide.files import replace_json

__all__ = ["DROPPED", "OLDEST", "Planned", "Position", "Positions"]

#: How far an input has been read: ``next`` is the first row not read, ``first`` the row the last batch began with.
Position: TypeAlias = dict[str, Any]
#: The position of every input of a stage, by its name.
Positions: TypeAlias = Mapping[str, Position]
#: In a position: how many rows before the batch were dropped, since too many waited, and the instant in microseconds
#: before which rows of the batch are too old.
DROPPED, OLDEST = "dropped", "oldest_us"


@dataclass(frozen=True)
class Planned:
    """The latest batch that Spark has planned for a stage.

    Parameters
    ----------
    start : mapping of str to Position
        Where it begins; all rows before are done for good.
    end : mapping of str to Position, optional
        Where it ends; None while no batch is planned.
    id : str
        Tells it from the batch before.
    """

    start: Positions
    end: Positions | None = None
    id: str = ""

    @property
    def taken(self) -> Positions:
        """How far rows are in batches, this one included."""
        return self.start if self.end is None else self.end

    @property
    def rows(self) -> dict[str, int]:
        """The rows of the batch, by input; the first batch of a stage may have none."""
        return {name: position["next"] - self.start[name]["next"] for name, position in self.taken.items()}

    @property
    def dropped(self) -> dict[str, int]:
        """The rows that were dropped before the batch, by input, where there are any."""
        batches = {
            name: position for name, position in self.taken.items() if position["next"] > self.start[name]["next"]
        }
        return {name: position[DROPPED] for name, position in batches.items() if position.get(DROPPED)}

    def follows(self, last: Planned | None) -> bool:
        """Return whether this is a batch that begins where the `last` one ended, or behind what was dropped there."""
        if self.end is None or last is None:
            return self.end is not None
        return self.id != last.id and all(
            position["next"] - self.dropped.get(name, 0) == last.taken[name]["next"]
            for name, position in self.start.items()
        )

    def write(self, path: str | Path) -> None:
        """Replace the file at `path`."""
        replace_json(path, asdict(self))

    @classmethod
    def read(cls, path: str | Path) -> Planned | None:
        """Return what the file at `path` says; None while there is none."""
        try:
            return cls(**json.loads(Path(path).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
