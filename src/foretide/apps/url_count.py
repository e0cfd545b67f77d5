"""Windowed URL count (SPEC I7): how often each URL was requested in the past two minutes.

As in [IDRNN]_: one operator extracts time and URL from a request line, one counts within ticks of 500 ms, one merges
the counts of all replicas into those of a window. Time is that of the lines, so a replay counts the same at any speed.
The merging operator keeps state, and Spark keeps that for it.

The paper replays requests to Wikipedia. Lines of that form are generated here, 500 per second of their own time; the
option ``lines`` reads recorded ones from a directory of text files instead.

    foretide run url-count
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field

from foretide import Topology, flow
from foretide.apps.base import App, AppOptions, Rows, rate_field, store_field, trace_field
from foretide.topology import Flow, Stream
from foretide.traces import Payload
from foretide.traces.hashing import draw, pick
from foretide.traces.parts import choose, join, zipf
from foretide.traces.vocabulary import WORDS

__all__ = ["APP", "REQUESTS", "TICK_MS", "Options", "count_ticks", "extract", "merge_counts"]

#: A partial count goes out for every tick.
TICK_MS = 500

_FIRST_MS = 1_190_146_243_000
_SPACING_MS = 2
_JITTER_MS = 700
_LINE = r"^\d+ (?P<seconds>\d+)\.(?P<ms>\d{3}) (?P<url>\S+) \S+$"
_TIME = pa.timestamp("us", tz="UTC")


class Options(AppOptions):
    """Options of the windowed URL count."""

    PAYLOAD: ClassVar[str] = f"{__name__}:REQUESTS"

    trace: str = trace_field("pasps_logs")
    rate_scale: float = rate_field(0.02)
    store: str = store_field("out/url-count.db")
    window_s: int = Field(default=120, ge=1, le=86_400, description="Seconds that a window covers.")
    slide_s: int = Field(default=30, ge=1, le=86_400, description="Seconds from one window to the next.")
    lateness_s: int = Field(default=60, ge=1, le=86_400, description="Seconds that a line may come late.")
    lines: str = Field(default="", description="A directory of recorded request lines, instead of generated ones.")


def _requests(ids: NDArray[np.int64], seed: int) -> list[pa.Array]:
    # A server logs a request when it is answered, so times are not quite in order.
    at_ms = _FIRST_MS + ids * _SPACING_MS + pick(draw(ids, seed, 0), _JITTER_MS)
    seconds, ms = (pa.array(part).cast(pa.string()) for part in np.divmod(at_ms, 1000))
    times = join(seconds, pc.utf8_lpad(ms, 3, "0"), separator=".")
    hosts = choose(("http://en", "http://en", "http://es", "http://ja"), pick(draw(ids, seed, 1), 4))
    pages = choose(WORDS, zipf(draw(ids, seed, 2), len(WORDS)))
    urls = join(hosts, pages, separator=".wiki.example/")
    flags = choose(("-",) * 15 + ("save",), pick(draw(ids, seed, 3), 16))
    return [join(pa.array(ids).cast(pa.string()), times, urls, flags)]


#: A request line: its number, its time in seconds since the epoch, the URL, and whether it stored something.
REQUESTS = Payload("requests", pa.schema([("id", pa.int64()), ("text", pa.string())]), _requests)


def extract(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return time and URL of every request line.

    Raises
    ------
    ValueError
        When a line is not one; the engine then makes it a dead letter and continues with the others.
    """
    lines = batch["text" if "text" in batch.schema.names else "value"]
    parts = pc.extract_regex(lines, pattern=_LINE)
    if parts.null_count:
        raise ValueError(f"not a request line: {lines.filter(parts.is_null())[0].as_py()!r}")
    seconds, ms, url = parts.flatten()
    at_ms = pc.add(pc.multiply(seconds.cast(pa.int64()), 1000), ms.cast(pa.int64()))
    time = pc.multiply(at_ms, 1000).cast(_TIME)
    return pa.RecordBatch.from_arrays([time, url, batch["event_time"]], names=["time", "url", "event_time"])


def count_ticks(batch: pa.RecordBatch) -> pa.Table:
    """Return how often each URL comes in each tick, in this piece of the stream."""
    us = TICK_MS * 1000
    ticks = pc.multiply(pc.divide(batch["time"].cast(pa.int64()), us), us).cast(_TIME)
    table = pa.table({"time": ticks, "url": batch["url"], "event_time": batch["event_time"]})
    counted = table.group_by(["time", "url"]).aggregate([([], "count_all"), ("event_time", "max")])
    return counted.rename_columns(["time", "url", "count", "event_time"])


def merge_counts(partials: Any, window_s: int, slide_s: int, lateness_s: int) -> Any:
    """Return the counts of every window and URL that a batch changed: a DataFrame from a DataFrame."""
    window = f"window(time, '{window_s} seconds', '{slide_s} seconds')"
    query = f"""
        SELECT unix_timestamp({window}.start) AS window_s, url, sum(count) AS count, max(event_time) AS event_time
        FROM {{partials}} GROUP BY {window}, url
    """
    late = partials.withWatermark("time", f"{lateness_s} seconds")
    return partials.sparkSession.sql(query, partials=late)


def declare(options: Options) -> Topology:
    """Return the topology: extract, partial, merge."""
    job = flow("url-count")
    windows = -(-options.window_s // options.slide_s)
    merge = partial(merge_counts, window_s=options.window_s, slide_s=options.slide_s, lateness_s=options.lateness_s)
    return options.sink(
        _source(job, options)
        .operator(
            "extract",
            extract,
            mode="arrow",
            grouping="dynamic" if not options.lines else "shuffle",
            schema="time timestamp, url string",
            execution_s=0.00001,
            selectivity=1.0,
            replicas=(1, 5),
        )
        .operator(
            "partial",
            count_ticks,
            mode="arrow",
            grouping="dynamic",
            schema="time timestamp, url string, count long",
            execution_s=0.00001,
            selectivity=0.6,
            replicas=(1, 6),
        )
        .operator(
            "merge",
            merge,
            mode="dataframe",
            stateful=True,
            grouping="fields:url",
            queued=True,
            output_mode="update",
            execution_s=0.00005 * windows,
            selectivity=float(windows),
            replicas=(1, 4),
        )
    )


def _source(job: Flow, options: Options) -> Stream:
    if options.lines:
        return job.source("requests", "files", path=options.lines, format="text")
    return options.source(job, "requests")


def compute(events: pa.Table, options: Options) -> Rows:
    """Count line by line, in each window that a request falls into."""
    counts: Counter[tuple[int, str]] = Counter()
    for text in events["text"].to_pylist():
        _, time, url, _ = text.split(" ")
        last = int(float(time)) // options.slide_s * options.slide_s
        for start in range(last, int(float(time)) - options.window_s, -options.slide_s):
            counts[start, url] += 1
    return [(start, url, count) for (start, url), count in counts.items()]


def settle(rows: Rows) -> Rows:
    """Return the last count of each window and URL: the highest, since counts only grow."""
    latest: dict[tuple[int, str], int] = {}
    for start, url, count in rows:
        latest[start, url] = max(count, latest.get((start, url), 0))
    return [(start, url, count) for (start, url), count in latest.items()]


APP = App(
    name="url-count",
    summary="requests per URL in the past two minutes: partial counts every 500 ms, merged in a window",
    spec=("I7",),
    columns=("window_s", "url", "count"),
    options=Options,
    declare=declare,
    compute=compute,
    settle=settle,
)
