"""``foretide profile``: how long an event takes at each operator, before anything is deployed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretide.commands.group import write_file
from foretide.commands.topology_argument import SETTINGS_HELP, TOPOLOGY_HELP, load_topology_argument

if TYPE_CHECKING:
    from rich.table import Table

    from foretide.control.profiles import Profile
    from foretide.topology import Topology

__all__ = ["profile"]


def profile(
    topology: Annotated[str, typer.Argument(metavar="APP|FILE", help=TOPOLOGY_HELP)],
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=SETTINGS_HELP)] = None,
    events: Annotated[int, typer.Option(min=1, help="Events of each source to try.")] = 2_000,
    seconds: Annotated[float, typer.Option(min=0.01, help="The most time for one operator.")] = 5.0,
    out: Annotated[
        Path | None,
        typer.Option(help="Where to store it; else where foretide run looks for it.", metavar="JSON"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the times as JSON.")] = False,
) -> None:
    """Benchmark every operator of a topology with the events of its traces, and store what an event takes there.

    Operators are called here, as tasks would call them; no Spark is started. ``foretide run`` begins with these times,
    and reports when those that it measures drift away from them.

    [bold]Example:[/] foretide profile twitter-classification
    """
    from rich.console import Console

    from foretide.control.profiles import profile_path
    from foretide.spark.driver.profile import profile_topology

    built = load_topology_argument(topology, settings or ())
    found = profile_topology(built, events=events, seconds=seconds)
    if as_json:
        typer.echo(found.to_json(), nl=False)
    else:
        Console().print(_table(found, built))
    write_file(profile_path(topology) if out is None else out, found.to_json(), "--out")


def _table(found: Profile, built: Topology) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("operator", style="bold cyan", no_wrap=True)
    for title in ("per event", "declared", "one replica", "passes on", "events"):
        table.add_column(title, justify="right", no_wrap=True)
    for id, part in found.operators.items():
        declared = built.operator(id).execution_s
        table.add_row(
            id,
            _time(part.execution_s),
            "–" if declared is None else _time(declared),
            f"{1 / part.execution_s:,.0f}/s" if part.execution_s else "–",
            ", ".join(f"{share:.3g}" for share in part.selectivity.values()),
            f"{part.events:,}",
        )
    return table


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} µs" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"
