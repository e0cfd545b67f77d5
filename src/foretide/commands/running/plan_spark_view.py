"""The plan of a topology on Spark for a terminal: stages, rounds, edges, and what a batch costs."""

from __future__ import annotations

from itertools import pairwise

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from foretide.compile.explain import Explanation, RoundView, StageView

__all__ = ["render"]

_LINKS = {
    "chained": ("→ stays", "green"),
    "exchanged": ("⇄ exchange", "yellow"),
    "queued": ("⇢ log", "magenta"),
    "topic": ("⇢ topic", "magenta"),
    "sink": ("◉ sink", "cyan"),
}


def render(plan: Explanation) -> RenderableType:
    """Return the plan for a terminal; 80 columns are enough."""
    parts: list[RenderableType] = [_heading(plan), Text()]
    for stage in plan.stages:
        parts.append(_panel(stage))
    parts += [Text(), _footer(plan)]
    if plan.missing:
        parts.append(Text(f"To run it, give a function to {', '.join(plan.missing)}.", style="yellow"))
    return Group(*parts)


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"


def _heading(plan: Explanation) -> Text:
    counts = (
        _count(len(plan.stages), "stage"),
        _count(plan.exchanges, "exchange"),
        _count(len(plan.queued), "queued edge"),
        _count(plan.slots, "slot"),
    )
    return Text.assemble((plan.topology, "bold"), ("  on Spark: ", "dim"), ", ".join(counts))


def _panel(stage: StageView) -> RenderableType:
    return Panel(
        Group(_flow(stage), Text(), _edges(stage), Text(), _cost(stage)),
        title=Text.assemble(" stage ", (stage.id, "bold cyan"), " "),
        title_align="left",
        subtitle=Text(
            " tasks that stay " if stage.live else " one streaming query, one Spark job per batch ", style="dim"
        ),
        subtitle_align="right",
        box=box.ROUNDED,
        border_style="cyan",
        padding=(1, 2),
    )


def _flow(stage: StageView) -> Table:
    """Return what happens to a batch, from top to bottom."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    kept = "topic" if stage.live else "log"
    for edge in stage.reads:
        table.add_row(Text("⇢ reads", style="magenta"), Text(f"the {kept} of {edge}"))
    for number, step in enumerate(stage.rounds):
        table.add_row(Text(f"round {step.number}", style="bold"), _runs(step, stage))
        if number + 1 < len(stage.rounds):
            table.add_row(Text("   ⇅", style="yellow"), Text(" and ".join(step.exchanges_after), style="yellow"))
    for edge in stage.writes:
        table.add_row(Text("⇢ writes", style="magenta"), Text(f"the {kept} of {edge}"))
    return table


def _runs(step: RoundView, stage: StageView) -> Text:
    known = {(edge.start, edge.end) for edge in stage.edges}
    ways = []
    for group in step.runs:
        line = all((start, end) in known for start, end in pairwise(group))
        ways.append((" → " if line else " · ").join(group))
    return Text(";  ".join(ways) or "rows are read and dealt out to tasks")


def _edges(stage: StageView) -> Table:
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
    summands = " + ".join(f"{operator} {count}" for operator, count in stage.replicas.items())
    sum_ = f"{summands} = {_count(stage.slots, 'slot')}" if summands else f"no operators: {_count(stage.slots, 'slot')}"
    rounds = _count(len(stage.rounds), "round")
    each, all_ = stage.tasks_per_batch // len(stage.rounds), _count(stage.tasks_per_batch, "task")
    what, words = "a batch", f"{rounds} of {each} tasks: {all_}"
    if stage.live:
        what, words = "tasks", f"{stage.slots} that stay, each on a core of its own"
    return Text.assemble(("replicas  ", "dim"), (sum_, "bold"), (f"\n{what:<10}", "dim"), (words, "bold"))


def _footer(plan: Explanation) -> Text:
    if any(stage.live for stage in plan.stages):
        return Text("Tasks that stay hold their cores: every live stage needs one at least.", style="dim")
    return Text(
        f"With {_count(plan.slots, 'core')} all tasks of a round run side by side; with fewer they take turns.",
        style="dim",
    )
