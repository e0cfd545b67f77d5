"""The worked example of PRESPS for a terminal: what was measured, every step, and the plan next to the paper's."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from foretide.experiments.presps_example import WorkedExample
from foretide.records import Term

__all__ = ["render"]

_COLOUR = "cyan"


def render(example: WorkedExample) -> RenderableType:
    """Return the example as a rich renderable that reads from top to bottom; 80 columns are enough.

    >>> from rich.console import Console
    >>> from foretide.experiments.presps_example import worked_example
    >>> Console(width=90).print(render(worked_example()))  # doctest: +ELLIPSIS
    <BLANKLINE>
    ...The worked example of PRESPS, table 4...
    """
    return Group(
        Text(),
        Rule(Text("The worked example of PRESPS, table 4", style="bold"), style=_COLOUR),
        Text(),
        Padding(_line(example), (0, 2)),
        Text(),
        _heading("1", f"What was measured in one interval of td = {example.measurement.duration_s:g} s"),
        Padding(_measured(example), (0, 2)),
        Text(),
        _heading("2", "From there to a plan, one equation at a time"),
        Padding(_steps(example), (0, 2)),
        Text(),
        _heading("3", "The plan for the next interval"),
        Padding(_plan(example), (0, 2)),
        Text(),
        Padding(_verdict(example), (0, 2)),
        Text(),
    )


def _heading(number: str, words: str) -> Text:
    return Text.assemble((f" {number} ", f"bold reverse {_COLOUR}"), " ", (words, "bold"), "\n")


def _line(example: WorkedExample) -> Text:
    """Return the line of operators with the share of each edge."""
    parts: list[tuple[str, str]] = [("in", "bold green")]
    for (_, _, end), share in zip(example.plan.layout.edges, example.situation.window.share.tolist(), strict=True):
        label = f"{example.measurement.arrived.sum():g} events" if not parts[1:] else f"θ {share:.3g}"
        parts += [(f" ──{label}──▶ ", "dim"), (end, "bold")]
    return Text.assemble(*parts)


def _measured(example: WorkedExample) -> Table:
    window = example.situation.window
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="dim")
    for name in ("operator", "et", "μ processed", "|q| queued"):
        table.add_column(name, justify="left" if name == "operator" else "right")
    for column, operator in enumerate(window.layout.operators):
        execution_ms = window.execution_s[column] * 1000
        table.add_row(operator, f"{execution_ms:.3g} ms", f"{window.processed[column]:g}", f"{window.queued[column]:g}")
    return table


def _steps(example: WorkedExample) -> Table:
    operators = example.plan.layout.operators
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="dim")
    table.add_column("symbol", no_wrap=True, style=f"bold {_COLOUR}")
    table.add_column("what it is and where it comes from", overflow="fold", ratio=1)
    for operator in operators:
        table.add_column(operator, justify="right", no_wrap=True)
    for term in example.plan.terms:
        unit = f", in {term.unit}" if term.unit else ""
        about = Text.assemble(f"{term.meaning}{unit}\n", (term.equation, "dim italic"))
        table.add_row(term.symbol, about, *_values(term, operators))
        if term.symbol in example.paper:
            printed = [Text(f"{value:g}", style="yellow") for value in example.paper[term.symbol]]
            table.add_row("", Text("the paper prints", style="yellow"), *printed)
        table.add_section()
    return table


def _values(term: Term, operators: tuple[str, ...]) -> list[str]:
    if isinstance(term.values, int | float):
        return [f"{term.values:g}", *("" for _ in operators[1:])]
    return [f"{term.value(column):.4g}" for column in range(len(operators))]


def _plan(example: WorkedExample) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for (operator, replicas), printed in zip(example.plan.by_operator().items(), example.paper["r"], strict=True):
        slots = Text(" ".join("■" * replicas), style=f"bold {_COLOUR}")
        paper = Text(f"the paper: {printed:g}", style="yellow")
        table.add_row(Text(operator, style="bold"), Text(str(replicas), style="bold"), slots, paper)
    return table


def _verdict(example: WorkedExample) -> Text:
    if not example.agrees:
        return Text("✗ The plan differs from the paper's.", style="bold red")
    reason = "The paper rounds every load up to whole events (84, 91, 63, 83); the plan rounds once, at the end."
    return Text.assemble(("✓ The same replicas as in the paper. ", "bold green"), (reason, "dim"))
