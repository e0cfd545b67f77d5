"""What a live stage keeps in the run's directory: where its topics began, and into how many strands they are cut.

Offsets are not kept here: Kafka has them. How a topic is cut must never change while anyone may still work on a strand,
since strands are told apart by their numbers; so it is decided once, by the first driver, for all later ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from foretide.errors import ConfigError
from foretide.files import claim_file, replace_file
from foretide.spark.live.order import strand_name

__all__ = ["LiveRecord", "StrandCut", "claim_driver", "is_driver", "read_reached"]


@dataclass(frozen=True)
class StrandCut:
    """How a source is cut into strands.

    Parameters
    ----------
    strands : int
        How many; partition p belongs to strand p modulo this.
    position : mapping
        The position of the source before its first message, see `KafkaInput`.
    """

    strands: int
    position: Mapping[str, Any]

    def of(self, source: str, partition: int) -> str:
        """Return the strand of a partition.

        >>> StrandCut(3, {}).of("orders", 7)
        'orders/1'
        """
        return strand_name(source, partition % self.strands)

    def names(self, source: str) -> list[str]:
        """Return all strands of a source."""
        return [strand_name(source, number) for number in range(self.strands)]


@dataclass(frozen=True)
class LiveRecord:
    """How the sources of a live stage are cut, by source."""

    cuts: Mapping[str, StrandCut]

    @classmethod
    def claim(cls, path: Path, make: Callable[[], Mapping[str, StrandCut]]) -> tuple[LiveRecord, bool]:
        """Return what the file at `path` says, and whether it was there; of several writers the first one counts.

        Raises
        ------
        ConfigError
            When it is there and cannot be read.
        """
        known = path.exists()
        if not known:
            path.parent.mkdir(parents=True, exist_ok=True)
            claim_file(path, json.dumps({source: asdict(cut) for source, cut in make().items()}))
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return cls({source: StrandCut(**cut) for source, cut in found.items()}), known
        except (ValueError, TypeError, AttributeError) as error:
            expected, remedy = "the strands of a live stage in JSON", "restore it, or use another directory"
            raise ConfigError(str(path), expected=expected, got=str(error), remedy=remedy) from error


def read_reached(path: Path) -> dict[str, dict[str, int]]:
    """Return how far a stage had come when that was last written down, by source and partition."""
    try:
        found: dict[str, dict[str, int]] = json.loads(path.read_text(encoding="utf-8"))
        return found
    except FileNotFoundError:
        return {}


def claim_driver(path: Path, driver: str) -> None:
    """Write down who runs the stage now."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, driver)


def is_driver(path: Path, driver: str) -> bool:
    """Return whether nobody else has begun to run the stage since."""
    try:
        return path.read_text(encoding="utf-8") == driver
    except FileNotFoundError:
        return True
