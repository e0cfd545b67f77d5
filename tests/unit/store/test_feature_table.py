"""Recorded features as a table: what `foretide runs export --features` writes (SPEC I3)."""

from __future__ import annotations

import csv
import io
import math

import pyarrow.parquet as pq

from foretide.store import FeatureSample
from foretide.store.feature_table import feature_table, to_csv, to_parquet

SAMPLES = [
    FeatureSample.of(5.0, "worker", "executor-1", "host", {"cpu": 40.0, "gc_rate": math.nan}),
    FeatureSample.of(5.0, "machine", "host", "host", {"cpu": 75.5, "load1": 0.5}),
]


def test_i3_a_row_is_a_worker_or_a_machine_at_an_instant() -> None:
    assert feature_table(SAMPLES) == {
        "at_s": [5.0, 5.0],
        "level": ["worker", "machine"],
        "owner": ["executor-1", "host"],
        "machine": ["host", "host"],
        "cpu": [40.0, 75.5],
        "gc_rate": [None, None],
        "load1": [None, 0.5],
    }


def test_i3_a_table_is_the_same_as_csv_and_as_parquet() -> None:
    table = feature_table(SAMPLES)
    assert pq.read_table(io.BytesIO(to_parquet(table))).to_pydict() == table
    first, second = csv.DictReader(io.StringIO(to_csv(table)))
    assert (first["cpu"], first["gc_rate"], first["load1"]) == ("40.0", "", "")
    assert (second["level"], second["load1"]) == ("machine", "0.5")
