"""``foretide runs``: list, show, export and prune recorded runs."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretide.commands.group import console_for, write_file

if TYPE_CHECKING:
    from foretide.store import RunStore, StoreSettings

__all__ = ["Run", "Store", "app"]

app = typer.Typer(no_args_is_help=True, help="Look at recorded runs: list, show, export and prune them.")
_WIDE = 160

Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="The store, a file or postgresql://...; by default $FORETIDE_STORE, or the file in your data folder.",
        metavar="FILE|URL",
    ),
]
Run = Annotated[str, typer.Argument(help="An id, the beginning of one, a name, or 'latest'.")]


@app.command("list")
def list_runs(
    store: Store = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List the recorded runs, the newest last.

    A run whose process ended without reporting it is called lost.

    [bold]Example:[/] foretide runs list
    """
    from foretide.commands.runs_view import run_entry, runs_table

    found, now_s = _store(store).runs(), time.time()
    if as_json:
        typer.echo(_json([run_entry(info, now_s) for info in found]))
    elif not found:
        typer.echo(f"no runs in {_store(store).name}")
    else:
        console_for(None, _WIDE).print(runs_table(found, now_s))


@app.command()
def show(
    run: Run,
    store: Store = None,
    last: Annotated[int, typer.Option(help="How many decisions and events to show.", min=0)] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Show a run: what it was, how it went, what was decided and what happened.

    [bold]Example:[/] foretide runs show latest
    """
    from foretide.commands.runs_view import run_details, run_view

    found = _store(store).run(run)
    details = run_details(found, last, time.time())
    if as_json:
        typer.echo(_json(details))
    else:
        console_for(None, _WIDE).print(run_view(details))


@app.command()
def export(
    run: Run,
    store: Store = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The CSV file, of features also Parquet; printed without it.", metavar="CSV|PARQUET"),
    ] = None,
    features: Annotated[
        bool, typer.Option("--features", help="Export the features of workers and machines instead of the input.")
    ] = False,
    bin_s: Annotated[
        float | None, typer.Option("--bin", help="Seconds per row; by default the usual length of a measurement.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="Export only this source; by default the sum of all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write columns as JSON instead of CSV.")] = False,
) -> None:
    """Write the input of a run as a trace that can be replayed, or the features of its workers and machines.

    The columns of a trace are the second, the events per second, and the same for each source. With --features there
    is a row for each worker or machine and instant, and a column for each feature; a file that ends in .parquet is
    Parquet, any other CSV.

    [bold]Example:[/] foretide runs export latest --out trace.csv

    [bold]Features:[/] foretide runs export latest --features --out features.parquet
    """
    content = (
        _exported_features(_store(store), run, out, as_json, {"--bin": bin_s, "--source": source})
        if features
        else _exported_trace(_store(store), run, bin_s, source, as_json)
    )
    if out is None:
        typer.echo(content, nl=False)
    else:
        write_file(out, content, "--out")


@app.command()
def prune(
    store: Store = None,
    raw_hours: Annotated[
        float | None, typer.Option(help="Keep every record for this many hours, then one a minute.")
    ] = None,
    keep_days: Annotated[float | None, typer.Option(help="Drop the records of a run after this many days.")] = None,
    keep_runs_days: Annotated[float | None, typer.Option(help="Drop runs as a whole after this many days.")] = None,
    max_mb: Annotated[float | None, typer.Option(help="Drop the oldest runs above this many megabytes.")] = None,
    run: Annotated[str | None, typer.Option(help="Drop this run instead, whatever its age.", metavar="RUN")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Drop what is too old, and merge what is old into one record a minute.

    Recording does the same by itself every ten minutes.

    [bold]Example:[/] foretide runs prune --keep-days 7
    """
    given = {"raw_hours": raw_hours, "keep_days": keep_days, "keep_runs_days": keep_runs_days, "max_mb": max_mb}
    if run is not None:
        info = _store(store).delete(run)
        typer.echo(_json({"run": info.id}) if as_json else f"dropped run {info.id} ({info.name})")
        return
    done = _store(store, _settings({name: value for name, value in given.items() if value is not None})).prune()
    if as_json:
        typer.echo(_json({"merged": done.merged, "dropped": done.dropped, "runs": done.runs}))
        return
    typer.echo(f"{done.merged:,} records merged, {done.dropped:,} dropped, {done.runs:,} runs dropped or shortened")


def _exported_trace(store: RunStore, run: str, bin_s: float | None, source: str | None, as_json: bool) -> str:
    text = store.export_trace(run, bin_s).to_csv(source)
    return _json(_columns(text)) + "\n" if as_json else text


def _exported_features(
    store: RunStore, run: str, out: Path | None, as_json: bool, others: Mapping[str, object]
) -> str | bytes:
    from foretide.errors import ConfigError
    from foretide.extras import needs_extra
    from foretide.store.feature_table import feature_table, to_csv, to_parquet

    for option, given in others.items():
        if given is not None:
            raise ConfigError(option, expected="none with --features", got=given, remedy="it is about traces")
    found = store.run(run)
    table = feature_table(found.features())
    if not table["at_s"]:
        raise ConfigError(
            "--features",
            expected="a run on Spark whose workers were measured",
            got=f"run {found.id} without features",
            remedy="features are recorded with features_every_s above 0, and kept as long as the store keeps records",
        )
    if as_json:
        return _json(table) + "\n"
    if out is not None and out.suffix == ".parquet":
        with needs_extra("spark", "a Parquet file"):
            return to_parquet(table)
    return to_csv(table)


def _columns(text: str) -> dict[str, list[float]]:
    r"""Return a table of numbers as columns.

    >>> _columns("second,events_per_second\n0,1.5\n1,2\n")
    {'second': [0.0, 1.0], 'events_per_second': [1.5, 2.0]}
    """
    head, *rows = (line.split(",") for line in text.splitlines())
    return {name: [float(row[place]) for row in rows] for place, name in enumerate(head)}


def _store(named: str | None, settings: StoreSettings | None = None) -> RunStore:
    from foretide.store import RunStore, default_store

    return RunStore(named or default_store(), settings)


def _settings(given: dict[str, float]) -> StoreSettings:
    from foretide.config import validated
    from foretide.store import StoreSettings

    if "keep_days" in given:
        # A shorter time for all records also limits how long single ones are kept.
        given.setdefault("raw_hours", min(StoreSettings().raw_hours, 24 * given["keep_days"]))
        given.setdefault("keep_runs_days", max(StoreSettings().keep_runs_days, given["keep_days"]))
    return validated(StoreSettings, given, "prune")


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
