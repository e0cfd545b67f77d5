"""The Twitter detection as a PyFlink job, all in one pandas UDF or in four; `flink.py` runs it in a Python of its own.

It needs nothing but PyFlink and what the example needs; ``PYTHONPATH`` must hold ``src`` and ``examples``. Each call of
the last UDF leaves a line with its instant and rows in a file of the folder ``--progress``, since a job reports its own
rate too coarsely to tell one second from the next.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
from pyflink.table.udf import ScalarFunction, udf

#: Rows a second that no job keeps up with.
ENDLESS_RATE = 100_000_000
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


class DetectAll(ScalarFunction):  # type: ignore[misc]
    """All of the example in one function, as who writes for speed would: events made, and four columns found."""

    def __init__(self, progress: str) -> None:
        self._folder = progress

    def open(self, function_context: object) -> None:
        """Find the example's functions."""
        import twitter_detection

        self._functions = [operator.function for operator in twitter_detection.topology.operators]

    def eval(self, ids: pd.Series) -> pd.DataFrame:
        """Return the four columns of the events with these ids."""
        from foretide.traces.payloads import payload

        batch = payload("tweets")(ids.to_numpy())
        for function in self._functions:
            batch = function(batch)
        found = batch.select(list(COLUMNS)).to_pandas()
        _note(self._folder, len(found))
        return found


class Detect(ScalarFunction):  # type: ignore[misc]
    """One operator of the example on a pandas series."""

    def __init__(self, column: str, progress: str) -> None:
        self._column = column
        self._folder = progress if column == COLUMNS[-1] else ""
        self._function: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None

    def open(self, function_context: object) -> None:
        """Find the example's function."""
        import twitter_detection

        operators = {operator.id: operator.function for operator in twitter_detection.topology.operators}
        self._function = operators[self._column]

    def eval(self, texts: pd.Series) -> pd.Series:
        """Return the column that the function adds."""
        assert self._function is not None, "open comes first"
        batch = pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], names=["text"])
        found = self._function(batch)[self._column].to_pandas()
        _note(self._folder, len(found))
        return found


def _note(folder: str, rows: int) -> None:
    """Leave a line about a call."""
    if folder:
        with (Path(folder) / f"{os.getpid()}-{threading.get_ident()}.txt").open("a", encoding="utf-8") as file:
            file.write(f"{time.time():.6f} {rows}\n")


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


def submit(table_env: TableEnvironment, rows: int, rate: int, progress: str, *, fused: bool) -> object:
    """Start the job: ids in a sequence, texts, four detections, a sink that drops them."""
    # A sequence is made in memory as a whole, so a job without an end draws its ids.
    endless = "'fields.id.min' = '0', 'fields.id.max' = '1000000'"
    bounded = f"'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '{rows - 1}'"
    source = f"'connector' = 'datagen', 'rows-per-second' = '{rate}', {bounded if rows else endless}"
    columns = ", ".join(f"{column} STRING" for column in COLUMNS)
    row = DataTypes.ROW([DataTypes.FIELD(column, DataTypes.STRING()) for column in COLUMNS])
    functions = {
        "tweets": udf(Tweets(), result_type=DataTypes.STRING(), func_type="pandas"),
        "detect": udf(DetectAll(progress), result_type=row, func_type="pandas"),
        **{
            f"detect_{column}": udf(Detect(column, progress), result_type=DataTypes.STRING(), func_type="pandas")
            for column in COLUMNS
        },
    }
    for name, function in functions.items():
        table_env.create_temporary_function(name, function)
    table_env.execute_sql(f"CREATE TEMPORARY TABLE ids (id BIGINT) WITH ({source})")
    found = f"found ROW<{columns}>" if fused else columns
    table_env.execute_sql(f"CREATE TEMPORARY TABLE nowhere ({found}) WITH ('connector' = 'blackhole')")
    detections = "detect(id)" if fused else ", ".join(f"detect_{column}(tweets(id))" for column in COLUMNS)
    return table_env.execute_sql(f"INSERT INTO nowhere SELECT {detections} FROM ids")


def run_turns(rows: int, parallelism: int) -> None:
    """Run a job for each line of the input, in one process so that its virtual machine is warm; answer with a line.

    A line has a folder for the job's progress, "fused" or "apart", and settings as ``key=value``.
    """
    for line in sys.stdin:
        folder, shape, *settings = line.split()
        table_env = environment(parallelism, dict(item.split("=", 1) for item in settings))
        submit(table_env, rows, ENDLESS_RATE, folder, fused=shape == "fused").wait()  # type: ignore[attr-defined]
        print("done", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="how many events; 0: without end")
    parser.add_argument("--rate", type=int, default=ENDLESS_RATE, help="rows a second that the source gives")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--progress", default="", help="a folder for lines about calls")
    parser.add_argument("--turns", action="store_true", help="run a job for each line of the input")
    parser.add_argument("--detached", action="store_true", help="return when the job is submitted")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a Flink setting")
    options = parser.parse_args()
    if options.turns:
        run_turns(options.rows, options.parallelism)
        return
    table_env = environment(options.parallelism, dict(item.split("=", 1) for item in options.set))
    result = submit(table_env, options.rows, options.rate, options.progress, fused=False)
    if not options.detached:
        result.wait()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
