# ruff: noqa: N802, N803 - Spark's names
"""States in other partitions: runs go on exactly, whether Foretide keeps the state or Spark does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from typer.testing import CliRunner
from waiting import wait_for

from foretide.cli import app
from foretide.errors import ConfigError
from foretide.spark import EngineSettings, start
from foretide.spark.driver import repartition
from foretide.spark.errors import CheckpointError
from foretide.topology import Topology, flow
from foretide.traces import Replay, load_trace, payload

pytestmark = pytest.mark.spark

SMALL = EngineSettings(first_rows=300, max_rows=300)
Write = Callable[..., str]


def by_key(rows: pd.DataFrame, state: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    total = state["n"].fillna(0).astype("int64").add(rows.groupby("key").size(), fill_value=0).astype("int64")
    return total.rename("n").rename_axis("key").reset_index(), pd.DataFrame({"n": total})


class BySpark(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getValueState("n", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        [before] = self.state.get() if self.state.exists() else (0,)
        total = before + sum(map(len, rows))
        self.state.update((total,))
        yield pd.DataFrame({"key": [key[0]], "n": [total]})

    def close(self) -> None: ...


OURS: dict[str, Any] = {"function": by_key, "mode": "pandas", "key": "key", "state": "n long"}
SPARKS: dict[str, Any] = {"function": BySpark(), "key": "key"}


def counting(trace: str, declared: dict[str, Any], partitions: int) -> Topology:
    job = flow("counting")
    job.source("in", "trace", trace=trace, until="all").operator(
        "count", **declared, schema="key string, n long", replicas=(1, 4, 2), state_partitions=partitions
    ).sink("out", "memory")
    return job.build()


@pytest.mark.parametrize("declared", [OURS, SPARKS], ids=["ours", "Spark's"])
def test_a_run_goes_on_exactly_with_another_number_of_partitions(
    spark: SparkSession,
    tmp_path: Path,
    write_trace: Write,
    monkeypatch: pytest.MonkeyPatch,
    declared: dict[str, Any],
) -> None:
    # The command starts a session of its own; here it finds that of the tests.
    monkeypatch.setattr(SparkSession, "stop", lambda session: None)
    trace, root, found = write_trace(*[400] * 4), tmp_path / "run", list[pd.DataFrame]()

    def told(partitions: int) -> str:
        result = CliRunner().invoke(app, ["repartition", str(root), "--partitions", str(partitions)])
        return " ".join(result.output.split())

    with start(counting(trace, declared, 4), spark, root, SMALL) as running:
        wait_for(lambda: len(running.batches()) >= 2, check=running.check)
        assert "expected a run that has ended, got one that is under way" in told(3)
        running.drain()
        found.append(running.sink("out").table().to_pandas())
    if declared is SPARKS:
        with monkeypatch.context() as broken:
            digests = iter([{(0, "default"): (1, "2")}, {}])
            broken.setattr(repartition, "_digests", lambda *arguments: next(digests))
            assert "expected the state as it was" in told(3)
    assert told(3).startswith("count: 4 partitions became 3, with")
    with pytest.raises(
        ConfigError, match=r"as its state has, 3, got 4; .*foretide repartition \S+ count --partitions 4"
    ):
        start(counting(trace, declared, 4), spark, root, SMALL)
    with start(counting(trace, declared, 3), spark, root, SMALL) as running:
        running.change_replicas({"count": 3})
        running.wait()
        found.append(running.sink("out").table().to_pandas())
    replay = Replay(load_trace(trace), payload("words"), 0)
    expected = Counter(key for batch in replay.events(0, replay.total_events, 0) for key in batch["key"].to_pylist())
    assert found[0]["n"].sum() > 0
    assert pd.concat(found).groupby("key")["n"].max().to_dict() == expected
    assert told(3).startswith("count has 3 partitions already, with")


def test_a_batch_that_was_cut_short_is_named(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = tmp_path / "stages" / "in" / "checkpoint"
    for log, batches in {"offsets": "01", "commits": "0"}.items():
        (checkpoint / log).mkdir(parents=True)
        for batch in batches:
            (checkpoint / log / batch).write_text('v1\n{"conf": {"spark.sql.shuffle.partitions": "4"}}\n{}')
    with pytest.raises(CheckpointError, match="a run whose last batch is done, got one that was cut short; run it on"):
        repartition.repartition_checkpoint(spark, repartition.Workspace(tmp_path), "in", "count", 3)
