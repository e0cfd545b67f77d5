"""``foretide apps``: the shipped applications."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from foretide.apps import App

__all__ = ["apps"]

_WIDE = 160


def apps(
    name: Annotated[str | None, typer.Argument(help="Show the options of this application.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List the shipped applications, or the options of one.

    Their names stand for topologies in other commands: run, show, plan-spark.

    [bold]Example:[/] foretide apps twitter-classification
    """
    from foretide.apps import APPS, find_app
    from foretide.commands.group import console_for

    shown = list(APPS.values()) if name is None else [find_app(name)]
    if as_json:
        entries = [_entry(app) for app in shown]
        typer.echo(json.dumps(entries if name is None else entries[0], indent=2, ensure_ascii=False))
        return
    console = console_for(None, _WIDE)
    if name is None:
        console.print(_listed(shown))
    else:
        console.print(f"[bold cyan]{name}[/] {shown[0].summary}\n")
        console.print(_options(shown[0]))


def _listed(shown: list[App[Any]]) -> Table:
    table = _table("application", "follows", "operators", "what it does")
    for app in shown:
        table.add_row(app.name, ", ".join(app.spec), str(len(app.build().operators)), app.summary)
    return table


def _options(app: App[Any]) -> Table:
    table = _table("option", "default", "meaning")
    for name, field in app.options.model_fields.items():
        table.add_row(name, str(field.default), field.description)
    return table


def _table(first: str, *others: str) -> Table:
    from foretide.commands.terminal import plain_table

    table = plain_table(first)
    for title in others[:-1]:
        table.add_column(title, style="dim", no_wrap=True)
    table.add_column(others[-1])
    return table


def _entry(app: App[Any]) -> dict[str, Any]:
    fields = app.options.model_fields.items()
    return {
        "name": app.name,
        "summary": app.summary,
        "spec": list(app.spec),
        "payload": app.read_options().payload,
        "columns": list(app.columns),
        "operators": [operator.id for operator in app.build().operators],
        "options": {name: {"default": field.default, "description": field.description} for name, field in fields},
    }
