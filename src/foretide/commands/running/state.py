"""``foretide state``: what a run has kept by key."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

__all__ = ["state"]


def state(
    run: Annotated[str, typer.Argument(help="The directory of the run, or its URI: its --path.", metavar="DIR|URI")],
    operator: Annotated[str | None, typer.Argument(help="The operator; without one, those that keep state.")] = None,
    key: Annotated[
        str | None, typer.Option(help="Show this key alone; the columns of a longer key are separated by commas.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Show at most so many keys.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print each key as a line of JSON.")] = False,
) -> None:
    """Show the state that operators of a run keep by key, as of its last commit; the run may be under way.

    [bold]Example:[/] foretide state run fraud --key 4711

    [bold]The run:[/] foretide run examples/fraud.py --path run
    """
    import pyarrow.compute as pc
    from rich.console import Console
    from rich.table import Table

    from foretide.errors import ConfigError
    from foretide.state.reading import key_columns, known_states, read_state

    console = Console()
    if operator is None:
        known = known_states(run)
        if not known:
            raise ConfigError("DIR", expected="the --path of a run whose operators keep state", got=run)
        for id in known:
            console.print(f"{id}  {read_state(run, id).num_rows:,} keys", highlight=False)
        return
    table = read_state(run, operator)
    columns = key_columns(run, operator)
    if key is not None:
        values = [part.strip() for part in key.split(",")] if len(columns) > 1 else [key]
        if len(values) != len(columns):
            raise ConfigError("--key", expected=f"a value for each of {', '.join(columns)}", got=key)
        for name, value in zip(columns, values, strict=True):
            table = table.filter(pc.equal(table[name].cast("string"), value))
        if not table.num_rows:
            raise ConfigError("--key", expected=f"a key that {operator!r} has state of", got=key)
    shown: list[dict[str, Any]] = table.slice(0, limit).to_pylist()
    if as_json:
        for row in shown:
            typer.echo(json.dumps(row, ensure_ascii=False, default=str))
        return
    view = Table(box=None, pad_edge=False, header_style="bold")
    for name in table.column_names:
        view.add_column(name, justify="left" if name in columns else "right", style="cyan" if name in columns else None)
    for row in shown:
        view.add_row(*("–" if value is None else str(value) for value in row.values()))
    console.print(view)
    if table.num_rows > limit:
        console.print(f"{table.num_rows - limit:,} more keys; --limit shows more", style="dim")
