"""Where the queued edges of a run are kept: in files of its directory, or in Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from foretide.errors import ConfigError
from foretide.spark.settings import EngineSettings
from foretide.store.workspace import Workspace
from foretide.transport import ArrowLog, ArrowLogSettings
from foretide.transport.contract import Log

__all__ = ["EdgePiece", "EdgeStore", "open_edge"]


class EdgePiece(Protocol):
    """Rows of an edge that a task reads where it runs."""

    @property
    def rows(self) -> int:
        """How many."""
        ...

    def read(self, max_rows: int = ...) -> Iterator[pa.RecordBatch]:
        """Yield them."""
        ...


@dataclass(frozen=True)
class EdgeStore:
    """Opens the logs of a run's queued edges.

    Parameters
    ----------
    workspace : Workspace
        The run's directory.
    settings : EngineSettings
        Says which kind of log.
    """

    workspace: Workspace
    settings: EngineSettings

    def options(self, name: str) -> dict[str, Any]:
        """Return what `open_edge` needs for the edge called `name`, as plain data."""
        common: dict[str, Any] = {"max_bytes": self.settings.log_max_bytes}
        if self.settings.edges == "files":
            return {"path": self.workspace.place("edges", name), "fsync": self.settings.sync_files, **common}
        return {
            "topic": f"foretide.{self.workspace.run_id()}.{name}",
            "servers": self.settings.kafka_servers,
            "patience_s": self.settings.kafka_patience_s,
            **common,
        }

    def open(self, name: str, edge: str | None = None, *, lenient: bool = False) -> Log:
        """Return the log of an edge; a lenient one goes by what it knew while no broker answers."""
        return open_edge(self.options(name), edge or name, lenient=lenient)


def open_edge(options: dict[str, Any], edge: str, *, lenient: bool = False) -> Log:
    """Return the log that `EdgeStore.options` describes."""
    if "path" in options:
        given = {name: options[name] for name in ("max_bytes", "fsync") if name in options}
        return ArrowLog(options["path"], edge=edge, settings=ArrowLogSettings(**given))
    if not options["servers"]:
        raise ConfigError(
            "engine.kafka_servers",
            expected="bootstrap servers such as localhost:9092, since engine.edges is 'kafka'",
            got="none",
            remedy="set kafka_servers, or edges='files'",
        )
    from foretide.kafka import KafkaLog, KafkaLogSettings

    topics = KafkaLogSettings(options["servers"], max_bytes=options["max_bytes"], patience_s=options["patience_s"])
    return KafkaLog(options["topic"], topics, edge=edge, lenient=lenient)
