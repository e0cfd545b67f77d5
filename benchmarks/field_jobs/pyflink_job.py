"""The Twitter detection on PyFlink, from Kafka to Kafka, exactly once.

As its guides would have it: all four operators in one vectorised function, so that events pass to Python once, objects
reused, bundles that wait for little. Results are seen when their checkpoint is complete. A job that starts again goes
on where its consumer group has read to, which the last checkpoint has told Kafka.
"""

from __future__ import annotations

import os
import sys

# A local job would run all its Python in one process, and its parallel parts would wait for each other.
os.environ["_python_worker_execution_mode"] = "process"

import pandas as pd
from operators import operators
from pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
from pyflink.table.udf import ScalarFunction, udf

SERVERS, SOURCE, SINK = os.environ["FIELD_KAFKA"].split()
COLUMNS = [column for column, _ in operators()]
FIELDS = [
    DataTypes.FIELD("id", DataTypes.BIGINT()),
    DataTypes.FIELD("sent", DataTypes.DOUBLE()),
    DataTypes.FIELD("text", DataTypes.STRING()),
    *(DataTypes.FIELD(column, DataTypes.STRING()) for column in COLUMNS),
]
#: Milliseconds between checkpoints: shorter ones it did not keep up with from Kafka to Kafka on two cores.
INTERVAL_MS = int(os.environ.get("FIELD_INTERVAL_MS", "200"))


class Detect(ScalarFunction):  # type: ignore[misc]
    """All four operators on a batch of rows."""

    def open(self, function_context: object) -> None:
        """Make the operators, in the process that runs them."""
        from operators import operators

        self._operators = operators()

    def eval(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows with the columns that operators add."""
        events = [{"text": text} for text in rows.iloc[:, 2]]
        for _, operator in self._operators:
            events = [operator(event) for event in events]
        columns = {field.name: rows.iloc[:, place].to_numpy() for place, field in enumerate(FIELDS[:3])}
        columns |= {column: [event[column] for event in events] for column in COLUMNS}
        return pd.DataFrame(columns)


def main() -> None:
    """Run until killed, in so many parallel parts."""
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = {
        "pipeline.jars": ";".join(f"file://{jar}" for jar in os.environ["FIELD_JARS"].split(",")),
        "pipeline.object-reuse": "true",
        "parallelism.default": sys.argv[1],
        "execution.checkpointing.interval": f"{INTERVAL_MS} ms",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.dir": f"file://{os.environ['FIELD_STATE']}",
        "execution.buffer-timeout.interval": "1 ms",
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "python.fn-execution.bundle.size": "20000",
        "python.fn-execution.bundle.time": "5",
        "python.fn-execution.arrow.batch.size": "10000",
    }
    for name, value in settings.items():
        tables.get_config().set(name, value)
    place = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{SERVERS}', 'format' = 'json'"
    given = "id BIGINT, sent DOUBLE, text STRING"
    tables.execute_sql(
        f"CREATE TABLE events ({given}) WITH ({place}, 'topic' = '{SOURCE}', "
        f"'properties.group.id' = 'field-{SINK}', 'scan.startup.mode' = 'group-offsets', "
        "'properties.auto.offset.reset' = 'earliest')"
    )
    found = ", ".join([given, *(f"{column} STRING" for column in COLUMNS)])
    tables.execute_sql(
        f"CREATE TABLE results ({found}) WITH ({place}, 'topic' = '{SINK}', "
        "'sink.delivery-guarantee' = 'exactly-once', "
        f"'sink.transactional-id-prefix' = '{SINK}', 'sink.transaction-naming-strategy' = 'pooling', "
        "'properties.linger.ms' = '5', 'properties.compression.type' = 'lz4', "
        "'properties.transaction.timeout.ms' = '60000')"
    )
    detect = udf(Detect(), result_type=DataTypes.ROW(FIELDS), func_type="pandas")
    tables.from_path("events").map(detect).execute_insert("results").wait()


if __name__ == "__main__":
    main()
