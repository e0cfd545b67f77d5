"""``foretide plan-spark``: what a topology becomes on Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from foretide.commands.topology_argument import SETTINGS_HELP, TOPOLOGY_HELP, load_topology_argument

__all__ = ["plan_spark"]


def plan_spark(
    file: Annotated[Path, typer.Argument(metavar="APP|FILE", help=TOPOLOGY_HELP)],
    replicas: Annotated[
        str | None, typer.Option(help="Replicas by operator, such as 'split=2,count=3'; else the initial ones.")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="As it would run with --live: tasks that stay.")] = False,
    tasks_per_slot: Annotated[int, typer.Option(min=1, max=16, help="Tasks for each slot.")] = 1,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=SETTINGS_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Explain what a topology becomes on Spark, before anything runs.

    Shows its stages, what runs in one task, where rows change tasks and why, and what a batch costs. Starts no Spark.

    [bold]Example:[/] foretide plan-spark examples/wordcount.py --replicas 'split=2,count=3'
    """
    from rich.console import Console

    from foretide.commands.running.plan_spark_view import render
    from foretide.compile.explain import explain
    from foretide.traces.replacement import parse_replicas, with_replicas

    topology = with_replicas(load_topology_argument(file, settings or ()), parse_replicas(replicas))
    plan = explain(topology, tasks_per_slot=tasks_per_slot, live=live)
    if as_json:
        typer.echo(json.dumps(plan.to_dict(), indent=2, ensure_ascii=False))
    else:
        Console().print(render(plan))
