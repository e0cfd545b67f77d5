"""``foretide plan-spark``: what a topology becomes on Spark."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from foretide.spark.explain import Explanation, RoundView, StageView

__all__ = ["plan_spark", "render"]

_LINKS = {
    "chained": ("→ stays", "green"),
    "exchanged": ("⇄ exchange", "yellow"),
    "queued": ("⇢ log", "magenta"),
    "sink": ("◉ sink", "cyan"),
}


def plan_spark(
    file: Annotated[
        Path, typer.Argument(metavar="TOPOLOGY", help="The topology: a .toml, .yaml, .yml or .py file.")
    ],
    replicas: Annotated[
        str | None, typer.Option(help="Replicas by operator, such as 'split=2,count=3'; else the initial ones.")
    ] = None,
    tasks_per_slot: Annotated[int, typer.Option(min=1, max=16, help="Tasks for each slot.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Explain what a topology becomes on Spark, before anything runs.

    Shows its stages, what runs in one task, where rows change tasks and why, and what a batch costs. Starts no Spark.

    [bold]Example:[/] foretide plan-spark examples/wordcount.py --replicas 'split=2,count=3'
    """
    from rich.console import Console

    from foretide.spark.explain import explain
    from foretide.spark.overrides import parse_replicas, with_replicas
    from foretide.topology.loader import load_topology

    topology = with_replicas(load_topology(file), parse_replicas(replicas))
    plan = explain(topology, tasks_per_slot=tasks_per_slot)
    if as_json:
        typer.echo(json.dumps(plan.to_dict(), indent=2, ensure_ascii=False))
    else:
        Console().print(render(plan))


def render(plan: Explanation) -> RenderableType:
    """Return the plan for a terminal; 80 columns are enough."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [_heading(plan), Text()]
    for stage in plan.stages:
        parts.append(_panel(stage))
    parts += [Text(), _footer(plan)]
    parts += [Text.assemble(("! ", "bold red"), missing, (": it can be planned, not run", "dim")) for missing in plan.missing]
    return Group(*parts)


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"


def _heading(plan: Explanation) -> Text:
    from rich.text import Text

    counts = (
        _count(len(plan.stages), "stage"),
        _count(plan.exchanges, "exchange"),
        _count(len(plan.queued), "queued edge"),
        _count(plan.slots, "slot"),
    )
    return Text.assemble((plan.topology, "bold"), ("  on Spark: ", "dim"), ", ".join(counts))


def _panel(stage: StageView) -> RenderableType:
    from rich import box
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    return Panel(
        Group(_flow(stage), Text(), _edges(stage), Text(), _cost(stage)),
        title=Text.assemble(" stage ", (stage.id, "bold cyan"), " "),
        title_align="left",
        subtitle=Text(" one streaming query, one Spark job per batch ", style="dim"),
        subtitle_align="right",
        box=box.ROUNDED,
        border_style="cyan",
        padding=(1, 2),
    )


def _flow(stage: StageView) -> Table:
    """Return what happens to a batch, from top to bottom."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for edge in stage.reads:
        table.add_row(Text("⇢ reads", style="magenta"), Text(f"the log of {edge}"))
    for number, step in enumerate(stage.rounds):
        table.add_row(Text(f"round {step.number}", style="bold"), _runs(step, stage))
        if number + 1 < len(stage.rounds):
            table.add_row(Text("   ⇅", style="yellow"), Text(" and ".join(step.exchanges_after), style="yellow"))
    for edge in stage.writes:
        table.add_row(Text("⇢ writes", style="magenta"), Text(f"the log of {edge}"))
    return table


def _runs(step: RoundView, stage: StageView) -> Text:
    from rich.text import Text

    known = {edge.edge.partition(" -> ")[0].partition("[")[0] + " " + edge.edge.partition(" -> ")[2] for edge in stage.edges}
    ways = []
    for group in step.runs:
        line = all(f"{start} {end}" in known for start, end in pairwise(group))
        ways.append((" → " if line else " · ").join(group))
    return Text(";  ".join(ways) or "rows are read and dealt out to tasks")


def _edges(stage: StageView) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="dim")
    table.add_column("edge", overflow="fold")
    table.add_column("grouping", overflow="fold")
    table.add_column("rows", no_wrap=True)
    table.add_column("why", style="dim", overflow="fold", ratio=1)
    for edge in stage.edges:
        words, style = _LINKS[edge.link]
        table.add_row(edge.edge.replace(" -> ", " → "), edge.grouping, Text(words, style=style), edge.why)
    return table


def _cost(stage: StageView) -> Text:
    from rich.text import Text

    summands = " + ".join(f"{operator} {count}" for operator, count in stage.replicas.items())
    sum_ = f"{summands} = {_count(stage.slots, 'slot')}" if summands else f"no operators: {_count(stage.slots, 'slot')}"
    rounds = _count(len(stage.rounds), "round")
    return Text.assemble(
        ("replicas  ", "dim"),
        (sum_, "bold"),
        ("\na batch   ", "dim"),
        (f"{rounds} of {stage.tasks_per_batch // len(stage.rounds)} tasks: {_count(stage.tasks_per_batch, 'task')}", "bold"),
    )


def _footer(plan: Explanation) -> Text:
    from rich.text import Text

    return Text(
        f"With {_count(plan.slots, 'core')} all tasks of a round run side by side; with fewer they take turns.",
        style="dim",
    )
