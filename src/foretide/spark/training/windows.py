"""Training sets: binned series scaled to their training part's range and cut into windows, as DataFrames (SPEC B1)."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

__all__ = ["cut_windows", "scale", "split", "training_set"]


def training_set(filled: DataFrame, window: int, horizon: int, validation: float) -> DataFrame:
    """Return the windows of all series, scaled, with the part each belongs to; see `cut_windows`."""
    return cut_windows(scale(split(filled, validation)), window, horizon)


def split(filled: DataFrame, validation: float) -> DataFrame:
    """Add ``place`` (0 for a series' first bin) and ``boundary``, the place where its validation part begins."""
    first = Window.partitionBy("series")
    place = (sf.col("bin") - sf.min("bin").over(first)).alias("place")
    size = sf.count("*").over(first)
    boundary = sf.least(sf.floor(size * sf.lit(1 - validation)), size - 1).alias("boundary")
    return filled.select("*", place, boundary)


def scale(parts: DataFrame) -> DataFrame:
    """Add ``low`` and ``high``, the range of the training part, and ``scaled``: 0 at the low end, 1 at the high one.

    A training part that is constant has no range: what is above it is scaled as it is.
    """
    known = sf.when((sf.col("place") < sf.col("boundary")) & ~sf.isnan("value"), sf.col("value"))
    series = Window.partitionBy("series")
    with_range = parts.select("*", sf.min(known).over(series).alias("low"), sf.max(known).over(series).alias("high"))
    span = sf.when(sf.col("high") > sf.col("low"), sf.col("high") - sf.col("low")).otherwise(1.0)
    return with_range.withColumn("scaled", (sf.col("value") - sf.col("low")) / span)


def cut_windows(scaled: DataFrame, window: int, horizon: int) -> DataFrame:
    """Return ``series``, ``part``, ``origin`` (the bin of the last input), ``inputs``, ``targets``, ``low``, ``high``.

    A window counts when none of its inputs is NaN and each of its targets was measured. It belongs to ``train`` when
    its targets end before the boundary, to ``validation`` when they begin there or later; others are left out, so that
    nothing of the later part is learnt early.
    """
    order = Window.partitionBy("series").orderBy("bin")
    past, ahead = order.rowsBetween(1 - window, 0), order.rowsBetween(1, horizon)
    measured = sf.when(sf.col("measured"), sf.col("scaled"))
    cut = scaled.select(
        "series",
        sf.col("bin").alias("origin"),
        sf.collect_list(sf.when(~sf.isnan("scaled"), sf.col("scaled"))).over(past).alias("inputs"),
        sf.collect_list(measured).over(ahead).alias("targets"),
        sf.when(sf.col("place") + horizon < sf.col("boundary"), "train")
        .when(sf.col("place") + 1 >= sf.col("boundary"), "validation")
        .alias("part"),
        "low",
        "high",
    )
    # Lists leave NULL out: what is missing shows in their length.
    whole = (sf.size("inputs") == window) & (sf.size("targets") == horizon) & sf.col("part").isNotNull()
    return cut.where(whole).select("series", "part", "origin", "inputs", "targets", "low", "high")
