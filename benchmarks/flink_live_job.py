"""Four Python functions from Kafka to Kafka as a PyFlink job, exactly once; `live.py` runs it in a Python of its own.

All four are in one vectorised function, as who writes for speed would have it, so that events pass to Python once.
Results are seen when their checkpoint is complete: the interval of checkpoints is what latency is made of. Names of
transactions are pooled, since a new one for every checkpoint costs the broker more than the checkpoint.
"""

from __future__ import annotations

import argparse
import sys

import pandas as pd
from pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
from pyflink.table.udf import udf

FIELDS = [
    DataTypes.FIELD("id", DataTypes.BIGINT()),
    DataTypes.FIELD("sent", DataTypes.DOUBLE()),
    DataTypes.FIELD("text", DataTypes.STRING()),
    DataTypes.FIELD("words", DataTypes.BIGINT()),
    DataTypes.FIELD("letters", DataTypes.BIGINT()),
    DataTypes.FIELD("mean", DataTypes.DOUBLE()),
]


def work(rows: pd.DataFrame) -> pd.DataFrame:
    """Do what the four operators of the other side do."""
    texts = rows.iloc[:, 2]
    words, letters = texts.str.split().str.len(), texts.str.len()
    return pd.DataFrame(
        {
            "id": rows.iloc[:, 0],
            "sent": rows.iloc[:, 1],
            "text": texts.str.slice(0, 20).str.upper(),
            "words": words,
            "letters": letters,
            "mean": letters / words,
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("servers", "source", "sink", "jar", "checkpoints"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--interval-ms", type=int, required=True, help="between checkpoints")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--detached", action="store_true", help="return once it is submitted to a cluster")
    parser.add_argument("--set", action="append", default=[], help="a setting of Flink's, KEY=VALUE")
    # What other jobs are told that run on the same cluster means nothing here: events come from Kafka.
    given, _ = parser.parse_known_args()
    more = dict(setting.split("=", 1) for setting in given.set)
    jars = [f"file://{given.jar}", *filter(None, [more.pop("pipeline.jars", "")])]
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = {
        "pipeline.jars": ";".join(jars),
        "pipeline.object-reuse": "true",
        "parallelism.default": str(given.parallelism),
        "execution.checkpointing.interval": f"{given.interval_ms} ms",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.dir": f"file://{given.checkpoints}",
        "execution.buffer-timeout.interval": "1 ms",
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        # Small bundles that do not wait.
        "python.fn-execution.bundle.size": "1000",
        "python.fn-execution.bundle.time": "5",
        "python.fn-execution.arrow.batch.size": "1000",
    }
    for name, value in {**more, **settings}.items():
        tables.get_config().set(name, value)
    place = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{given.servers}', 'format' = 'json'"
    tables.execute_sql(
        f"CREATE TABLE events (id BIGINT, sent DOUBLE, text STRING) WITH ({place}, 'topic' = '{given.source}', "
        f"'properties.group.id' = '{given.sink}-flink', 'scan.startup.mode' = 'earliest-offset')"
    )
    tables.execute_sql(
        "CREATE TABLE results (id BIGINT, sent DOUBLE, text STRING, words BIGINT, letters BIGINT, mean DOUBLE) "
        f"WITH ({place}, 'topic' = '{given.sink}', 'sink.delivery-guarantee' = 'exactly-once', "
        f"'sink.transactional-id-prefix' = '{given.sink}', 'sink.transaction-naming-strategy' = 'pooling', "
        "'properties.transaction.timeout.ms' = '60000')"
    )
    mapped = tables.from_path("events").map(udf(work, result_type=DataTypes.ROW(FIELDS), func_type="pandas"))
    submitted = mapped.execute_insert("results")
    if not given.detached:
        submitted.wait()


if __name__ == "__main__":
    main()
