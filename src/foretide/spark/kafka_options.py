"""The options of Kafka sources and sinks, read and checked before anything runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.types import StructType

from foretide.errors import ConfigError
from foretide.kafka import Cluster
from foretide.kafka.values import ValueFormat
from foretide.spark.columns import arrow_schema
from foretide.topology.options import SINK_OPTIONS, SOURCE_OPTIONS, KindOptions
from foretide.traces.replay import EVENT_TIME

__all__ = ["METADATA", "KafkaSinkPlan", "KafkaSourcePlan"]

#: What a source can add to a row besides the value, by the name of the column.
METADATA: Mapping[str, pa.DataType] = {
    "key": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_FORMATS = ("json", "string", "binary")


@dataclass(frozen=True)
class KafkaSourcePlan:
    """How a source reads a topic.

    Parameters
    ----------
    cluster : Cluster
        Where.
    topic : str
        What.
    format : {"json", "string", "binary"}
        What values are.
    ddl : str
        The columns of values in JSON.
    starting : str or mapping of int to int
        ``earliest``, ``latest``, or offsets by partition: where a run begins that has no checkpoint.
    ending : {"never", "latest"}
        Whether the source ends with what the topic holds when the run begins.
    metadata : tuple of str
        Columns to add, of `METADATA`.
    lossy : bool
        Whether to go on when events are gone before they were read.
    """

    cluster: Cluster
    topic: str
    format: ValueFormat = "json"
    ddl: str = ""
    starting: str | Mapping[int, int] = "earliest"
    ending: str = "never"
    metadata: tuple[str, ...] = ()
    lossy: bool = False

    def schema(self) -> pa.Schema | None:
        """Return the columns of values in JSON; Spark reads the declaration, so this is for the driver.

        Raises
        ------
        ConfigError
            When they are not declared as Spark takes them, or are columns of the metadata too.
        """
        if not self.ddl:
            return None
        try:
            schema = arrow_schema(cast(StructType, StructType.fromDDL(self.ddl)))
        except Exception as error:
            expected = "columns such as 'id long, text string'"
            raise ConfigError(f"{self.cluster.who}: schema", expected=expected, got=repr(self.ddl)) from error
        if twice := sorted(set(schema.names) & set(self.metadata)):
            expected = "columns that the values do not have"
            raise ConfigError(f"{self.cluster.who}: metadata", expected=expected, got=str(twice))
        return schema

    def row_schema(self) -> pa.Schema:
        """Return the columns of the rows: of values, of the metadata asked for, and the time of the event."""
        value = pa.schema([("value", pa.string() if self.format == "string" else pa.binary())])
        schema = self.schema() or value
        for name in self.metadata:
            schema = schema.append(pa.field(name, METADATA[name]))
        return schema if EVENT_TIME.name in schema.names else schema.append(EVENT_TIME)

    @classmethod
    def of(cls, id: str, options: Mapping[str, Any]) -> KafkaSourcePlan:
        """Read the options of the source called `id`.

        >>> plan = KafkaSourcePlan.of("orders", {"servers": "localhost:9092", "topic": "orders", "schema": "id long"})
        >>> plan.format, plan.starting, plan.ending
        ('json', 'earliest', 'never')

        Raises
        ------
        ConfigError
            When an option is missing, unknown or malformed.
        """
        who = f"source {id!r}"
        _check_names(who, options, SOURCE_OPTIONS["kafka"])
        format = _choice(who, options, "format", _FORMATS, "json")
        ddl = str(options.get("schema", ""))
        if (format == "json") != bool(ddl):
            expected = "the columns of the values, such as schema='id long, text string'"
            raise ConfigError(
                f"{who}: schema",
                expected=expected if format == "json" else f"none for values of format {format!r}",
                got=repr(ddl) if ddl else "none",
                remedy="add schema=, or choose format='string'"
                if format == "json"
                else "drop it, or use format='json'",
            )
        return cls(
            _cluster(who, options),
            _text(who, options, "topic"),
            cast(ValueFormat, format),
            ddl,
            _starting(who, options.get("starting", "earliest")),
            _choice(who, options, "ending", ("never", "latest"), "never"),
            _metadata(who, options.get("metadata", ())),
            _choice(who, options, "on_data_loss", ("fail", "continue"), "fail") == "continue",
        )


@dataclass(frozen=True)
class KafkaSinkPlan:
    """How a sink writes to a topic.

    Parameters
    ----------
    cluster : Cluster
        Where.
    topic : str
        To what.
    format : {"json", "string", "binary"}
        Whether values are all columns in JSON, or one column.
    column : str
        That column.
    key : str, optional
        The column that becomes the key of a message.
    headers : tuple of str
        Columns that become headers.
    written_by : {"tasks", "driver"}
        Whether each task sends its rows in a transaction of its own, or the driver all rows of a batch in one.
    """

    cluster: Cluster
    topic: str
    format: ValueFormat = "json"
    column: str = "value"
    key: str | None = None
    headers: tuple[str, ...] = field(default=())
    written_by: str = "tasks"

    @classmethod
    def of(cls, id: str, options: Mapping[str, Any]) -> KafkaSinkPlan:
        """Read the options of the sink called `id`.

        >>> KafkaSinkPlan.of("out", {"servers": "localhost:9092", "topic": "counts", "key": "word"}).key
        'word'

        Raises
        ------
        ConfigError
            When an option is missing, unknown or malformed.
        """
        who = f"sink {id!r}"
        _check_names(who, options, SINK_OPTIONS["kafka"])
        headers = options.get("headers", ())
        return cls(
            _cluster(who, options),
            _text(who, options, "topic"),
            cast(ValueFormat, _choice(who, options, "format", _FORMATS, "json")),
            str(options.get("column", "value")),
            None if options.get("key") is None else str(options["key"]),
            (headers,) if isinstance(headers, str) else tuple(headers),
            _choice(who, options, "written_by", ("tasks", "driver"), "tasks"),
        )


def _cluster(who: str, options: Mapping[str, Any]) -> Cluster:
    patience_s = options.get("patience_s", 60.0)
    if isinstance(patience_s, bool) or not isinstance(patience_s, int | float) or not 0 <= patience_s < float("inf"):
        raise ConfigError(f"{who}: patience_s", expected="seconds, 0 or more", got=patience_s)
    client = options.get("client", {})
    if not isinstance(client, Mapping):
        expected = "settings of the client, such as {'security.protocol': 'SSL'}"
        raise ConfigError(f"{who}: client", expected=expected, got=repr(client))
    texts = {str(name): str(value) for name, value in client.items()}
    return Cluster(_text(who, options, "servers"), who, float(patience_s), texts)


def _check_names(who: str, options: Mapping[str, Any], known: KindOptions) -> None:
    for odd in known.unknown(options):
        raise ConfigError(f"{who}: {odd.name}", expected=odd.expected, got=odd.got, remedy=odd.remedy)


def _text(who: str, options: Mapping[str, Any], name: str) -> str:
    value = options.get(name)
    if isinstance(value, list | tuple):
        value = ",".join(str(part) for part in value)
    if not isinstance(value, str) or not value.strip():
        example = "localhost:9092" if name == "servers" else "orders"
        raise ConfigError(f"{who}: {name}", expected=f"a text such as {example!r}", got=repr(value))
    return value.strip()


def _choice(who: str, options: Mapping[str, Any], name: str, choices: tuple[str, ...], default: str) -> str:
    value = str(options.get(name, default))
    if value not in choices:
        raise ConfigError(f"{who}: {name}", expected=f"one of {', '.join(choices)}", got=value)
    return value


def _starting(who: str, value: Any) -> str | Mapping[int, int]:
    if value in ("earliest", "latest"):
        return str(value)
    try:
        given = json.loads(value) if isinstance(value, str) else value
        found = {int(partition): int(offset) for partition, offset in given.items()}
        if found and min(found.values()) >= 0:
            return found
    except (AttributeError, TypeError, ValueError):
        pass
    expected = "earliest, latest, or offsets by partition such as {0: 120, 1: 80}"
    raise ConfigError(f"{who}: starting", expected=expected, got=repr(value))


def _metadata(who: str, value: Any) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value)
    if odd := [name for name in names if name not in METADATA]:
        raise ConfigError(f"{who}: metadata", expected=f"names among {', '.join(METADATA)}", got=repr(odd[0]))
    return names
