"""What benchmarks compare with does the same work: the jobs that are written by hand give what ours give."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pandas as pd
import pytest
from benchmark_modules import benchmark_module
from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROWS, BATCHES = 750, 4


@pytest.fixture(scope="module")
def nexmark() -> ModuleType:
    return benchmark_module("nexmark_throughput")


def collected(spark: SparkSession, nexmark: ModuleType, name: str) -> pd.DataFrame:
    """Run a query by hand on some batches, and return its results."""
    found: list[pd.DataFrame] = []

    def work(results: DataFrame) -> int:
        found.append(results.toPandas())
        return ROWS

    nexmark.run_by_hand(
        spark,
        {"rowsPerBatch": ROWS, "numPartitions": 2},
        work,
        until=lambda done: len(done.rows) >= BATCHES,
        query_of=lambda frame: nexmark.BY_HAND[name](nexmark.numbers_of(frame)),
        mode=nexmark.mode_of(name),
    )
    return pd.concat(found[:BATCHES], ignore_index=True)


def flat(found: pd.DataFrame) -> pd.DataFrame:
    """Return results with windows as their starts and ends."""
    for name in ("window", "session_window"):
        if name in found:
            times = pd.DataFrame(found.pop(name).tolist(), index=found.index)
            found = found.join(times.apply(pd.to_datetime))
    return found


def of_time_zone(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with plain instants, as Spark gives them in a session whose time is UTC."""
    timed = [column for column in frame if isinstance(frame[column].dtype, pd.DatetimeTZDtype)]
    return frame.assign(**{column: frame[column].dt.tz_localize(None) for column in timed})


@pytest.mark.parametrize("name", ["q3", "q5", "q7", "q8", "q11"])
def test_a_query_by_hand_gives_what_a_batch_computation_gives(
    spark: SparkSession, nexmark: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from nexmark_batch import Batch

    events = nexmark.generator.Nexmark(seed=7, events_per_s=60)
    monkeypatch.setattr(nexmark, "EVENTS", events)
    found = flat(collected(spark, nexmark, name))
    batch = Batch(events, ROWS * BATCHES)
    # Windows are closed by the time of all batches before the last.
    batch.now = Batch(events, ROWS * (BATCHES - 1)).now
    expected: Any = getattr(batch, name)()
    columns = list(expected.columns)
    assert set(columns) <= set(found.columns) and len(expected) > 1
    found, expected = (
        of_time_zone(one)[columns].sort_values(columns).reset_index(drop=True) for one in (found, expected)
    )
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)


def test_bids_of_processing_time_are_all_counted_by_hand(spark: SparkSession, nexmark: ModuleType) -> None:
    from nexmark_batch import Batch

    found = flat(collected(spark, nexmark, "q12"))
    counted = found.drop_duplicates(["bidder", "start"], keep="last").groupby("bidder")["bids"].sum()
    expected = Batch(nexmark.EVENTS, ROWS * BATCHES).bids.groupby("bidder").size()
    pd.testing.assert_series_equal(counted, expected, check_dtype=False, check_names=False)
