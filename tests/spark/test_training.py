"""The training pipeline: its steps on small data by hand, then whole trainings, resumed ones too."""

from __future__ import annotations

import importlib.util
import math
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession

from foretide.errors import ConfigError, ForecastError
from foretide.forecast.training.model_store import ModelStore
from foretide.forecast.training.trainer import TrainerOptions
from foretide.spark.training.frames import (
    HistorySpec,
    Problem,
    bin_values,
    check_rows,
    count_problems,
    fill_gaps,
    find_bin_s,
    mark_problems,
    pack,
    prepare,
    read_history,
)
from foretide.spark.training.training import TrainingJob, TrainingReport, slot_keys, train_models
from foretide.spark.training.windows import cut_windows, scale, split

pytestmark = pytest.mark.spark

NAN = math.nan


class Watcher:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.began: tuple[int, int] | None = None
        self.finished: list[int] = []

    def say(self, words: str) -> None:
        pass

    def begin(self, pairs: int, kept: int) -> None:
        self.began = (pairs, kept)

    def advance(self, finished: int) -> None:
        self.finished.append(finished)


def rows_of(frame: DataFrame, *order: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.orderBy(*order).collect()]


def write_csv(path: Path, lines: Sequence[str]) -> str:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def waves(series: int, points: int) -> list[str]:
    """Return the lines of a CSV with so many noisy waves, a value every 5 s."""
    draw = np.random.default_rng(7)
    lines = ["series,time,value"]
    for number in range(series):
        rates = 100 + 40 * np.sin(np.arange(points) / (4 + number % 5)) + draw.normal(0, 3, points)
        lines += [f"s{number:02d},{5 * place},{rate:.3f}" for place, rate in enumerate(rates)]
    return lines


def trained(spark: SparkSession, job: TrainingJob) -> tuple[TrainingReport, Watcher]:
    watcher = Watcher()
    return train_models(spark, job, watcher), watcher


def versions(store: ModelStore) -> dict[tuple[str, str], tuple[int, str]]:
    return {(each.card.series, each.card.model): (each.version, each.card.trained_at) for each in store.list()}


def test_a_csv_is_read_by_the_names_of_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "load.csv", ["host,at,rate", "web,0,1.5", "api,0,2"])
    frame = read_history(spark, HistorySpec(path=path, series="host", time="at", value="rate"))
    assert rows_of(frame.select("series", "time", "value"), "series") == [("api", "0", "2"), ("web", "0", "1.5")]


def test_a_csv_without_a_series_column_is_one_series(spark: SparkSession, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "load.csv", ["time,value", "0,1"])
    assert rows_of(read_history(spark, HistorySpec(path=path)).select("series"), "series") == [("load",)]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"path": "nowhere.csv"}, "nowhere.csv', which is not there"),
        ({"value": "rate"}, "setting 'value': expected one of the columns time, value, got rate"),
        ({"series": "host"}, "setting 'series': expected one of the columns time, value, got host"),
        ({"path": "empty.csv"}, "empty file"),
        ({"format": "parquet"}, "parquet files that Spark can read"),
    ],
)
def test_a_history_that_cannot_be_read_is_explained(
    spark: SparkSession, tmp_path: Path, spec: Mapping[str, Any], said: str
) -> None:
    write_csv(tmp_path / "load.csv", ["time,value", "0,1"])
    (tmp_path / "empty.csv").touch()
    path = str(tmp_path / spec.get("path", "load.csv"))
    with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
        read_history(spark, HistorySpec(**{**spec, "path": path}))


BAD = [
    "series,time,value",
    "web,0,10",
    "web,5,",  # missing
    "web,soon,10",  # not a time
    "web,10,many",  # not a number
    "web,15,NaN",  # not a number
    "web,20,-1",  # negative
    "web,25,30",
    "web,25,40",  # duplicate time
    "web,35,50",
    "web,30,45",  # time going backwards, but usable
    ",40,1",  # missing
]


def test_bad_rows_are_counted_with_an_example(spark: SparkSession, tmp_path: Path) -> None:
    marked = mark_problems(read_history(spark, HistorySpec(path=write_csv(tmp_path / "bad.csv", BAD))))
    problems, good = count_problems(marked)
    assert {name: problem.rows for name, problem in problems.items()} == {
        "missing": 2,
        "not a time": 1,
        "not a number": 2,
        "negative": 1,
        "duplicate time": 1,
        "time going backwards": 1,
    }
    assert problems["not a number"].example == "series web, time 10, value many"
    assert good == 4
    left = rows_of(marked.where("problem IS NULL").select("time_s", "value"), "time_s")
    assert left == [(0.0, 10.0), (25.0, 30.0), (30.0, 45.0), (35.0, 50.0)]


def test_dates_are_seconds_since_the_epoch(spark: SparkSession, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "dates.csv", ["time,value", "1970-01-01 00:01:00,1", "1970-01-02T00:00:00Z,2"])
    marked = mark_problems(read_history(spark, HistorySpec(path=path)))
    assert rows_of(marked.select("time_s"), "time_s") == [(60.0,), (86400.0,)]


def test_strict_histories_have_no_bad_rows() -> None:
    spec = HistorySpec(path="bad.csv", strict=True)
    with pytest.raises(ForecastError, match=r"bad\.csv: expected no bad rows, got 2 rows: missing \(first: series web"):
        check_rows(spec, {"missing": Problem(2, "series web")}, 10)


@pytest.mark.parametrize(
    ("problems", "said"), [({"not a number": Problem(2, "x")}, "got 2 rows: not a number"), ({}, "got no rows at all")]
)
def test_a_history_without_numbers_is_an_error(problems: Mapping[str, Problem], said: str) -> None:
    with pytest.raises(ForecastError, match=f"expected numbers in column 'value', {said}"):
        check_rows(HistorySpec(path="words.csv"), problems, 0)


def test_a_time_that_is_far_off_is_an_error_rather_than_a_huge_grid(spark: SparkSession, tmp_path: Path) -> None:
    lines = ["time,value", "0,1", "1,1", "2,1", "99000000000,1"]
    with pytest.raises(ConfigError, match=r"99,000,000,001 of series 'far' with bins of 1 s"):
        prepare(spark, HistorySpec(path=write_csv(tmp_path / "far.csv", lines)))


def test_the_bin_is_the_usual_step_where_none_is_given(spark: SparkSession) -> None:
    rows = [("a", 0.0), ("a", 5.0), ("a", 10.0), ("a", 90.0), ("b", 2.0), ("b", 7.0), ("c", 1.0)]
    frame = spark.createDataFrame(rows, "series string, time_s double")
    assert find_bin_s(frame) == 5.0
    assert find_bin_s(frame, 2.5) == 2.5
    with pytest.raises(ConfigError, match="since no series has two rows"):
        find_bin_s(frame.where("series = 'c'"))


@pytest.mark.parametrize(("aggregate", "value"), [("mean", 3.0), ("sum", 6.0), ("max", 4.0)])
def test_values_of_one_bin_become_one(spark: SparkSession, aggregate: str, value: float) -> None:
    rows = spark.createDataFrame(
        [("a", 0.3, 2.0), ("a", 0.39, 4.0), ("a", 0.9, 7.0)], "series string, time_s double, value double"
    )
    assert rows_of(bin_values(rows, 0.1, aggregate), "bin") == [("a", 3, value), ("a", 9, 7.0)]


def test_short_gaps_are_filled_by_a_line_and_long_ones_stay(spark: SparkSession) -> None:
    binned = spark.createDataFrame(
        [("a", 3, 10.0), ("a", 6, 40.0), ("a", 10, 0.0), ("b", 1, 1.0)], "series string, bin long, value double"
    )
    found = rows_of(fill_gaps(binned, limit=2), "series", "bin")
    assert [(row[1], row[3]) for row in found[:8]] == [
        (3, True), (4, False), (5, False), (6, True), (7, False), (8, False), (9, False), (10, True),
    ]  # fmt: skip
    assert [row[2] for row in found[:4]] == [10.0, 20.0, 30.0, 40.0]
    assert all(math.isnan(row[2]) for row in found[4:7])
    assert found[7:] == [("a", 10, 0.0, True), ("b", 1, 1.0, True)]


def test_a_series_is_packed_in_order_of_time(spark: SparkSession) -> None:
    rows = [("a", 5, 3.0, True), ("a", 4, NAN, False), ("a", 3, 1.0, True)]
    filled = spark.createDataFrame(rows, "series string, bin long, value double, measured boolean")
    row = pack(filled).first()
    assert row is not None
    assert (row["first_bin"], row["measured"]) == (3, [True, False, True])
    assert row["values"][0] == 1.0 and math.isnan(row["values"][1]) and row["values"][2] == 3.0


def test_b1_the_range_is_that_of_the_training_part(spark: SparkSession) -> None:
    rows = [("a", 10 + place, value, True) for place, value in enumerate([2.0, 6.0, 4.0, 10.0])]
    rows += [("flat", place, 3.0 + place // 3, True) for place in range(4)]
    filled = spark.createDataFrame(rows, "series string, bin long, value double, measured boolean")
    found = scale(split(filled, validation=0.25)).select("place", "boundary", "low", "high", "scaled")
    assert rows_of(found.where("high = 6"), "place") == [
        (0, 3, 2.0, 6.0, 0.0), (1, 3, 2.0, 6.0, 1.0), (2, 3, 2.0, 6.0, 0.5), (3, 3, 2.0, 6.0, 2.0),
    ]  # fmt: skip
    assert [row[4] for row in rows_of(found.where("high = 3"), "place")] == [0.0, 0.0, 0.0, 1.0]


def test_b1_windows_are_whole_and_on_one_side_of_the_boundary(spark: SparkSession) -> None:
    values = [0.0, 1.0, 2.0, 3.0, NAN, 5.0, 6.0, 7.0, 8.0]
    rows = [
        ("a", 20 + place, value, place, 6, value, place not in (2, 4), 0.0, 1.0) for place, value in enumerate(values)
    ]
    scaled = spark.createDataFrame(
        rows,
        "series string, bin long, value double, place long, boundary long, scaled double, measured boolean, "
        "low double, high double",
    )
    found = cut_windows(scaled, window=2, horizon=1).select("part", "origin", "inputs", "targets")
    # Bin 22 was filled in: it may be an input, but is no target; bin 24 is a gap and neither.
    assert rows_of(found, "origin") == [
        ("train", 22, [1.0, 2.0], [3.0]),
        ("validation", 26, [5.0, 6.0], [7.0]),
        ("validation", 27, [6.0, 7.0], [8.0]),
    ]


def test_every_slot_gets_a_task_of_its_own(spark: SparkSession) -> None:
    keys = slot_keys(spark, 13)
    rows = spark.createDataFrame([(key,) for key in keys], "slot long").repartition(13, "slot")
    assert rows.rdd.glom().map(len).collect() == [1] * 13


def test_parquet_trains_like_csv(spark: SparkSession, tmp_path: Path) -> None:
    table = pd.read_csv(write_csv(tmp_path / "load.csv", waves(1, 60)))
    table["time"] += 1_700_000_000
    table.to_csv(tmp_path / "load.csv", index=False)
    table["time"] = pd.to_datetime(table["time"], unit="s", utc=True)
    table.to_parquet(tmp_path / "load.parquet")
    models: dict[str, dict[str, Any]] = {"lr": {}}
    for name in ("load.csv", "load.parquet"):
        job = TrainingJob(HistorySpec(path=str(tmp_path / name)), models, str(tmp_path / name[5:]))
        trained(spark, job)
    csv, parquet = (ModelStore(tmp_path / name).latest("s00", "lr") for name in ("csv", "parquet"))
    assert csv is not None and parquet is not None
    assert csv.card.fingerprint == parquet.card.fingerprint
    assert csv.card.metrics["rmse"] == parquet.card.metrics["rmse"]


def test_many_series_and_models_train_and_are_not_trained_again(spark: SparkSession, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "load.csv", waves(6, 80))
    options = TrainerOptions(horizon=3)
    job = TrainingJob(
        HistorySpec(path=path), {"basic": {}, "lr": {"window": 20}}, str(tmp_path / "models"), options, wave=5
    )
    report, watcher = trained(spark, job)
    assert report.counts() == {"trained": 12}
    assert (report.series, report.values, report.missing, report.bin_s) == (6, 480, 0, 5.0)
    assert watcher.began == (12, 0)
    assert watcher.finished == sorted(watcher.finished) and {5, 10, 12} <= set(watcher.finished)
    store = ModelStore(tmp_path / "models")
    before = versions(store)
    assert len(before) == 12 and {version for version, _ in before.values()} == {1}
    model = store.latest("s03", "lr")
    assert model is not None
    assert model.load().predict(3).made_at_s == 80 * 5.0
    assert model.card.training == {"horizon": 3, "validation": 0.2, "origins": 200, "refit": False}
    assert model.card.metrics["rmse"] == next(
        r.metrics["rmse"] for r in report.results if (r.series, r.model) == ("s03", "lr")
    )

    report, watcher = trained(spark, job)
    assert report.counts() == {"kept": 12} and watcher.began == (12, 12)
    assert versions(store) == before

    # Another setting trains one model anew, new data one series.
    with Path(path).open("a", encoding="utf-8") as file:
        file.write("s05,400,100\n")
    other = TrainingJob(HistorySpec(path=path), {"basic": {}, "lr": {"window": 30}}, str(tmp_path / "models"), options)
    report, _ = trained(spark, other)
    assert report.counts() == {"kept": 5, "trained": 7}
    assert {pair for pair, now in versions(store).items() if now != before[pair]} == {
        *((f"s{n:02d}", "lr") for n in range(6)),
        ("s05", "basic"),
    }


def test_a_series_that_cannot_be_trained_on_fails_alone(spark: SparkSession, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "load.csv", [*waves(1, 40), "short,0,1"])
    report, _ = trained(spark, TrainingJob(HistorySpec(path=path), {"basic": {}}, str(tmp_path / "models")))
    assert [(result.series, result.status) for result in report.results] == [("s00", "trained"), ("short", "failed")]
    assert "expected values before and after place 0" in report.results[1].error
    assert ModelStore(tmp_path / "models").latest("short", "basic") is None


def test_the_training_set_can_be_kept(spark: SparkSession, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "load.csv", waves(2, 50))
    job = TrainingJob(
        HistorySpec(path=path), {"basic": {}}, str(tmp_path / "models"), windows_out=str(tmp_path / "set"), window=8
    )
    trained(spark, job)
    windows = pd.read_parquet(tmp_path / "set")
    # 50 values, 40 of them for training: 40 - 8 - 6 + 1 windows there, 10 - 6 + 1 whose targets are in the last 10.
    assert windows.groupby(["series", "part"]).size().to_dict() == {
        (f"s0{n}", part): count for n in range(2) for part, count in (("train", 27), ("validation", 5))
    }
    early = np.stack(windows.loc[windows.part == "train", "inputs"])
    assert early.min() == 0.0 and early.max() <= 1.0


def test_unknown_models_are_refused_before_anything_is_read(spark: SparkSession, tmp_path: Path) -> None:
    job = TrainingJob(HistorySpec(path=str(tmp_path / "none.csv")), {"rigde": {}}, str(tmp_path / "models"))
    with pytest.raises(ConfigError, match="got 'rigde'"):
        trained(spark, job)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs the extra 'deep'")
def test_networks_train_in_forked_workers(spark: SparkSession, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "load.csv", waves(2, 120))
    tiny = {"hidden": 4, "epochs": 3, "seeds": 1, "window": 8, "frame": 2}
    job = TrainingJob(
        HistorySpec(path=path), {"bigru": tiny}, str(tmp_path / "models"), TrainerOptions(horizon=2), wave=2
    )
    report, _ = trained(spark, job)
    assert report.counts() == {"trained": 2}, [result.error for result in report.results]
    stored = ModelStore(tmp_path / "models").latest("s01", "bigru")
    assert stored is not None
    assert "jax" in stored.card.libraries and stored.card.settings["steps"] == 2
    assert stored.load().predict(2).mean.shape == (2,)


KILLED = """
import os, signal, sys

from foretide.forecast.training.trainer import TrainerOptions
from foretide.spark.training.frames import HistorySpec
from foretide.spark.session.builder import create_session
from foretide.spark.training.training import TrainingJob, train_models


class Killer:
    def say(self, words):
        pass

    def begin(self, pairs, kept):
        pass

    def advance(self, finished):
        if finished >= 4:
            os.kill(os.getpid(), signal.SIGKILL)


spark = create_session("local[2]", settings={"spark.sql.shuffle.partitions": "2"})
train_models(spark, TrainingJob(HistorySpec(path=sys.argv[1]), {"basic": {}, "lr": {}}, sys.argv[2], wave=4), Killer())
"""


@pytest.mark.slow
def test_a_killed_training_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    path, store = write_csv(tmp_path / "load.csv", waves(5, 60)), ModelStore(tmp_path / "models")
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, path, str(store.directory)], stderr=subprocess.DEVNULL, timeout=300
    )
    assert ended.returncode == -signal.SIGKILL
    done = versions(store)
    assert 4 <= len(done) < 10
    report, watcher = trained(spark, TrainingJob(HistorySpec(path=path), {"basic": {}, "lr": {}}, str(store.directory)))
    assert watcher.began == (10, len(done))
    assert report.counts() == {"kept": len(done), "trained": 10 - len(done)}
    after = versions(store)
    assert {pair: after[pair] for pair in done} == done
    assert {version for version, _ in after.values()} == {1}
