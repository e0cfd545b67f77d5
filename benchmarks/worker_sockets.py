"""How Spark talks to its Python workers: the time of a small batch over sockets of the file system, against TCP.

A hundred rows in each batch and functions that do nothing, so that what is left is what a batch costs by itself. The
sides are taken in turn, each in a session of its own, and its first batches do not count.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from _harness import Measured, Options, alternate, between, parse_options, progress, report
from _streams import constant_trace, fixed_batches, open_session, run_topology, scratch
from foretide.spark.session.builder import WORKER_SOCKETS
from foretide.topology import Topology, flow

ROWS, SKIPPED = 100, 8
TCP = {"spark.python.unix.domain.socket.enabled": "false"}


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows as they are."""
    return batch


def topology(trace: str, *, exchange: bool) -> Topology:
    """Return two operators, in one task or with an exchange between them."""
    job = flow("sockets")
    first = job.source("in", "trace", trace=trace, payload="ids", until="all").operator("one", same, mode="arrow")
    first.operator("two", same, mode="arrow", grouping="fields:id" if exchange else "shuffle", replicas=2).sink("out")
    return job.build()


def main() -> None:
    options = parse_options(__doc__)
    batches = options.size(40, quick=15, smoke=1)
    skipped = 1 if options.smoke else SKIPPED
    progress(f"sockets of workers: batches of {ROWS} rows, {batches} in each turn")
    with scratch() as path:
        trace = constant_trace(path, 1_000, 600)
        lines = [line_of(trace, batches, skipped, options, exchange=exchange) for exchange in (False, True)]
    report("worker_sockets", "Talking to Python workers", lines, {"rows": ROWS, "batches": batches}, options)


def line_of(trace: str, batches: int, skipped: int, options: Options, *, exchange: bool) -> Measured:
    """Return the line for batches with or without an exchange."""

    def batch_s(settings: dict[str, str]) -> float:
        spark = open_session("local[4]", settings)
        try:
            found = run_topology(
                topology(trace, exchange=exchange),
                spark,
                fixed_batches(ROWS),
                until=lambda _, done: len(done.rows) >= skipped + batches,
            )
        finally:
            spark.stop()
        return float(np.median(found.gaps_s()[skipped - 1 :]))

    times = alternate(
        {"files": lambda: batch_s(WORKER_SOCKETS), "TCP": lambda: batch_s(TCP)},
        options.repeats,
        warm_up=options.warm_up,
        show=lambda value: f"{1e3 * value:.0f} ms a batch",
    )
    what = f"a batch of hardly any rows, {'one exchange' if exchange else 'no exchange'}"
    return Measured(what, "workers over TCP", "at most", 0.9, between(times["files"], times["TCP"]))


if __name__ == "__main__":
    main()
