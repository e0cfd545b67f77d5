"""Training of many models on many series side by side: one task per series and model, in waves, resumable."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from foretide.errors import ConfigError, ForecastError
from foretide.forecast import Forecaster, Series
from foretide.forecast.training.model_card import fingerprint, settings_key
from foretide.forecast.training.model_store import ModelStore
from foretide.forecast.training.trainer import (
    METRICS,
    PairResult,
    TrainerOptions,
    single_threaded,
    train_model,
    training_forecaster,
)
from foretide.spark.training.frames import HistorySpec, Prepared, Problem, prepare
from foretide.spark.training.windows import training_set

__all__ = ["Observer", "TrainingJob", "TrainingReport", "slot_keys", "train_models"]

_POLL_S = 0.2
# Pairs per core in a wave: enough that cores seldom wait for the last one, few enough that results come steadily.
_PAIRS_PER_CORE = 4
_NAMES = ("series", "model", "status", "version", "seconds", "error", "note")
_RESULT = (
    "series string, model string, status string, version int, seconds double, error string, note string, "
    + ", ".join(f"{name} double" for name in METRICS)
)


@dataclass(frozen=True)
class TrainingJob:
    """What is to be trained.

    Parameters
    ----------
    history : HistorySpec
        The data.
    models : mapping of str to mapping
        Settings by the forecaster's name.
    out : str
        The model directory, which driver and executors share.
    options : TrainerOptions
        How.
    wave : int, optional
        Pairs of series and model that are trained in one Spark job; else four per core.
    windows_out : str, optional
        Where to write the training set too, as Parquet: scaled windows, see `foretide.spark.training.windows`.
    window : int
        Past values in each of these windows.
    """

    history: HistorySpec
    models: Mapping[str, Mapping[str, Any]]
    out: str
    options: TrainerOptions = field(default_factory=TrainerOptions)
    wave: int | None = None
    windows_out: str | None = None
    window: int = 48

    def forecasters(self) -> dict[str, Forecaster]:
        """Return the forecasters to train.

        Raises
        ------
        ConfigError
            When no model is given, one is unknown, a setting is wrong, or an extra must be installed first.
        """
        if not self.models:
            raise ConfigError("models", expected="at least one forecaster", got="none")
        return {name: training_forecaster(name, given, self.options) for name, given in self.models.items()}


class Observer(Protocol):
    """Who watches a training."""

    def say(self, words: str) -> None:
        """Take note of what is going on before there is anything to count."""
        ...

    def begin(self, pairs: int, kept: int) -> None:
        """Take note of how many pairs there are, and how many of them were trained before."""
        ...

    def advance(self, finished: int) -> None:
        """Take note of how many pairs are finished, those trained before included."""
        ...


@dataclass(frozen=True)
class TrainingReport:
    """What a training did.

    Parameters
    ----------
    results : sequence of PairResult
        One for each series and model.
    problems : mapping of str to Problem
        Rows of the history that were bad, or out of order.
    series, values, missing : int
        Series, their bins, and how many of these have no value even after gaps were filled.
    bin_s, seconds : float
        Seconds per bin, and how long the training took, Spark's start not included.
    """

    results: Sequence[PairResult]
    problems: Mapping[str, Problem]
    series: int
    values: int
    missing: int
    bin_s: float
    seconds: float

    def counts(self) -> Counter[str]:
        """Return how many pairs were trained, kept, or failed."""
        return Counter(result.status for result in self.results)


@dataclass(frozen=True)
class _Described:
    series: str
    fingerprint: str
    values: int
    missing: int


def train_models(spark: SparkSession, job: TrainingJob, observer: Observer) -> TrainingReport:
    """Train every model on every series, except where the model directory has one of the same data and settings.

    Each task stores its model as soon as it is trained; a run that was killed goes on where it was when started again.
    A model that fails on a series is reported, the others go on.

    Raises
    ------
    ConfigError
        When a model, a setting, the path or a column is wrong.
    ForecastError
        When the data has no usable row, or Spark gave up.
    """
    started = time.perf_counter()
    forecasters = job.forecasters()
    store = _opened(job.out)
    observer.say("reading the history")
    prepared = prepare(spark, job.history)
    try:
        if job.windows_out is not None:
            _write_windows(prepared, job, job.windows_out)
        described = _describe(prepared)
        kept, due = _sorted_out(store, forecasters, described, job.options)
        observer.begin(len(kept) + len(due), len(kept))
        results = [*kept, *_train_all(prepared, job, due, len(kept), observer)]
    finally:
        prepared.release()
    return TrainingReport(
        results=sorted(results, key=lambda result: (result.series, result.model)),
        problems=prepared.problems,
        series=len(described),
        values=sum(each.values for each in described),
        missing=sum(each.missing for each in described),
        bin_s=prepared.bin_s,
        seconds=time.perf_counter() - started,
    )


def slot_keys(spark: SparkSession, slots: int) -> list[int]:
    """Return as many keys as `slots`, of which Spark's hash partitioning puts just one into each partition.

    A plain number of the pair as the key would leave a third of the partitions empty and fill others twice.
    """
    keys: dict[int, int] = {}
    first, many = 0, 16 * slots + 64
    while len(keys) < slots:
        place = sf.pmod(sf.hash(sf.col("id").cast("long")), sf.lit(slots)).alias("place")
        rows = spark.range(first, first + many).groupBy(place).agg(sf.min("id").alias("key")).collect()
        keys = {row["place"]: row["key"] for row in rows} | keys
        first += many
    return [keys[place] for place in sorted(keys)]


def _opened(directory: str) -> ModelStore:
    store = ModelStore(directory)
    try:
        store.directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"{directory!r}: {(error.strerror or str(error)).lower()}"
        raise ConfigError("out", expected="a directory that can be written", got=reason) from error
    return store


def _write_windows(prepared: Prepared, job: TrainingJob, path: str) -> None:
    windows = training_set(prepared.filled, job.window, job.options.horizon, job.options.validation)
    windows.write.mode("overwrite").parquet(path)


def _series_of(row: Any, bin_s: float) -> Series:
    values = np.asarray(row.values_, dtype=np.float64)
    # The instant of a value is the end of its bin, as it is for the rates that the control loop measures.
    return Series(values, bin_s, (int(row.first_bin) + values.size) * bin_s, str(row.series))


def _describe(prepared: Prepared) -> list[_Described]:
    """Return what each series is, computed where it lies."""
    bin_s = prepared.bin_s

    def describe(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            series = [_series_of(row, bin_s) for row in _rows(frame)]
            yield pd.DataFrame(
                {
                    "series": [each.name for each in series],
                    "fingerprint": [fingerprint(each) for each in series],
                    "n": [each.values.size for each in series],
                    "missing": [int(np.isnan(each.values).sum()) for each in series],
                }
            )

    found = prepared.packed.mapInPandas(describe, "series string, fingerprint string, n long, missing long").collect()
    return sorted(
        (_Described(row["series"], row["fingerprint"], row["n"], row["missing"]) for row in found),
        key=lambda each: each.series,
    )


def _rows(frame: pd.DataFrame) -> Iterator[Any]:
    # A column called "values" would be hidden by an attribute of the same name.
    return frame.rename(columns={"values": "values_"}).itertuples(index=False)


_Pair = tuple[str, str]


def _sorted_out(
    store: ModelStore, forecasters: Mapping[str, Forecaster], described: Sequence[_Described], options: TrainerOptions
) -> tuple[list[PairResult], list[_Pair]]:
    """Return the pairs that the model directory has already, put in use, and those to be trained."""
    training = options.model_dump(mode="json")
    keys = {name: settings_key(forecaster, training) for name, forecaster in forecasters.items()}
    kept: list[PairResult] = []
    due: list[_Pair] = []
    for each in described:
        for name, key in keys.items():
            stored = store.find(each.series, name, each.fingerprint, key)
            if stored is None:
                due.append((each.series, name))
                continue
            store.ensure_used(stored)
            kept.append(PairResult.of(stored, "kept"))
    return kept, due


def _train_all(
    prepared: Prepared, job: TrainingJob, due: Sequence[_Pair], before: int, observer: Observer
) -> Iterator[PairResult]:
    spark = prepared.packed.sparkSession
    size = job.wave or _PAIRS_PER_CORE * spark.sparkContext.defaultParallelism
    keys = cache(partial(slot_keys, spark))  # waves but the last have the same size
    for start in range(0, len(due), size):
        wave = due[start : start + size]
        frame = _wave(prepared, wave, keys(len(wave)), job)
        yield from _run(frame, len(wave), partial(_tell, observer, before + start))
        observer.advance(before + start + len(wave))


def _tell(observer: Observer, before: int, done: int) -> None:
    observer.advance(before + done)


def _wave(prepared: Prepared, wave: Sequence[_Pair], slots: Sequence[int], job: TrainingJob) -> DataFrame:
    """Return the DataFrame whose computation trains the pairs of a wave."""
    by_series: dict[str, list[dict[str, Any]]] = {}
    for slot, (series, model) in zip(slots, wave, strict=True):
        by_series.setdefault(series, []).append({"slot": slot, "model": model})
    # A constant in the plan rather than a table to join: it needs no job of its own, and rows of others are dropped.
    pairs = sf.from_json(sf.lit(json.dumps(by_series)), "map<string,array<struct<slot:long,model:string>>>")
    found = prepared.packed.where(sf.col("series").isin(list(by_series)))
    together = found.select("*", sf.explode(sf.try_element_at(pairs, sf.col("series"))).alias("pair"))
    tasks = together.select("*", "pair.*").drop("pair").repartition(len(wave), "slot")
    return tasks.groupBy("slot").applyInPandas(_trainer(job, prepared.bin_s), _RESULT)


def _trainer(job: TrainingJob, bin_s: float) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return the function that a task runs on its pair."""
    models, options = {name: dict(given) for name, given in job.models.items()}, job.options
    # Workers have a working directory of their own.
    out = str(Path(job.out).absolute())

    def train(frame: pd.DataFrame) -> pd.DataFrame:
        single_threaded()
        store = ModelStore(out)
        results = []
        for row in _rows(frame):
            try:
                forecaster = training_forecaster(row.model, models[row.model], options)
                measured = np.asarray(row.measured, dtype=np.bool_)
                result = train_model(forecaster, _series_of(row, bin_s), options, store, measured)
            except Exception as error:  # one model on one series; the others are to go on
                result = PairResult(row.series, row.model, "failed", error=f"{type(error).__name__}: {error}")
            results.append(_plain(result))
        return pd.DataFrame(results)

    return train


def _plain(result: PairResult) -> dict[str, Any]:
    metrics = {name: float(result.metrics.get(name, np.nan)) for name in METRICS}
    return {name: getattr(result, name) for name in _NAMES} | metrics


def _run(frame: DataFrame, tasks: int, progress: Callable[[int], None]) -> list[PairResult]:
    """Compute `frame` in a thread of its own, telling how many of its tasks are done meanwhile."""
    context = frame.sparkSession.sparkContext
    group = f"foretide-train-{time.time_ns()}"

    def collect() -> list[Any]:
        context.setJobGroup(group, "training of models", interruptOnCancel=True)
        return frame.collect()

    with ThreadPoolExecutor(1) as pool:
        future: Future[list[Any]] = pool.submit(collect)
        try:
            while not future.done():
                progress(_done(context, group, tasks))
                time.sleep(_POLL_S)
        except BaseException:
            # Stack traces of tasks that were told to stop are of no use to anyone.
            context.setLogLevel("OFF")
            context.cancelJobGroup(group)
            raise
        return [_result(row) for row in _collected(future)]


def _collected(future: Future[list[Any]]) -> list[Any]:
    try:
        return future.result()
    except Exception as error:
        reason = " ".join(str(error).splitlines()[0].split())
        raise ForecastError(f"training on Spark stopped: {reason}; start it again to go on where it was") from error


def _done(context: Any, group: str, tasks: int) -> int:
    """Return how many tasks of the stage after the shuffle are done: each trains one pair."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [max(job.stageIds) for job in jobs if job is not None and len(job.stageIds) > 1]
    last = tracker.getStageInfo(max(stages)) if stages else None
    return min(last.numCompletedTasks, tasks) if last is not None and last.numTasks == tasks else 0


def _result(row: Any) -> PairResult:
    metrics = {name: float(row[name]) if row[name] is not None else float("nan") for name in METRICS}
    return PairResult(metrics=metrics, **{name: row[name] for name in _NAMES})
