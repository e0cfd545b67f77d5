"""Counting keys as a PyFlink job, with a value state for each key. Run by `keyed_flink.py` in its own Python.

It needs nothing but PyFlink. Flink makes ids and keys; Python has the key and the state alone. Every so many rows a
task leaves a line with the instant and the rows in a file of the folder ``--progress``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment

ENDLESS_RATE = 100_000_000


class Count(KeyedProcessFunction):  # type: ignore[misc]
    """Counts and adds up the ids of each key."""

    def __init__(self, every: int, progress: str) -> None:
        self._every, self._folder, self._rows = every, progress, 0
        self._state: Any = None

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the state."""
        columns = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
        self._state = runtime_context.get_state(ValueStateDescriptor("state", columns))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        """Count one row; nothing goes on."""
        n, total = self._state.value() or (0, 0.0)
        self._state.update((n + 1, total + value[1]))
        self._rows += 1
        if self._rows >= self._every and self._folder:
            with (Path(self._folder) / f"{os.getpid()}-{id(self)}.txt").open("a", encoding="utf-8") as file:
                file.write(f"{time.time():.6f} {self._rows}\n")
            self._rows = 0
        yield from ()


def environment(parallelism: int, settings: dict[str, str]) -> StreamExecutionEnvironment:
    """Return a streaming environment, of a cluster where the settings name one."""
    configuration = Configuration()
    defaults = {
        "parallelism.default": str(parallelism),
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "pipeline.object-reuse": "true",
        "python.metric.enabled": "false",
    }
    for key, value in {**defaults, **settings}.items():
        configuration.set_string(key, value)
    if settings.get("execution.target") != "remote":
        return StreamExecutionEnvironment.get_execution_environment(configuration)
    # What PyFlink offers runs in this process, whatever the target, unless Flink's own command line has started it.
    java = get_gateway().jvm.org.apache.flink.streaming.api.environment.StreamExecutionEnvironment
    return StreamExecutionEnvironment(java(configuration._j_configuration))


def declare(env: StreamExecutionEnvironment, options: argparse.Namespace, progress: str) -> None:
    """Declare the job: ids in a sequence, one of so many keys for each, and a count by key."""
    tables = StreamTableEnvironment.create(env)
    # A sequence is made in memory as a whole, so a job without an end draws its ids.
    endless = "'fields.id.min' = '0', 'fields.id.max' = '1000000'"
    bounded = f"'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '{options.rows - 1}'"
    source = f"'connector' = 'datagen', 'rows-per-second' = '{options.rate}', {bounded if options.rows else endless}"
    tables.execute_sql(f"CREATE TEMPORARY TABLE ids (id BIGINT) WITH ({source})")
    stream = tables.to_data_stream(tables.sql_query(f"SELECT MOD(id, {options.keys}) AS k, id FROM ids"))
    count = Count(options.every, progress)
    stream.key_by(lambda row: row[0], key_type=Types.LONG()).process(count, Types.LONG()).print()


def run_turns(options: argparse.Namespace) -> None:
    """Run a job for each line of the input, in one process so that its virtual machine is warm; answer with a line.

    A line has a folder for the job's progress, a word that says nothing here, and settings as ``key=value``.
    """
    for line in sys.stdin:
        folder, _, *settings = line.split()
        env = environment(options.parallelism, dict(item.split("=", 1) for item in settings))
        declare(env, options, folder)
        env.execute("count")
        print("done", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--rows", type=int, default=1_000_000, help="how many events; 0: without end")
    parser.add_argument("--rate", type=int, default=ENDLESS_RATE, help="rows a second that the source gives")
    parser.add_argument("--every", type=int, default=1_000, help="rows between two lines of the progress")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--progress", default="", help="a folder for lines about rows")
    parser.add_argument("--turns", action="store_true", help="run a job for each line of the input")
    parser.add_argument("--detached", action="store_true", help="return when the job is submitted")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a Flink setting")
    options = parser.parse_args()
    if options.turns:
        run_turns(options)
        return
    env = environment(options.parallelism, dict(item.split("=", 1) for item in options.set))
    declare(env, options, options.progress)
    if options.detached:
        env.execute_async("count")
    else:
        env.execute("count")


if __name__ == "__main__":
    main()
