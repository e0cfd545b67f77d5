"""``foretide steer``: a controller in a process of its own, beside the driver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from foretide.events import Event

__all__ = ["steer"]


def steer(
    run: Annotated[str, typer.Argument(help="The run: an id, the beginning of one, a name, or 'latest'.")],
    path: Annotated[Path, typer.Option(help="The directory that it runs in: its --path.", metavar="DIR")],
    policy: Annotated[str | None, typer.Option(help="Who decides: a planner.")] = None,
    forecaster: Annotated[str | None, typer.Option(help="Who looks ahead, for a policy that needs it.")] = None,
    td: Annotated[float | None, typer.Option(help="Seconds between two decisions; 3 unless given.")] = None,
    advisory: Annotated[bool, typer.Option("--advisory", help="Decide and show, but change nothing.")] = False,
    config: Annotated[
        Path | None, typer.Option(help="Settings of loop, planners, forecasters and guards.", metavar="TOML")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            help="Where it is recorded, a file or postgresql://...; else $FORETIDE_STORE, else in your data folder.",
            metavar="FILE|URL",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print each event as a line of JSON.")] = False,
) -> None:
    """Steer a run of another process until it ends, and print what is decided.

    The driver records what it measures, this process reads it there and writes the plan that the driver watches. If it
    dies, the stream goes on with the last plan; started again, it begins with what was recorded.

    [bold]Example:[/] foretide steer wordcount --path run --store runs.db --policy pasps

    [bold]The run, meanwhile:[/] foretide run examples/wordcount.py --path run --store runs.db
    """
    from foretide.commands.running.run_control import Asked, default_policy, prepare
    from foretide.control.detached import BesideOptions, control_beside, steer_beside
    from foretide.control.policies import find_policy
    from foretide.store import RunStore, default_store

    kept = RunStore(default_store() if store is None else store)
    info = kept.run(run).info
    topology = info.topology()
    asked = Asked(policy=policy, forecaster=forecaster, td_s=td, advisory=advisory, config=config)
    prepared = prepare(topology, asked, info.name)
    chosen = find_policy(policy or prepared.planner_of_file or default_policy(), prepared.setting)
    options = BesideOptions(planner=chosen.planner, events=_Printed(as_json))
    typer.echo(f"steering run {info.id} ({info.name}) with {chosen.name}", err=as_json)
    steer_beside(control_beside(topology, path, kept, info.id, prepared.setting.control, options), kept, info.id)


class _Printed:
    """Prints events as they come, for people or as lines of JSON."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def emit(self, event: Event) -> None:
        """Print one."""
        if self._as_json:
            body = {"at_s": event.at_s, "kind": event.kind, "severity": event.severity, "message": event.message}
            typer.echo(json.dumps({**body, "data": dict(event.data)}, ensure_ascii=False, default=str))
        else:
            typer.echo(f"{event.kind}: {event.message}")
