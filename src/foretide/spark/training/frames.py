"""Metric history as DataFrames: read from Parquet or CSV, cleaned, put into bins, gaps filled.

Each step takes a DataFrame and returns one; `prepare` puts them together. Rows belong to the series that they name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import Any, Literal

from pydantic import Field
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import NumericType

from foretide.config import Settings
from foretide.errors import ConfigError, ForecastError

__all__ = [
    "HistorySpec",
    "Prepared",
    "Problem",
    "bin_values",
    "check_path",
    "check_rows",
    "count_problems",
    "fill_gaps",
    "find_bin_s",
    "mark_problems",
    "pack",
    "prepare",
    "read_history",
]

# One row with a date in the far future would make a grid that no memory holds.
_MOST_BINS = 5_000_000
# No instant is so many seconds away: whole numbers beyond it are nanoseconds.
_NANOSECONDS = 1e16
_BACKWARDS = "time going backwards"
_ORDER = ("missing", "not a time", "not a number", "negative", "duplicate time", _BACKWARDS)


class HistorySpec(Settings):
    """Where a metric history is, and what is made of it."""

    path: str = Field(min_length=1, description="A file or directory, local or one that Spark can read.")
    format: Literal["csv", "parquet"] | None = Field(default=None, description="Told from the name where not given.")
    series: str | None = Field(
        default=None,
        description="The column that tells series apart; none: `series` where there is one, else one series.",
    )
    time: str = Field(default="time", description="The column of instants: seconds, or dates with times.")
    value: str = Field(default="value", description="The column of values.")
    bin_s: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Seconds per bin; none: the usual time between two rows."
    )
    aggregate: Literal["mean", "sum", "max"] = Field(default="mean", description="What becomes of values in one bin.")
    gap_limit: int = Field(default=6, ge=0, description="Bins in a row that are filled by a straight line, at most.")
    strict: bool = Field(default=False, description="Whether a bad row is an error; else it is left out and counted.")


@dataclass(frozen=True)
class Problem:
    """Rows that are bad in the same way.

    Parameters
    ----------
    rows : int
        How many.
    example : str
        The first of them.
    """

    rows: int
    example: str


@dataclass(frozen=True)
class Prepared:
    """A history that is ready to train on.

    Parameters
    ----------
    packed : DataFrame
        One row per series, see `pack`; kept in memory until `release`.
    bin_s : float
        Seconds per bin.
    problems : mapping of str to Problem
        What was wrong with the rows.
    filled : DataFrame
        One row per bin, see `fill_gaps`.
    marked : DataFrame
        The rows it was made from, see `mark_problems`; kept likewise.
    """

    packed: DataFrame
    bin_s: float
    problems: Mapping[str, Problem]
    filled: DataFrame
    marked: DataFrame

    def release(self) -> None:
        """Give the memory back."""
        self.packed.unpersist()
        self.marked.unpersist()


def prepare(spark: SparkSession, spec: HistorySpec) -> Prepared:
    """Read a history and return it cleaned, in bins, with gaps filled and one row per series.

    Raises
    ------
    ConfigError
        When there is nothing at the path, a column is unknown, or the bins are too many.
    ForecastError
        When no usable row is left, or any is bad and the history is to be strict.
    """
    # Partitioned by series from here on, so that no later step has to shuffle.
    marked = mark_problems(read_history(spark, spec).repartition("series")).persist()
    problems, good = count_problems(marked)
    check_rows(spec, problems, good)
    rows = marked.where("problem IS NULL")
    bin_s = find_bin_s(rows, spec.bin_s)
    filled = fill_gaps(bin_values(rows, bin_s, spec.aggregate), spec.gap_limit)
    return Prepared(pack(filled).persist(), bin_s, problems, filled, marked)


def check_path(path: str) -> None:
    """Raise a `ConfigError` where there is nothing at a local path; others, and patterns, are Spark's to find."""
    if "://" not in path and not any(sign in path for sign in "*?[{") and not Path(path).exists():
        raise ConfigError("data", expected="a file or directory", got=f"{path!r}, which is not there")


def read_history(spark: SparkSession, spec: HistorySpec) -> DataFrame:
    """Return columns ``series``, ``time``, ``value`` as they are in the files, and ``row``, which has their order.

    Raises
    ------
    ConfigError
        When there is nothing at the path, or a column is unknown.
    """
    found = _load(spark, spec)
    if not found.columns:
        raise ConfigError("data", expected="rows with a header", got=f"an empty file {spec.path}")
    columns = {name: _column(found, name, getattr(spec, name)) for name in ("time", "value")}
    series = spec.series or ("series" if "series" in found.columns else None)
    name = sf.lit(Path(spec.path).stem) if series is None else _column(found, "series", series)
    return found.select(
        name.cast("string").alias("series"),
        columns["time"].alias("time"),
        columns["value"].alias("value"),
        sf.monotonically_increasing_id().alias("row"),
    )


def mark_problems(frame: DataFrame) -> DataFrame:
    """Return ``series``, ``time_s``, ``value`` as a number, ``problem`` (NULL where there is none) and ``backwards``.

    Of rows with the same series and time the first one stays. Rows whose time is before that of the row before them
    are marked and stay: binning puts them in their place. ``example`` shows a row as it was.
    """
    read = frame.select(
        "series",
        _seconds(frame).alias("time_s"),
        sf.col("value").try_cast("double").alias("value"),
        "row",
        sf.format_string(
            "series %s, time %s, value %s", *(sf.col(name).cast("string") for name in ("series", "time", "value"))
        ).alias("example"),
        _blank("series", "time", "value").alias("blank"),
    )
    cell = (
        sf.when(sf.col("blank"), _ORDER[0])
        .when(sf.col("time_s").isNull() | ~_is_finite("time_s"), _ORDER[1])
        .when(sf.col("value").isNull() | ~_is_finite("value"), _ORDER[2])
        .when(sf.col("value") < 0, _ORDER[3])
    )
    read = read.withColumn("problem", cell)
    usable = sf.col("problem").isNull()
    same = Window.partitionBy("series", usable, "time_s").orderBy("row")
    before = Window.partitionBy("series", sf.col("problem").isNull()).orderBy("row")
    again = usable & (sf.row_number().over(same) > 1)
    read = read.withColumn("problem", sf.when(again, _ORDER[4]).otherwise(sf.col("problem")))
    backwards = sf.col("problem").isNull() & (sf.col("time_s") < sf.lag("time_s").over(before))
    marked = read.withColumn("backwards", sf.coalesce(backwards, sf.lit(False)))
    return marked.select("series", "time_s", "value", "row", "example", "problem", "backwards")


def count_problems(marked: DataFrame) -> tuple[dict[str, Problem], int]:
    """Return what is wrong with the rows that `mark_problems` marked, and how many are good."""
    kind = sf.coalesce(sf.col("problem"), sf.when(sf.col("backwards"), _BACKWARDS), sf.lit("good"))
    counted = marked.groupBy(kind.alias("kind")).agg(
        sf.count("*").alias("rows"), sf.min_by("example", "row").alias("example")
    )
    found = {row["kind"]: Problem(row["rows"], row["example"]) for row in counted.collect()}
    good = found.pop("good", Problem(0, "")).rows + found.get(_BACKWARDS, Problem(0, "")).rows
    return {name: found[name] for name in _ORDER if name in found}, good


def check_rows(spec: HistorySpec, problems: Mapping[str, Problem], good: int) -> None:
    """Raise a `ForecastError` where no row is good, or one is bad that must not be."""
    found = "; ".join(f"{part.rows} rows: {name} (first: {part.example})" for name, part in problems.items())
    if not good:
        got = found or "no rows at all"
        raise ForecastError(f"data {spec.path}: expected numbers in column {spec.value!r}, got {got}")
    if spec.strict and problems:
        raise ForecastError(f"data {spec.path}: expected no bad rows, got {found}; correct them or be less strict")


def find_bin_s(rows: DataFrame, asked_s: float | None = None) -> float:
    """Return the seconds per bin: those asked for, else the usual time between two rows of a series.

    The usual time is the median of each series' median.

    Raises
    ------
    ConfigError
        When no series has two rows to tell it from, or one is so long that its bins would be too many.
    """
    before = Window.partitionBy("series").orderBy("time_s")
    steps = rows.select("series", "time_s", (sf.col("time_s") - sf.lag("time_s").over(before)).alias("step_s"))
    usual = sf.percentile_approx(sf.when(sf.col("step_s") > 0, sf.col("step_s")), 0.5, 10_000)
    span = sf.max("time_s") - sf.min("time_s")
    found = steps.groupBy("series").agg(usual.alias("step_s"), span.alias("span_s")).collect()
    known = [row["step_s"] for row in found if row["step_s"] is not None]
    if asked_s is None and not known:
        raise ConfigError("bin_s", expected="seconds per bin, since no series has two rows", got="none")
    bin_s = asked_s or float(median_low(known))
    _check_bins({row["series"]: row["span_s"] / bin_s + 1 for row in found}, bin_s)
    return bin_s


def bin_values(rows: DataFrame, bin_s: float, aggregate: str = "mean") -> DataFrame:
    """Return ``series``, ``bin`` (time over `bin_s`, rounded down) and the ``value`` of each bin that has any."""
    # A millionth of a bin, because 0.3 / 0.1 is a little less than 3.
    place = sf.floor(sf.col("time_s") / sf.lit(float(bin_s)) + 1e-6).cast("long")
    combined: Column = {"mean": sf.avg, "sum": sf.sum, "max": sf.max}[aggregate]("value")
    return rows.groupBy("series", place.alias("bin")).agg(combined.alias("value"))


def fill_gaps(binned: DataFrame, limit: int) -> DataFrame:
    """Return every bin from the first to the last of each series: ``series``, ``bin``, ``value``, ``measured``.

    Up to `limit` missing bins in a row are filled by a straight line; the value of longer gaps is NaN.
    """
    order = Window.partitionBy("series").orderBy("bin")
    ends = binned.select(
        "series",
        sf.col("bin").alias("first"),
        sf.col("value").alias("left"),
        sf.coalesce(sf.lead("bin").over(order), sf.col("bin") + 1).alias("next"),
        sf.lead("value").over(order).alias("right"),
    )
    # Each bin with a value also brings the empty ones after it.
    every = ends.select("*", sf.explode(sf.sequence(sf.col("first"), sf.col("next") - 1)).alias("bin"))
    measured, width = sf.col("bin") == sf.col("first"), sf.col("next") - sf.col("first")
    line = sf.col("left") + (sf.col("bin") - sf.col("first")) / width * (sf.col("right") - sf.col("left"))
    filled = sf.when(measured, sf.col("left")).when(width - 1 <= limit, line).otherwise(float("nan"))
    return every.select("series", "bin", filled.alias("value"), measured.alias("measured"))


def pack(filled: DataFrame) -> DataFrame:
    """Return one row per series: ``series``, ``first_bin``, and arrays ``values`` and ``measured`` in order of time."""
    bins = sf.sort_array(sf.collect_list(sf.struct("bin", "value", "measured")))
    packed = filled.groupBy("series").agg(bins.alias("bins"))
    return packed.select(
        "series",
        sf.col("bins")[0]["bin"].alias("first_bin"),
        sf.col("bins.value").alias("values"),
        sf.col("bins.measured").alias("measured"),
    )


def _load(spark: SparkSession, spec: HistorySpec) -> DataFrame:
    check_path(spec.path)
    try:
        if _format(spec) == "csv":
            return spark.read.csv(spec.path, header=True, ignoreLeadingWhiteSpace=True, ignoreTrailingWhiteSpace=True)
        # pandas writes dates in nanoseconds, which Spark takes as whole numbers or not at all; see `_seconds`.
        spark.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
        return spark.read.parquet(spec.path)
    except Exception as error:  # Spark's own, or one of Java's for a broken file
        reason = " ".join(str(error).splitlines()[0].split())
        expected, remedy = f"{_format(spec)} files that Spark can read", "check the path and the format"
        raise ConfigError("data", expected=expected, got=f"{spec.path!r}: {reason}", remedy=remedy) from error


def _format(spec: HistorySpec) -> str:
    if spec.format is not None:
        return spec.format
    path = Path(spec.path)
    parquet = path.suffix in (".parquet", ".pq") or (path.is_dir() and any(path.rglob("*.parquet")))
    return "parquet" if parquet else "csv"


def _column(frame: DataFrame, setting: str, name: str) -> Column:
    if name not in frame.columns:
        raise ConfigError(
            setting,
            expected=f"one of the columns {', '.join(frame.columns)}",
            got=name,
            remedy=f"name the column with --{setting}",
        )
    return frame[f"`{name.replace('`', '``')}`"]


def _seconds(frame: DataFrame) -> Column:
    time = sf.col("time")
    if isinstance(frame.schema["time"].dataType, NumericType):
        nanoseconds = time.cast("double") / 1e9
        return sf.when(sf.abs(time) > _NANOSECONDS, nanoseconds).otherwise(time.cast("double"))
    if frame.schema["time"].dataType.typeName() == "string":
        return sf.coalesce(time.try_cast("double"), sf.try_to_timestamp(time).cast("double"))
    return time.cast("timestamp").cast("double")


def _blank(*names: str) -> Column:
    blank: Any = sf.lit(False)
    for name in names:
        blank = blank | sf.col(name).isNull() | (sf.trim(sf.col(name).cast("string")) == "")
    return blank


def _is_finite(name: str) -> Column:
    return ~sf.isnan(name) & (sf.abs(sf.col(name)) < float("inf"))


def _check_bins(bins: Mapping[str, float], bin_s: float) -> None:
    longest = max(bins, key=lambda series: bins[series])
    if bins[longest] > _MOST_BINS:
        raise ConfigError(
            "bin_s",
            expected=f"at most {_MOST_BINS:,} bins from the first to the last value of a series",
            got=f"{bins[longest]:,.0f} of series {longest!r} with bins of {bin_s:g} s",
            remedy="take wider bins, or correct times that are far off",
        )
