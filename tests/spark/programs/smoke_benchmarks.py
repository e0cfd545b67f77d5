"""Runs benchmarks one after another in one process, as short as they go; its arguments are a folder and their names.

Each gets the arguments that `ARGUMENTS` has for it and leaves what it printed in the file ``NAME.txt`` of the folder,
and where it failed, its error in ``NAME.error``. Spark's virtual machine is started once for all of them.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
import time
import traceback
from pathlib import Path

from pyspark.sql import SparkSession

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
HARNESS = ("--smoke", "--results", "{folder}", "--markdown", "{folder}/benchmarks.md")
FILES = ("--smoke", "--json", "{folder}/{name}.json", "--markdown", "{folder}/benchmarks.md")
#: By name, in the order in which they run; `bench_all` puts an overview together from what others left.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "arrow_log": ("--rows", "2000", "--batches", "2", "--repeats", "1"),
    "grouping": HARNESS,
    "prices": ("--smoke", "--json", "{folder}/{name}.json"),
    "forecasting": FILES,
    "zero": FILES,
    "planning": HARNESS,
    "run_store": HARNESS,
    "log_port": HARNESS,
    "simulator": HARNESS,
    "following": HARNESS,
    "fronts": HARNESS,
    "service": HARNESS,
    "health": HARNESS,
    "throughput": HARNESS,
    "latency": HARNESS,
    "queued_edges": HARNESS,
    "statistics_cost": HARNESS,
    "worker_sockets": HARNESS,
    "replica_changes": HARNESS,
    "replica_pool": HARNESS,
    "keyed_state": HARNESS,
    "keyed_skew": HARNESS,
    "keyed_executors": HARNESS,
    "keyed_flink": HARNESS,
    "nexmark_throughput": HARNESS,
    "live_steered": HARNESS,
    "nexmark_steered": HARNESS,
    "rescale_gap": HARNESS,
    "osg": HARNESS,
    "load_aware": HARNESS,
    "flink": HARNESS,
    "closed_loop": HARNESS,
    "attach": HARNESS,
    "kafka": HARNESS,
    "live": HARNESS,
    "scale": HARNESS,
    "soak": ("--minutes", "0.15", "--every", "1", "--json", "{folder}/{name}.json"),
    "bench_all": ("--no-run", "--results", "{folder}", "--markdown", "{folder}/benchmarks.md"),
}


def run(name: str, folder: Path) -> None:
    """Run one benchmark; a target that it misses is no failure here."""
    sys.argv = [str(BENCHMARKS / f"{name}.py"), *(part.format(name=name, folder=folder) for part in ARGUMENTS[name])]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            importlib.import_module(name).main()
    finally:
        (folder / f"{name}.txt").write_text(printed.getvalue(), encoding="utf-8")


def main() -> None:
    """Run all that are named."""
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    sys.path.insert(0, str(BENCHMARKS))
    # Benchmarks end their sessions; here the next one goes on with the same.
    end, SparkSession.stop = SparkSession.stop, lambda spark: None  # type: ignore[method-assign]
    for name in names:
        began_s = time.monotonic()
        try:
            run(name, folder)
        except Exception:
            (folder / f"{name}.error").write_text(traceback.format_exc(), encoding="utf-8")
        print(f"== {name}: {time.monotonic() - began_s:.1f} s", file=sys.stderr, flush=True)
    if (spark := SparkSession.getActiveSession()) is not None:
        end(spark)


if __name__ == "__main__":
    main()
