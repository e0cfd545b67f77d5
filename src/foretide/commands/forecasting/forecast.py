"""``foretide forecast``: the models, how they do on a history, and their training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretide.commands.forecasting.forecast_train import train
from foretide.commands.group import console_for, write_file

if TYPE_CHECKING:
    from foretide.forecast.base import Forecaster

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Forecast input rates: list, test and train models.")
app.command()(train)
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
    csv: Annotated[Path, typer.Option(help="The history, one value a row.", metavar="FILE")],
    value: Annotated[str, typer.Option(help="The column of values.", metavar="COL")],
    horizon: Annotated[int, typer.Option(help="Steps ahead to forecast.")],
    models: Annotated[str, typer.Option(help="Forecasters to test, such as 'auto,basic,lr'.", metavar="A,B")] = (
        "auto,basic"
    ),
    time: Annotated[
        str | None, typer.Option(help="The column of instants; without it, rows are evenly spaced.", metavar="COL")
    ] = None,
    min_history: Annotated[int, typer.Option(help="Bins of history before the first forecast.")] = 20,
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
    """Let models forecast a history from every bin, and compare how accurate they were.

    At each bin a model knows nothing but the past. It is judged by the mean over the horizon: MAPE, RMSE and MAE, and
    for the .9 quantile the pinball loss (divided by the mean rate) and the share of observations below it.

    [bold]Example:[/] foretide forecast backtest --csv rates.csv --value rate --horizon 6 --models auto,basic,lr
    """
    from foretide.commands.forecasting.forecast_view import BacktestView, backtest_table
    from foretide.config import validated
    from foretide.forecast.backtest import BacktestOptions
    from foretide.forecast.backtest import backtest as run_backtest
    from foretide.forecast.csv_history import read_history
    from foretide.forecast.plots import to_html, write_png

    options = validated(BacktestOptions, {"horizon": horizon, "min_history": min_history}, "backtest")
    prototypes = _prototypes(models, settings or [])
    history = read_history(csv, value, time)
    console = console_for(json_out, _WIDE)
    console.print(f"{csv}: {history.report}", highlight=False)
    with BacktestView(console, tuple(prototypes)) as view:
        found = run_backtest(history.series, prototypes, options, view.show)
    console.print(backtest_table(found))
    if json_out is not None:
        data = {"file": str(csv), "value": value, **_about(history), **found.to_dict()}
        write_file(json_out, json.dumps(data, indent=2, ensure_ascii=False) + "\n", "--json")
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
