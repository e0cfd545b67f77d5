"""The Twitter detection as a PyFlink job: the same functions as four pandas UDFs. Run by `flink.py` in its own Python.

It needs nothing but PyFlink and what the example needs; ``PYTHONPATH`` must hold ``src`` and ``examples``. Each call of
the last UDF leaves a line with its instant and rows in a file of the directory ``FLINK_JOB_PROGRESS``, since a job
reports its own rate too coarsely to tell one second from the next.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
from pyflink.table.udf import ScalarFunction, udf

PROGRESS = "FLINK_JOB_PROGRESS"
COLUMNS = ("topic", "subtopic", "category", "subcategory")


class Tweets(ScalarFunction):  # type: ignore[misc]
    """Makes the text of an event from its id, as the source of the other side does."""

    def __init__(self) -> None:
        self._ids: pd.Series | None = None
        self._texts: pd.Series | None = None

    def eval(self, ids: pd.Series) -> pd.Series:
        """Return the texts; the four UDFs that ask for those of the same batch share them."""
        if ids is not self._ids:
            from foretide.traces.payloads import payload

            self._ids, self._texts = ids, payload("tweets")(ids.to_numpy())["text"].to_pandas()
        return self._texts


class Detect(ScalarFunction):  # type: ignore[misc]
    """One operator of the example on a pandas series."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._function: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None
        self._progress: Path | None = None

    def open(self, function_context: object) -> None:
        """Find the example's function."""
        import twitter_detection

        operators = {operator.id: operator.function for operator in twitter_detection.topology.operators}
        self._function = operators[self._column]
        directory = os.environ.get(PROGRESS)
        if directory and self._column == COLUMNS[-1]:
            self._progress = Path(directory) / f"{os.getpid()}-{id(self)}.txt"

    def eval(self, texts: pd.Series) -> pd.Series:
        """Return the column that the function adds."""
        assert self._function is not None, "open comes first"
        batch = pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], names=["text"])
        found = self._function(batch)[self._column].to_pandas()
        if self._progress is not None:
            with self._progress.open("a", encoding="utf-8") as file:
                file.write(f"{time.time():.6f} {len(found)}\n")
        return found


def environment(parallelism: int, settings: dict[str, str]) -> TableEnvironment:
    """Return a streaming environment with tuned bundles and Arrow batches."""
    table_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    defaults = {
        "parallelism.default": str(parallelism),
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "pipeline.object-reuse": "true",
        "table.exec.python.metric.enabled": "false",
        "python.metric.enabled": "false",
    }
    for key, value in {**defaults, **settings}.items():
        table_env.get_config().set(key, value)
    return table_env


def submit(table_env: TableEnvironment, rows: int, rate: int) -> object:
    """Start the job: ids in a sequence, texts, four detections, a sink that drops them."""
    table_env.create_temporary_function("tweets", udf(Tweets(), result_type=DataTypes.STRING(), func_type="pandas"))
    for column in COLUMNS:
        function = udf(Detect(column), result_type=DataTypes.STRING(), func_type="pandas")
        table_env.create_temporary_function(f"detect_{column}", function)
    # A sequence is made in memory as a whole, so a job without an end draws its ids.
    endless = "'fields.id.min' = '0', 'fields.id.max' = '1000000'"
    bounded = f"'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '{rows - 1}'"
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE ids (id BIGINT) WITH"
        f" ('connector' = 'datagen', 'rows-per-second' = '{rate}', {bounded if rows else endless})"
    )
    columns = ", ".join(f"{column} STRING" for column in COLUMNS)
    table_env.execute_sql(f"CREATE TEMPORARY TABLE nowhere ({columns}) WITH ('connector' = 'blackhole')")
    detections = ", ".join(f"detect_{column}(tweets(id))" for column in COLUMNS)
    return table_env.execute_sql(f"INSERT INTO nowhere SELECT {detections} FROM ids")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="how many events; 0: without end")
    parser.add_argument("--rate", type=int, default=100_000_000, help="rows a second that the source gives")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--detached", action="store_true", help="return when the job is submitted")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a Flink setting")
    options = parser.parse_args()
    table_env = environment(options.parallelism, dict(item.split("=", 1) for item in options.set))
    result = submit(table_env, options.rows, options.rate)
    if not options.detached:
        result.wait()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
