"""Queued edges: the Twitter detection as four queries joined by Foretide's log, against Spark's Parquet in between.

By hand, the same four queries are joined by Spark's own means, a Parquet sink and a file source, and events are made in
the task of the first one, as ours are. Both sides have one task per query. Throughput counts the rows that reach the
end between its first batch and its last; latency runs from the instant an event was due to the end of the last query's
batch. Turns are kept one by one in `benchmarks/results/queued_edges.jsonl`: the same command goes on where it was
stopped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from _detection import FUNCTIONS, TIMED, ArrowFunction, Due, detection, mapping, timed
from _harness import OF_TURNS, Measured, alternate, between, kept_turns, parse_options, progress, report
from _report import provenance
from _streams import Batches, constant_trace, fixed_batches, open_session, scratch
from foretide.latency import LatencyHistogram
from foretide.spark.driver.running_topology import RunningTopology
from foretide.spark.settings import EngineSettings
from foretide.spark.tasks.statistics import EventTimes

RATE = 1_000
# Batches at the end before latencies count.
WARM = 8
TIMEOUT_S = 600.0
_BIN_S = 0.01


@dataclass
class AtEnd:
    """What reached the last query: its batches, and latencies of events in those after the first few."""

    batches: Batches = field(default_factory=Batches)
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)

    @property
    def warm_s(self) -> float | None:
        """The instant from which latencies count; the first batches work off what came while queries started."""
        return self.batches.ended_s[WARM - 1] if len(self.batches.rows) >= WARM else None

    def add(self, rows: int, latency: LatencyHistogram, ended_s: float) -> None:
        """Take note of a batch that had rows."""
        if not rows:
            return
        if self.warm_s is not None:
            self.latency.merge(latency)
        self.batches.add(rows, ended_s)


def ours(
    spark: SparkSession, source: Mapping[str, Any], settings: EngineSettings, end: AtEnd, over: Over, path: str = ""
) -> None:
    """Run the topology with queued edges; `end` is filled from the statistics of its last stage."""
    with scratch() as folder:
        running = RunningTopology(detection(source, queued=True), spark, path or folder, settings)
        last, seen = running.graph.stages[-1].id, 0
        running.start()
        try:
            while not over(end):
                running.check()
                found = [batch for batch in running.batches() if batch.stage == last]
                for batch in found[seen:]:
                    end.add(sum(batch.rows.values()), batch.latency, batch.started_at_s + batch.duration_s)
                seen = len(found)
                time.sleep(0.05)
        finally:
            running.stop()


@dataclass(frozen=True)
class Source:
    """How a job by hand gets its events: options of Spark's own source, and what makes them of its rows in the task.

    That source has no end; it is stopped after so many batches, where their number is given.
    """

    options: Mapping[str, Any]
    make: Callable[[pa.RecordBatch], pa.RecordBatch]
    batches: int | None = None

    def is_through(self, first: StreamingQuery) -> bool:
        """Return whether the first query has read all that there is to be."""
        last = first.lastProgress
        return self.batches is not None and last is not None and last.batchId + 1 >= self.batches


def full(rows: int, total: int) -> Source:
    """Return so many events in every batch, until there were as many as wanted."""
    made = partial(_numbered, time.time())
    return Source({"rowsPerBatch": rows, "numPartitions": 1}, made, -(-total // rows))


def _numbered(started_at_s: float, batch: pa.RecordBatch) -> pa.RecordBatch:
    return timed(batch["value"].to_numpy(), started_at_s, RATE)


def even(path: Path, started_at_s: float) -> Source:
    """Return events as they are due: a row of Spark's source is a tick."""
    return Source({"rowsPerBatch": 1, "numPartitions": 1}, Due(str(path / "next"), started_at_s, RATE))


def by_hand(spark: SparkSession, source_in: Callable[[Path], Source], end: AtEnd, over: Over) -> None:
    """Run the same four queries with Parquet files between them."""
    done: list[bool] = []

    def run_batch(frame: DataFrame, batch_id: int) -> None:
        if not done:
            rows = frame.mapInArrow(_times(list(FUNCTIONS.values())[-1]), "times string").collect()
            _add(end, [pair for row in rows for pair in json.loads(row.times)], time.time())

    with scratch() as path:
        source = source_in(path)
        queries = _queries(spark, source, path, run_batch)
        try:
            while not over(end):
                for query in queries:
                    if (error := query.exception()) is not None:
                        raise error
                if queries[0].isActive and source.is_through(queries[0]):
                    queries[0].stop()
                time.sleep(0.05)
        finally:
            done.append(True)
            for query in queries:
                query.stop()


def _add(end: AtEnd, event_times: list[list[int]], ended_s: float) -> None:
    latency = LatencyHistogram()
    for place, count in event_times:
        latency.add([ended_s - (place + 0.5) * _BIN_S], [count])
    end.add(sum(count for _, count in event_times), latency, ended_s)


def _queries(
    spark: SparkSession, source: Source, path: Path, run_batch: Callable[[DataFrame, int], None]
) -> list[StreamingQuery]:
    options = {name: str(value) for name, value in source.options.items()}
    rows = spark.readStream.format("rate-micro-batch").options(**options).load()
    columns, made, queries = TIMED, [source.make], []
    for id, function in list(FUNCTIONS.items())[:-1]:
        columns += f", {id} string"
        (path / id).mkdir()
        queries.append(
            rows.mapInArrow(mapping([*made, function]), columns)
            .writeStream.format("parquet")
            .option("path", str(path / id))
            .option("checkpointLocation", str(path / "checkpoints" / id))
            .start()
        )
        # One task, as on the other side: a file source would make as many as there are files or cores.
        rows, made = spark.readStream.schema(columns).parquet(str(path / id)).coalesce(1), []
    last = rows.writeStream.foreachBatch(run_batch).option("checkpointLocation", str(path / "checkpoints" / "last"))
    return [*queries, last.start()]


def _times(function: ArrowFunction) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        times = EventTimes()
        for batch in batches:
            times.add(function(batch)["event_time"])
        yield pa.RecordBatch.from_pydict({"times": pa.array([json.dumps(times.to_json())])})

    return run


Over = Callable[[AtEnd], bool]


def deadline(name: str) -> Callable[[], None]:
    """Return what raises once a run has taken far too long."""
    deadline_s = time.monotonic() + TIMEOUT_S

    def check() -> None:
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{name}: expected to be through in {TIMEOUT_S:.0f} s")

    return check


def throughput(spark: SparkSession, trace: str, total: int, rows: int) -> dict[str, Callable[[], float]]:
    source = {"trace": trace, "until": "all"}

    def rate(run: Callable[[AtEnd, Over], None]) -> float:
        end, check = AtEnd(), deadline("throughput")

        def over(end: AtEnd) -> bool:
            check()
            return sum(end.batches.rows) >= total

        run(end, over)
        return end.batches.rate(1)

    # Log segments are not forced to disk on either side: Spark's Parquet files are not either.
    return {
        "Foretide, queued": lambda: rate(lambda end, over: ours(spark, source, fixed_batches(rows), end, over)),
        "Parquet between": lambda: rate(lambda end, over: by_hand(spark, lambda _: full(rows, total), end, over)),
    }


def latency(spark: SparkSession, trace: str, seconds: float) -> dict[str, Callable[[], Mapping[str, float]]]:
    def quantiles(run: Callable[[float, AtEnd, Over], None]) -> Mapping[str, float]:
        check, end = deadline("latency"), AtEnd()

        def over(end: AtEnd) -> bool:
            check()
            return end.warm_s is not None and end.batches.ended_s[-1] > end.warm_s + seconds

        run(time.time(), end, over)
        return {"p50": end.latency.quantile_s(0.5), "p95": end.latency.quantile_s(0.95)}

    return {
        "Foretide, queued": lambda: quantiles(
            lambda started_s, end, over: ours(
                spark, {"trace": trace, "started_at": started_s}, EngineSettings(first_rows=100_000), end, over
            )
        ),
        "Parquet between": lambda: quantiles(
            lambda started_s, end, over: by_hand(spark, lambda path: even(path, started_s), end, over)
        ),
    }


def main() -> None:
    options = parse_options(__doc__, repeats=5)
    full = (1_000_000, 50_000, 20.0)
    total, rows, seconds = options.size(full, quick=(60_000, 20_000, 5.0), smoke=(2_000, 1_000, 0.5))
    progress(f"queued edges: {total:,} events in batches of {rows:,}, then {RATE:,} events/s for {seconds:.0f} s")
    turns = kept_turns("queued_edges", options)
    spark = open_session()
    with scratch() as path:
        rates = alternate(
            throughput(spark, constant_trace(path, total / 10, 10), total, rows),
            options.repeats,
            warm_up=options.warm_up,
            show=lambda rate: f"{rate:,.0f} events/s",
            turns=turns,
            part="throughput",
            settings={"total": total, "rows": rows},
        )
        waits = alternate(
            latency(spark, constant_trace(path, RATE, 600), seconds),
            options.repeats,
            warm_up=0,
            show=lambda part: ", ".join(f"{name} {1e3 * value:.0f} ms" for name, value in part.items()),
            turns=turns,
            part="latency",
            settings={"rate": RATE, "seconds": seconds, "warm": WARM},
        )
    spark.stop()
    names = ("Foretide, queued", "Parquet between")
    p50 = between(*([part["p50"] for part in waits[name]] for name in names))
    against = "Spark's Parquet sink and file source between the same queries"
    lines = [
        Measured("throughput with queued edges", against, "at least", 1.5, between(*(rates[name] for name in names))),
        Measured("latency with queued edges, p50", against, "at most", 0.6, p50),
    ]
    details = {"total": total, "rows": rows, "rate": RATE, "events_per_s": rates, "latency_s": waits}
    intro = f"{OF_TURNS} {provenance(turns.rows)}"
    report("queued_edges", "Queued edges", lines, details, options, intro=intro)


if __name__ == "__main__":
    main()
