"""The papers' applications on Spark: what their sinks hold is exactly what a batch computation gives."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from foretide.apps import APPS, SINK, App, find_app
from foretide.apps.url_count import REQUESTS
from foretide.spark import EngineSettings, RunningTopology, start

pytestmark = pytest.mark.spark

# Several batches for each, and no workers but those that two cores need.
SETTINGS = EngineSettings(first_rows=500, max_rows=500, warm_pool=False)
# What makes the short run of a test tell as much as a long one; waits are short, or there are none.
OPTIONS: dict[str, dict[str, Any]] = {
    "twitter-classification": {"lookup_ms": 0.1, "store": "out.db"},
    # Twelve windows, most of which are over before the last batch.
    "twitter-complex": {"lookup_ms": 0.1, "speed": 0.2, "trend_s": 1, "started_at": 1_700_000_000},
    "dns": {"store": "rows"},
    "url-count": {"window_s": 2, "slide_s": 1},
    "continuous-queries": {"scan_ms": 0.1},
    "dabs-insensitive": {"work_ms": 0.1, "values": "zipf"},
    "dabs-sensitive": {"work_ms": 0.1, "values": "zipf"},
    "dabs-complex": {"work_ms": 0.1, "values": "zipf"},
}


def options_of(name: str, trace: str, folder: Path) -> dict[str, Any]:
    given = {"trace": trace, "rate_scale": 1.0, "until": "all", "seed": 5, "store": "memory", **OPTIONS.get(name, {})}
    store = given["store"]
    return given | ({} if store == "memory" else {"store": str(folder / store)})


def run(app: App[Any], options: dict[str, Any], spark: SparkSession, path: Path) -> RunningTopology:
    with start(app.build(options), spark, path, SETTINGS) as running:
        running.change_replicas({app.build(options).operators[0].id: 2})
        running.wait()
    return running


def stored(running: RunningTopology, store: str, sink: str = SINK) -> pa.Table:
    """Return what is in the sink, wherever that is."""
    if store == "memory":
        return running.sink(sink).table()
    if not store.endswith(".db"):
        return pa.concat_tables(pq.read_table(file) for file in sorted(Path(store).rglob("*.parquet")))
    with closing(sqlite3.connect(store)) as database:
        found = database.execute(f"SELECT * FROM {SINK}")
        names = [column[0] for column in found.description]
        return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in found])


@pytest.mark.parametrize("name", APPS)
def test_the_sink_holds_exactly_what_is_expected(
    name: str, spark: SparkSession, tmp_path: Path, write_trace: Callable[..., str]
) -> None:
    app = find_app(name)
    options = options_of(name, write_trace(700, 500), tmp_path)
    running = run(app, options, spark, tmp_path / "run")
    for sink in app.outputs:
        expected = app.expected(options, sink=sink)
        assert len(expected) > 20
        assert app.results(stored(running, options["store"], sink), sink) == expected
    assert running.totals().batches >= 3
    assert running.dead_letters.end_offset() == 0


def test_recorded_request_lines_are_counted_and_others_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    app, lines = find_app("url-count"), tmp_path / "lines"
    lines.mkdir()
    events = pa.Table.from_batches([REQUESTS(np.arange(600), seed=9)])
    texts = events["text"].to_pylist()
    (lines / "one.log").write_text("\n".join([*texts[:250], "no request at all", *texts[250:]]) + "\n")
    options = {"lines": str(lines), "window_s": 2, "slide_s": 1, "store": "memory"}
    running = run(app, options, spark, tmp_path / "run")
    assert app.results(running.sink(SINK).table()) == app.expected(options, events)
    log = running.dead_letters
    [letter] = [
        row for part in log.segments(0, log.end_offset()) for rows in log.read(part) for row in rows.to_pylist()
    ]
    assert (letter["operator"], json.loads(letter["event"])["value"]) == ("extract", "no request at all")
