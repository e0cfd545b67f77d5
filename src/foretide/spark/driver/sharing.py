"""What of a topology goes through files that driver and executors must both see, and whether they do and are alike."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from foretide.compile.stages import StageGraph
from foretide.depot import is_remote, open_depot
from foretide.errors import ConfigError
from foretide.spark.inputs.registration import register_sources
from foretide.spark.machine import on_this_machine
from foretide.spark.pool.sight import check_versions, look_around, refused_by_versions
from foretide.spark.settings import EngineSettings
from foretide.topology.options import OWN_KINDS

__all__ = ["SharedPlace", "check_executors", "check_given", "check_stores", "share_credentials", "shared_places"]

# What the variables begin with by which clients of object stores find servers and credentials, and HDFS its user.
_CREDENTIALS = ("AWS_", "AZURE_", "GOOGLE_", "HADOOP_USER_NAME")

_REMEDY = (
    "give {what} that all machines mount in the same place, or a folder of an object store (s3://bucket/folder) that "
    "all may reach; queued edges can also be kept in Kafka (--engine edges=kafka --engine kafka_servers=...), and "
    "results sent to a sink of kind kafka or postgres: a "
    "topology of inline edges with such sinks needs nothing that is shared"
)


@dataclass(frozen=True)
class SharedPlace:
    """Something of a topology that goes through files, and where; None where no directory was given."""

    what: str
    folder: str | None

    def __str__(self) -> str:
        return self.what


def shared_places(graph: StageGraph, root: str | Path | None, settings: EngineSettings) -> list[SharedPlace]:
    """Return what of a topology tasks write or read as files, of a run in the directory `root`."""
    directory = None if root is None else str(root)
    found: list[SharedPlace] = []
    if settings.edges == "files":
        found += [SharedPlace(f"queued edge '{plan.edge}'", directory) for plan in graph.queued]
    for stage in graph.stages:
        found += [SharedPlace(f"state of operator {operator.id!r}", directory) for operator in stage.keyed]
        found += [
            SharedPlace(f"state of operator {operator.id!r} on DataFrames", _checkpoints(root, settings))
            for operator in stage.operators
            if operator.on_frames and operator.stateful
        ]
        found += [
            SharedPlace(f"operator {operator.id!r} on DataFrames, for what cannot be read", directory)
            for operator in stage.operators
            if operator.on_frames and _reads_itself(stage.sources)
        ]
        found += [
            SharedPlace(f"sink {sink.id!r} (parquet)", str(sink.connector.options["path"]))
            for sink in stage.sinks
            if sink.connector.kind == "parquet" and "path" in sink.connector.options
        ]
        for operator in stage.operators:
            found += [
                SharedPlace(f"table {name!r} of operator {operator.id!r}", path)
                for name, path in _tables(operator.options.get("tables", {}))
            ]
    return found


def _checkpoints(root: str | Path | None, settings: EngineSettings) -> str | None:
    """Return where Spark's executors write state; empty where Spark's own clients do, past our port."""
    place = settings.checkpoint or (None if root is None else str(root))
    return "" if place is not None and is_remote(place) else place


def _reads_itself(sources: Iterable[Any]) -> bool:
    """Return whether values may turn up that cannot be made rows of; those leave Spark's tasks as files."""
    return any(source.connector.kind in OWN_KINDS for source in sources)


def _tables(tables: Any) -> Iterator[tuple[str, str]]:
    for name, table in dict(tables).items():
        if isinstance(table, str | Path) and Path(table).is_file():
            yield name, str(table)


def check_executors(spark: SparkSession, places: Sequence[SharedPlace]) -> None:
    """See to it that executors on other machines run what the driver runs, and see what goes through files.

    Raises
    ------
    ConfigError
        Naming the executors that do not, what is concerned, and what to do.
    """
    if on_this_machine(str(spark.sparkContext.master)):
        return
    folders = [_whole(folder) for folder in dict.fromkeys(place.folder for place in places) if folder]
    try:
        sights = look_around(spark, folders)
    except Exception as error:
        if (refused := refused_by_versions(spark, error)) is not None:
            raise refused from error
        raise
    check_versions(sights)
    blind = [sight for sight in sights if sight.missing]
    if blind:
        missing = {folder for sight in blind for folder in sight.missing}
        hit = [place for place in places if place.folder and _whole(place.folder) in missing]
        raise _refused(hit, sorted(missing), f"executors that do not: {', '.join(str(sight) for sight in blind[:4])}")


def check_stores(places: Iterable[SharedPlace]) -> None:
    """See to it that object stores and HDFS are there and let the driver write, for all that is to lie there.

    Raises
    ------
    DepotError
        Saying what is wrong, within ten seconds; without this, tasks would wait for as long as for a moment's fault.
    """
    for folder in dict.fromkeys(place.folder for place in places):
        if folder and is_remote(folder):
            open_depot(folder).check()


def share_credentials(spark: SparkSession, places: Iterable[str]) -> None:
    """Give the Python workers of executors what says where object stores are, and who may, where one is used.

    Spark does the same for its own clients. It is to be done before workers are started.
    """
    if any(is_remote(place) for place in places):
        found = {name: value for name, value in os.environ.items() if name.startswith(_CREDENTIALS)}
        spark.sparkContext.environment.update(found)
        # What reads rows for operators on DataFrames has the surroundings of when it was made known.
        register_sources(spark)


def _whole(folder: str) -> str:
    return open_depot(folder).uri


def check_given(places: Sequence[SharedPlace], master: str) -> None:
    """See to it that a directory was given, where executors on other machines need one.

    Raises
    ------
    ConfigError
        Naming what needs it.
    """
    without = [place for place in places if place.folder is None]
    if without and not on_this_machine(master):
        raise _refused(without, [], "none")


def _refused(hit: Sequence[SharedPlace], folders: Sequence[str], got: str) -> ConfigError:
    names = ", ".join(str(place) for place in hit)
    return ConfigError(
        "--path" if any(not place.what.startswith(("sink", "table")) for place in hit) else hit[0].what,
        expected=f"a directory that the executors see as well, since files are needed by: {names}",
        got=f"{', '.join(folders)}, with {got}" if folders else got,
        remedy=_REMEDY.format(what="a directory" if len(folders) < 2 else "directories"),
    )
