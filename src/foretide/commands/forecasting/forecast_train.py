"""``foretide forecast train``: models of many series, trained on Spark and kept in a directory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from foretide.commands.group import console_for, write_file

if TYPE_CHECKING:
    from foretide.spark.training.training import TrainingJob

__all__ = ["parse_models", "train"]


def train(
    data: Annotated[str, typer.Option(help="The history: a CSV or Parquet file or directory.", metavar="PATH")],
    models: Annotated[str, typer.Option(help="Forecasters to train, such as 'bigru,ridge'.", metavar="A,B")],
    out: Annotated[Path, typer.Option(help="The model directory; models that it already has are not trained again.")],
    format: Annotated[
        Literal["csv", "parquet"] | None,
        typer.Option(help="The format of the files; by default inferred from their names."),
    ] = None,
    series: Annotated[
        str | None, typer.Option(help="The column that names the series; by default 'series', if there is one.")
    ] = None,
    time: Annotated[str, typer.Option(help="The column of instants: seconds, or dates with times.")] = "time",
    value: Annotated[str, typer.Option(help="The column of values.")] = "value",
    bin_s: Annotated[
        float | None, typer.Option("--bin", help="Seconds per bin; by default the usual time between two rows.")
    ] = None,
    horizon: Annotated[int, typer.Option(help="Steps ahead that models are validated on.")] = 6,
    validation: Annotated[float, typer.Option(help="Part of each series, its end, to validate models on.")] = 0.2,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of a forecaster, such as 'bigru.hidden=16'; may be repeated."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at bad rows instead of leaving them out.")] = False,
    refit: Annotated[bool, typer.Option("--refit", help="Train once more on all data after validation.")] = False,
    windows: Annotated[
        Path | None, typer.Option(help="Write the training set (scaled windows) there too, as Parquet.", metavar="DIR")
    ] = None,
    master: Annotated[str, typer.Option(help="Where Spark runs, such as 'local[2]' or 'spark://host:7077'.")] = (
        "local[*]"
    ),
    json_out: Annotated[
        Path | None, typer.Option("--json", help="Write the results to this file; - prints it.", metavar="OUT")
    ] = None,
) -> None:
    """Train forecasters on every series of a metric history, side by side on Spark.

    Each model is validated on the end of its series and stored with what it was trained on. `foretide run --forecaster
    MODEL --models OUT` uses it where the series has the name of the source, and takes a newer one over without a
    restart. A training that was stopped continues where it was when started again.

    [bold]Example:[/] foretide forecast train --data rates.csv --models ridge,theta --out models
    """
    from foretide.commands.forecasting.forecast_train_view import TrainingView, report_view, to_dict
    from foretide.spark.training.frames import check_path
    from foretide.spark.training.training import train_models

    history = {"path": data, "format": format, "series": series, "time": time, "value": value, "bin_s": bin_s}
    options = {"horizon": horizon, "validation": validation, "refit": refit}
    job = _job({**history, "strict": strict}, options, parse_models(models, settings or []), out, windows)
    job.forecasters()  # errors in them are reported before Spark is started
    check_path(data)
    console = console_for(json_out)
    with TrainingView(console) as view, _session(master) as spark:
        report = train_models(spark, job, view)
    console.print(report_view(report))
    if json_out is not None:
        write_file(json_out, json.dumps(to_dict(report), indent=2, ensure_ascii=False) + "\n", "--json")
    if report.counts()["failed"]:
        raise typer.Exit(1)


def parse_models(names: str, settings: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the settings of each forecaster from what was given on the command line.

    >>> parse_models("ridge, lr", ["lr.window=20"])
    {'ridge': {}, 'lr': {'window': 20}}

    Raises
    ------
    ConfigError
        When a setting is malformed or belongs to a forecaster that is not trained.
    """
    from foretide.config import parsed_value
    from foretide.errors import ConfigError

    found: dict[str, dict[str, Any]] = {name.strip(): {} for name in names.split(",") if name.strip()}
    if not found:
        raise ConfigError("--models", expected="at least one forecaster", got=names)
    for text in settings:
        name, equals, given = text.partition("=")
        model, dot, setting = name.strip().partition(".")
        if not (equals and dot and setting) or model not in found:
            expected = f"MODEL.SETTING=VALUE with a model among {', '.join(found)}"
            raise ConfigError("--set", expected=expected, got=text)
        found[model][setting] = parsed_value(given.strip())
    return found


def _job(
    history: Mapping[str, Any],
    options: Mapping[str, Any],
    models: Mapping[str, Mapping[str, Any]],
    out: Path,
    windows: Path | None,
) -> TrainingJob:
    from foretide.config import validated
    from foretide.forecast.training.trainer import TrainerOptions
    from foretide.spark.training.frames import HistorySpec
    from foretide.spark.training.training import TrainingJob

    return TrainingJob(
        validated(HistorySpec, history, "data"),
        models,
        str(out.absolute()),
        validated(TrainerOptions, options, "train"),
        windows_out=None if windows is None else str(windows.absolute()),
    )


@contextmanager
def _session(master: str) -> Iterator[Any]:
    from foretide.spark import create_session
    from foretide.spark.session.logs import quiet_start

    with quiet_start():
        spark = create_session(master, "foretide-train")
    # Spark's 200 would be 200 tiny tasks for each step on a laptop.
    spark.conf.set("spark.sql.shuffle.partitions", str(2 * spark.sparkContext.defaultParallelism))
    try:
        yield spark
    finally:
        spark.stop()
