"""Kafka through Spark's own connector, for operators that work on DataFrames."""

from __future__ import annotations

import json
from typing import Any, cast

import pyspark
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from foretide.errors import ConfigError
from foretide.spark.kafka_options import KafkaSourcePlan
from foretide.spark.tasks.operators import EVENT_TIME_COLUMN
from foretide.topology import Source

__all__ = ["connector_package", "kafka_backlog", "read_kafka"]


def connector_package(version: str = pyspark.__version__) -> str:
    """Return the Maven coordinates of Spark's Kafka connector, for ``spark.jars.packages``.

    >>> connector_package("4.1.0")
    'org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.0'
    """
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"


def read_kafka(spark: SparkSession, source: Source) -> DataFrame:
    """Return a topic as a streaming DataFrame with the columns that the source declares.

    Raises
    ------
    ConfigError
        When Spark has no Kafka connector.
    TopicError, BrokerError
        When there is no such topic, or no broker.
    """
    plan = KafkaSourcePlan.of(source.id, source.connector.options)
    plan.cluster.partitions(plan.topic)
    reader = spark.readStream.format("kafka").options(**connector_options(plan))
    try:
        rows = reader.load()
    except AnalysisException as error:
        if "data source" not in str(error):
            raise
        raise ConfigError(
            f"source {source.id!r}",
            expected="Spark's Kafka connector, since an operator on DataFrames reads the source",
            got="a session without it",
            remedy=f"create_session(settings={{'spark.jars.packages': {connector_package()!r}}})",
        ) from error
    return _columns(rows, plan)


def connector_options(plan: KafkaSourcePlan) -> dict[str, str]:
    """Return a source's options as Spark's connector calls them."""
    starting: Any = plan.starting
    if not isinstance(starting, str):
        starting = json.dumps({plan.topic: {str(part): offset for part, offset in starting.items()}})
    options = {
        "kafka.bootstrap.servers": plan.cluster.servers,
        "subscribe": plan.topic,
        "startingOffsets": str(starting),
        "failOnDataLoss": str(not plan.lossy).lower(),
        "kafka.isolation.level": "read_committed",
    }
    optional = {"minPartitions": plan.min_partitions, "maxOffsetsPerTrigger": plan.max_rows}
    options |= {name: str(value) for name, value in optional.items() if value is not None}
    return options | {f"kafka.{name}": value for name, value in plan.cluster.options.items()}


def kafka_backlog(source: Source, query: StreamingQuery) -> int:
    """Return how many messages no batch of `query` has read."""
    plan = KafkaSourcePlan.of(source.id, source.connector.options)
    progress = query.lastProgress
    if progress is None:
        return 1
    done = json.loads(progress.sources[0].endOffset)[plan.topic]
    held = plan.cluster.offsets(plan.topic)
    return sum(max(0, offsets.end - int(done.get(str(part), 0))) for part, offsets in held.items())


def _columns(rows: DataFrame, plan: KafkaSourcePlan) -> DataFrame:
    if plan.format == "json":
        schema = cast(StructType, StructType.fromDDL(plan.ddl))
        parsed = rows.withColumn("value", sf.from_json(sf.col("value").cast("string"), schema))
        values = [sf.col(f"value.`{name}`").alias(name) for name in schema.names]
    else:
        parsed = rows
        values = [sf.col("value").cast("string").alias("value") if plan.format == "string" else sf.col("value")]
    declared = plan.schema()
    names = declared.names if declared is not None else ["value"]
    more = [sf.col(name) for name in plan.metadata]
    if EVENT_TIME_COLUMN not in names:
        more.append(sf.col("timestamp").alias(EVENT_TIME_COLUMN))
    return parsed.select(*values, *more)
