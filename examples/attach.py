"""Scale the executors of an ordinary PySpark job ahead of its load, with one call.

python examples/attach.py                        # about two minutes on a small cluster inside this machine

The job knows nothing of Foretide: it reads a stream, works on each row and writes a count. Its input is a recorded rate
here; with Kafka in its place, nothing else changes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

import foretide
from foretide.spark import create_session


def slow_score(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Stand for a call to another service: two milliseconds a row."""
    for batch in batches:
        time.sleep(0.002 * len(batch))
        yield batch.assign(score=batch["text"].str.len())[["id", "score"]]


def plain_job(spark: SparkSession, trace: str, speed: float, rate_scale: float) -> Any:
    """Start the job, as anybody would write it."""
    events = (
        spark.readStream.format("foretide-trace")
        .options(trace=trace, payload="tweets", speed=str(speed), rateScale=str(rate_scale), partitions="6")
        .load()
    )

    def count(batch: DataFrame, batch_id: int) -> None:
        batch.mapInPandas(slow_score, "id long, score long").groupBy().count().collect()

    return events.writeStream.foreachBatch(count).queryName("scores").start()


def main(arguments: list[str]) -> None:
    """Run the job on a small cluster, and show executors planned, requested and observed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--master", default="local-cluster[3,2,1024]")
    parser.add_argument("--trace", default="pasps_twitter_smoothed")
    parser.add_argument("--speed", type=float, default=10.0)
    parser.add_argument("--rate-scale", type=float, default=0.006)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--slo", help="a promise such as p95<10s, kept with the fewest executors")
    parser.add_argument("--store", help="record the run there; where all runs are unless given")
    parser.add_argument("--advisory", action="store_true", help="decide, but change nothing")
    given = parser.parse_args(arguments)
    # One executor to begin with; Foretide asks for more.
    spark = create_session(given.master, "attach", settings={"spark.executor.instances": "1", "spark.cores.max": "6"})
    with tempfile.TemporaryDirectory() as directory:
        spark.conf.set("spark.sql.streaming.checkpointLocation", directory)
        plain_job(spark, given.trace, given.speed, given.rate_scale)
        with foretide.attach(
            spark,
            executors={"minimum": 1, "maximum": 3, "release_after_s": 8.0},
            control={"loop": {"td_s": 5.0, "sample_s": 1.0, "stale_after_s": 30.0}},
            slo=given.slo,
            store=given.store,
            advisory=given.advisory,
        ) as attachment:
            _watch(attachment, given.seconds)
        # A query that is stopped in the midst of a batch says so at length.
        spark.sparkContext.setLogLevel("OFF")
        for query in spark.streams.active:
            query.stop()
    spark.stop()


def _watch(attachment: Any, seconds: float) -> None:
    print("   time   rows/s  expected   planned  requested  observed")
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        time.sleep(5.0)
        decision, counts = attachment.last_decision, attachment.counts()
        window = None if decision is None else decision.window
        rate = 0.0 if window is None else float(window.arrived.sum()) / window.duration_s
        expected = sum(float(forecast.mean.mean()) for forecast in (decision.forecasts if decision else {}).values())
        print(
            f"{time.monotonic() - began:6.0f} s {rate:8.0f} {expected:9.0f} {counts.planned:9d} "
            f"{counts.requested:10d} {counts.observed:9d}",
            flush=True,
        )
    print("\nwhat was decided:")
    for event in attachment.events:
        print(f"  {event.kind}: {event.message}")


if __name__ == "__main__":
    main(sys.argv[1:])
