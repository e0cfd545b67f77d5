"""``foretide forecast``: the models, how they do on a history, and their training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretide.commands.forecasting.forecast_train import train
from foretide.commands.forecasting.forecast_tune import tune
from foretide.commands.group import console_for, write_file

if TYPE_CHECKING:
    from foretide.forecast.backtest import Backtest
    from foretide.forecast.base import Forecaster

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Forecast input rates: list, test and train models.")
app.command()(train)
app.command()(tune)
_WIDE = 160


@app.command()
def models(
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List every forecaster with what it does and what it needs.

    The second column names the requirement of the specification that it follows. Models that other packages offer are
    listed as well.

    [bold]Example:[/] foretide forecast models
    """
    from foretide.commands.terminal import plain_table
    from foretide.forecast import all_forecasters

    entries = [_entry(name, kind) for name, kind in all_forecasters().items()]
    if as_json:
        typer.echo(json.dumps(entries, indent=2, ensure_ascii=False))
        return
    table = plain_table("model")
    table.add_column("follows", style="dim", no_wrap=True)
    table.add_column("cost", no_wrap=True)
    table.add_column("needs", no_wrap=True)
    table.add_column("forecasts by")
    for entry in entries:
        needs = "" if entry["extra"] is None else f"{entry['extra']}{'' if entry['installed'] else ' (not installed)'}"
        table.add_row(entry["name"], ", ".join(entry["spec"]), entry["cost"], needs, entry["summary"])
    console_for(None, _WIDE).print(table)


def _entry(name: str, kind: type[Forecaster]) -> dict[str, Any]:
    return {
        "name": name,
        "summary": kind.summary,
        "spec": list(kind.spec),
        "cost": kind.cost,
        "extra": kind.needs,
        "installed": not kind.missing(),
    }


@app.command()
def backtest(
    csv: Annotated[list[Path], typer.Option(help="A history, one value a row; may be repeated.", metavar="FILE")],
    value: Annotated[list[str], typer.Option(help="A column of values; may be repeated.", metavar="COL")],
    horizon: Annotated[int, typer.Option(help="Steps ahead to forecast.")],
    models: Annotated[
        str,
        typer.Option(help="Forecasters to test; the others are compared with the first.", metavar="A,B"),
    ] = "auto,basic",
    time: Annotated[
        str | None, typer.Option(help="The column of instants; without it, rows are evenly spaced.", metavar="COL")
    ] = None,
    min_history: Annotated[int, typer.Option(help="Bins of history before the first forecast.")] = 20,
    stride: Annotated[int, typer.Option(help="Bins between two forecasts; more is quicker.")] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of a forecaster, such as 'lr.window=20'; may be repeated."),
    ] = None,
    json_out: Annotated[
        Path | None, typer.Option("--json", help="Write the results to this file; - prints it.", metavar="OUT")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the forecasts as a page.", metavar="OUT.html")] = None,
    png: Annotated[Path | None, typer.Option(help="Draw the forecasts as a picture.", metavar="OUT.png")] = None,
) -> None:
    """Let models forecast histories from every bin, and compare how accurate they were.

    At each bin a model knows nothing but the past. The mean over the horizon is judged by MAPE, RMSE and MAE, its .9
    quantile by the pinball loss (divided by the mean rate) and by the share of observations below it; the single
    steps by MASE and by the weighted quantile loss (wql), which approximates the CRPS. Ratios to the first model have
    90 % confidence intervals by a paired bootstrap over blocks of bins. Several files and columns make several series
    (each column of each file), over which ratios are averaged as well.

    [bold]Example:[/] foretide forecast backtest --csv rates.csv --value rate --horizon 6 --models auto,zero,basic
    """
    from foretide.commands.forecasting.forecast_view import BacktestView, backtest_table, together_table
    from foretide.config import validated
    from foretide.forecast.backtest import BacktestOptions
    from foretide.forecast.backtest import backtest as run_backtest
    from foretide.forecast.csv_history import read_history
    from foretide.forecast.many import together

    given = {"horizon": horizon, "min_history": min_history, "stride": stride}
    options = validated(BacktestOptions, given, "backtest")
    prototypes = _prototypes(models, settings or [])
    histories = [(file, column, read_history(file, column, time)) for file in csv for column in value]
    _one_picture(len(histories), plot, png)
    console = console_for(json_out, _WIDE)
    found = []
    for file, column, history in histories:
        console.print(f"{file}{f', {column}' if len(value) > 1 else ''}: {history.report}", highlight=False)
        with BacktestView(console, tuple(prototypes)) as view:
            found.append(run_backtest(history.series, prototypes, options, view.show))
        console.print(backtest_table(found[-1]))
    if len(found) > 1:
        console.print(together_table(together(found), len(found)))
    if json_out is not None:
        rows = [
            {"file": str(file), "value": column, **_about(history), **each.to_dict()}
            for (file, column, history), each in zip(histories, found, strict=True)
        ]
        data = rows[0] if len(rows) == 1 else {"together": together(found), "series": rows}
        write_file(json_out, json.dumps(data, indent=2, ensure_ascii=False) + "\n", "--json")
    _draw(found[0], plot, png)


def _one_picture(series: int, plot: Path | None, png: Path | None) -> None:
    from foretide.errors import ConfigError

    if series > 1 and (plot is not None or png is not None):
        raise ConfigError(
            "--plot, --png", expected="one series", got=series, remedy="draw one file and column at a time"
        )


def _draw(found: Backtest, plot: Path | None, png: Path | None) -> None:
    from foretide.forecast.plots import to_html, write_png

    if plot is not None:
        write_file(plot, to_html(found), "--plot")
    if png is not None:
        write_png(found, png)
        typer.echo(f"wrote {png}", err=True)


def _prototypes(names: str, settings: list[str]) -> Mapping[str, Forecaster]:
    from foretide.commands.forecasting.forecast_train import parse_models
    from foretide.forecast import make_forecaster

    # Models that train in the background would be ready at some moment or other: results must not depend on it.
    quiet = {"auto": {"background": False}}
    wanted = parse_models(names, settings)
    return {name: make_forecaster(name, **{**quiet.get(name, {}), **given}) for name, given in wanted.items()}


def _about(history: Any) -> dict[str, Any]:
    return {
        "rows": history.rows,
        "bins": int(history.series.values.size),
        "missing": history.missing_bins + history.empty_cells,
        "gaps": history.gaps,
    }
