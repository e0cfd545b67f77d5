"""``foretide planners``: what can plan."""

from __future__ import annotations

import json
from typing import Annotated

import typer

__all__ = ["planners"]

_WIDE = 160


def planners(
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List every planner with what it does.

    The second column names the requirement of the specification, or the other system, that it follows. Planners that
    other packages offer are listed as well.

    [bold]Example:[/] foretide planners
    """
    from foretide.commands.group import console_for
    from foretide.commands.terminal import plain_table
    from foretide.plan.registry import all_planners

    known = all_planners()
    if as_json:
        found = [_entry(name, kind.summary, kind.spec, kind.needs_forecast) for name, kind in known.items()]
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    table = plain_table("planner")
    table.add_column("follows", style="dim", no_wrap=True)
    table.add_column("forecast", justify="center", no_wrap=True)
    table.add_column("plans from")
    for name, kind in known.items():
        table.add_row(name, ", ".join(kind.spec), "yes" if kind.needs_forecast else "", kind.summary)
    console_for(None, _WIDE).print(table)


def _entry(name: str, summary: str, spec: tuple[str, ...], needs_forecast: bool) -> dict[str, object]:
    return {"name": name, "summary": summary, "spec": list(spec), "needs_forecast": needs_forecast}
