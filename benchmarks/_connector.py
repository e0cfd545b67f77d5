"""Spark's connector to Kafka, which plain PySpark needs: the jars of the first version that can be had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from _harness import progress
from foretide.kafka import KafkaError, fetch

__all__ = ["OTHER", "Connector"]

_SPARK = "org.apache.spark"
_ARTIFACT = "spark-sql-kafka-0-10_2.13"
#: The version that is taken where that of the installed PySpark is not on Maven Central.
OTHER = "4.2.0"
# What a version needs and is not there in that version, either.
_BESIDE = {OTHER: (f"{_SPARK}:spark-token-provider-kafka-0-10_2.13:4.0.0",)}


@dataclass(frozen=True)
class Connector:
    """Spark's connector for Kafka: its jars, of which the version is in their names; none where it cannot be had."""

    jars: Sequence[Path] = ()

    @classmethod
    def of(cls, version: str) -> Connector:
        """Return that of a version; jars that Spark has by itself are left out.

        Raises
        ------
        KafkaError
            When it cannot be had.
        """
        needed = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
        jars = fetch([f"{_SPARK}:{_ARTIFACT}:{version}", *_BESIDE.get(version, ())])
        return cls([jar for jar in jars if jar.name.startswith(needed)])

    @classmethod
    def found(cls, versions: Sequence[str]) -> Connector:
        """Return the first of these versions that can be had."""
        for version in versions:
            try:
                return cls.of(version)
            except KafkaError as error:
                progress(f"  without the connector of {version}: {error}")
        return cls()

    @property
    def version(self) -> str:
        """The version of Spark that it belongs to; nothing where there is none."""
        names = [jar.stem for jar in self.jars if jar.name.startswith(_ARTIFACT)]
        return names[0].removeprefix(f"{_ARTIFACT}-") if names else ""

    def against(self) -> str:
        """Return what ours is compared with."""
        which = f"with the connector of {self.version}, " if self.version else ""
        return f"plain PySpark {which}from the same topic to the same kind of sink (at least once)"

    def note(self, pyspark_version: str) -> str:
        """Return which jars there were, and whether they are those of this PySpark."""
        if not self.version:
            return "Spark's connector: none."
        names = ", ".join(sorted(jar.name for jar in self.jars))
        other = f"; there is none of PySpark {pyspark_version} here" if self.version != pyspark_version else ""
        return f"Spark's connector is that of {self.version}{other}: {names}."
