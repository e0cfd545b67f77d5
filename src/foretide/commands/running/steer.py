"""``foretide steer``: a detached controller, in a process of its own. It needs no Spark."""

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
    path: Annotated[
        str,
        typer.Option(help="The directory that it runs in, on this machine, or its URI: its --path.", metavar="DIR|URI"),
    ],
    policy: Annotated[
        str | None, typer.Option(help="Who decides: a planner, as in 'pasps' or 'pasps:lr', static-min or static-peak.")
    ] = None,
    forecaster: Annotated[str | None, typer.Option(help="Who looks ahead, for a policy that needs it.")] = None,
    models: Annotated[
        Path | None,
        typer.Option(help="Trained models of the forecaster; else those of earlier runs of it.", metavar="DIR"),
    ] = None,
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
    from foretide.commands.running.request import RunRequest
    from foretide.control.detached import detached_loop, steer_detached
    from foretide.store import RunStore, default_store

    with RunStore(default_store() if store is None else store) as kept:
        info = kept.run(run).info
        topology = info.topology()
        request = RunRequest(
            named=info.name,
            policy=policy,
            forecaster=forecaster,
            td_s=td,
            advisory=advisory,
            config=config,
            store=store,
            models=models,
        )
        steering = request.steering(topology, events=_Printed(as_json))
        typer.echo(f"steering run {info.id} ({info.name}) with {steering.policy_name}", err=as_json)
        loop = detached_loop(topology, path, kept, info.id, steering)
        steer_detached(loop, kept, info.id, retraining=steering.settings.retraining)


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
