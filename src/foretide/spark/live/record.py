"""What a live stage keeps in the run's directory: where its topics began, and into how many strands they are cut.

Offsets are not kept here: Kafka has them. How a topic is cut must never change while anyone may still work on a strand,
since strands are told apart by their numbers; so it is decided once, by the first driver, for all later ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from foretide.depot import Depot
from foretide.errors import ConfigError
from foretide.kafka.errors import KafkaError
from foretide.spark.live.order import strand_name

__all__ = ["LiveRecord", "StrandCut", "check_driver", "claim_driver", "read_reached", "write_reached"]

_STRANDS, _REACHED, _DRIVER = "strands.json", "reached.json", "driver"


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
    def claim(cls, depot: Depot, make: Callable[[], Mapping[str, StrandCut]]) -> tuple[LiveRecord, bool]:
        """Return what is written down in a folder, and whether it was; of several writers the first one counts.

        Raises
        ------
        ConfigError
            When it is there and cannot be read.
        """
        known = depot.size(_STRANDS) is not None
        if not known:
            cuts = {source: asdict(cut) for source, cut in make().items()}
            depot.put_if_absent(_STRANDS, json.dumps(cuts).encode())
        try:
            found = json.loads(depot.read(_STRANDS))
            return cls({source: StrandCut(**cut) for source, cut in found.items()}), known
        except (ValueError, TypeError, AttributeError) as error:
            expected, remedy = "the strands of a live stage in JSON", "restore it, or use another directory"
            where = f"{depot.uri}/{_STRANDS}"
            raise ConfigError(where, expected=expected, got=str(error), remedy=remedy) from error


def read_reached(depot: Depot) -> dict[str, dict[str, int]]:
    """Return how far a stage had come when that was last written down, by source and partition."""
    try:
        found: dict[str, dict[str, int]] = json.loads(depot.read(_REACHED))
        return found
    except FileNotFoundError:
        return {}


def write_reached(depot: Depot, offsets: Mapping[str, Mapping[int, int]]) -> None:
    """Write down how far a stage has come."""
    depot.put(_REACHED, json.dumps(offsets).encode())


def claim_driver(depot: Depot, driver: str) -> None:
    """Write down who runs the stage now."""
    depot.put(_DRIVER, driver.encode())


def check_driver(depot: Depot, driver: str, stage: str) -> None:
    """See that nobody else runs the stage by now: strands would be taken from each other for ever.

    Raises
    ------
    KafkaError
        When another driver does.
    """
    with suppress(FileNotFoundError):
        if depot.read(_DRIVER).decode() != driver:
            raise KafkaError(
                f"stage {stage!r}: expected to be the only driver in {depot.uri}, got another one that has taken over; "
                "stop one of the two"
            )
