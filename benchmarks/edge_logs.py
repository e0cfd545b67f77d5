"""Where queued edges are kept: on a disk, in an object store, or in Kafka, the same topology each time.

The Twitter detection as four stages, one task each. The object store is an S3 server on this machine, as is the broker:
what a network costs is left out. Throughput and latency are measured as in `queued_edges.py`.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from pyspark.sql import SparkSession

from _harness import Measured, alternate, between, parse_options, progress, report
from _streams import constant_trace, fixed_batches, open_session, scratch
from foretide.commands.machine.s3_server import S3Server
from foretide.kafka import Broker
from foretide.spark.settings import EngineSettings
from queued_edges import RATE, AtEnd, deadline, ours

DISK, STORE, KAFKA = "on a disk", "in an object store", "in Kafka"


@dataclass(frozen=True)
class Place:
    """Where edges are: the folder of runs, that of Spark's checkpoints, and settings of the engine.

    Without a folder, each run gets one of its own on a disk.
    """

    folder: str = ""
    checkpoints: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    def run(self, spark: SparkSession, source: Mapping[str, Any], settings: EngineSettings, over: Any) -> AtEnd:
        """Run the topology until `over` says so."""
        end, check = AtEnd(), deadline(f"edges {self}")

        def is_over(end: AtEnd) -> bool:
            check()
            return bool(over(end))

        name = uuid.uuid4().hex
        path = f"{self.folder}/{name}" if self.folder else ""
        checkpoint = f"{self.checkpoints}/{name}" if self.checkpoints else ""
        own = settings.model_copy(update={**self.settings, "checkpoint": checkpoint})
        ours(spark, source, own, end, is_over, path)
        return end


def places(stack: ExitStack) -> dict[str, Place]:
    """Start the servers, until the stack is closed."""
    path = stack.enter_context(scratch())
    broker = stack.enter_context(Broker(path / "broker", port=0))
    store = stack.enter_context(S3Server(path / "objects", ["runs"]))
    stack.enter_context(mock.patch.dict(os.environ, store.environment))
    return {
        DISK: Place(),
        STORE: Place("s3://runs", str(path / "checkpoints")),
        KAFKA: Place(settings={"edges": "kafka", "kafka_servers": broker.servers}),
    }


def main() -> None:
    options = parse_options(__doc__)
    total, rows, seconds = options.size((500_000, 50_000, 15.0), quick=(60_000, 20_000, 5.0), smoke=(2_000, 1_000, 0.5))
    progress(f"edges: {total:,} events in batches of {rows:,}, then {RATE:,} events/s for {seconds:.0f} s")
    with ExitStack() as stack:
        found = places(stack)
        spark = open_session()
        path = stack.enter_context(scratch())
        whole, even = constant_trace(path, total / 10, 10), constant_trace(path, RATE, 600)

        def rate(place: Place) -> float:
            source = {"trace": whole, "until": "all"}
            end = place.run(spark, source, fixed_batches(rows), lambda end: sum(end.batches.rows) >= total)
            return end.batches.rate(1)

        def median_s(place: Place) -> float:
            def over(end: AtEnd) -> bool:
                return end.warm_s is not None and end.batches.ended_s[-1] > end.warm_s + seconds

            source = {"trace": even, "started_at": time.time()}
            return place.run(spark, source, EngineSettings(first_rows=100_000), over).latency.quantile_s(0.5)

        def each(measure: Callable[[Place], float]) -> dict[str, Callable[[], float]]:
            return {name: lambda place=place: measure(place) for name, place in found.items()}

        rates = alternate(
            each(rate), options.repeats, warm_up=options.warm_up, show=lambda value: f"{value:,.0f} events/s"
        )
        waits = alternate(each(median_s), options.repeats, warm_up=0, show=lambda value: f"p50 {1e3 * value:.0f} ms")
        spark.stop()
    lines = [
        Measured(f"latency with edges {STORE}, p50", DISK, "at most", 2.0, between(waits[STORE], waits[DISK])),
        Measured(f"throughput with edges {STORE}", DISK, "at least", 0.5, between(rates[STORE], rates[DISK])),
        Measured(f"latency with edges {KAFKA}, p50", STORE, "at most", 0.8, between(waits[KAFKA], waits[STORE])),
        Measured(f"throughput with edges {KAFKA}", STORE, "at least", 1.2, between(rates[KAFKA], rates[STORE])),
    ]
    details = {"total": total, "rows": rows, "rate": RATE, "events_per_s": rates, "p50_s": waits}
    report("edge_logs", "Where queued edges are kept", lines, details, options)


if __name__ == "__main__":
    main()
