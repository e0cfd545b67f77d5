"""``foretide why``: why a recorded run decided as it did."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from foretide.commands.group import console_for
from foretide.commands.runs import Run, Store
from foretide.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["why"]

_WIDE = 160


def why(
    run: Run,
    cycle: Annotated[
        str | None,
        typer.Argument(help="The number of a cycle; by default the last one that changed something.", metavar="CYCLE"),
    ] = None,
    operator: Annotated[
        str | None,
        typer.Argument(help="Explain only this operator, with every equation.", metavar="OPERATOR"),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List all cycles instead, a line for each.")] = False,
    store: Store = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Explain a decision of a recorded run: what was seen and expected, what was planned, and what became of it.

    An operator may stand in the place of the cycle.

    [bold]Example:[/] foretide why latest

    [bold]Cycle 12:[/] foretide why latest 12

    [bold]One operator, with every equation:[/] foretide why latest 12 classify

    [bold]Which cycles there are:[/] foretide why latest --all
    """
    from foretide.commands.reasons import decision_account, find_decision, require_operator
    from foretide.commands.runs_view import decision_entry, decisions_table
    from foretide.commands.why_view import account_view
    from foretide.control.recorded import recalled
    from foretide.store import RunStore, default_store

    number, name = _cycle_and_operator(cycle, operator)
    if every and (cycle or operator):
        raise ConfigError(
            "--all", expected="no CYCLE and no OPERATOR beside it", got=repr(cycle or operator), remedy="leave one out"
        )
    with RunStore(store or default_store()) as runs:
        found = runs.run(run)
        if name is not None:
            require_operator(found.info, name)
        if every:
            entries = [decision_entry(one, found.info) for one in found.decisions()]
            table = decisions_table(entries, brief=True)
            shown: RenderableType = table if entries else f"run {found.id} has no decisions"
            data: object = entries
        else:
            decision = find_decision(found, number)
            account = decision_account(decision, found.info, name)
            # Slots of stages are explained as a whole; their equations are shown for one operator at a time.
            chained = name is not None or account["unit"] == "replicas"
            shown = account_view(account, recalled(decision).explain(name) if chained else ())
            data = account
    if as_json:
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        console_for(None, _WIDE).print(shown)


def _cycle_and_operator(cycle: str | None, operator: str | None) -> tuple[int | None, str | None]:
    """Return the cycle and the operator; a name in the place of the cycle is an operator.

    >>> _cycle_and_operator("12", None), _cycle_and_operator("classify", None)
    ((12, None), (None, 'classify'))
    """
    if cycle is None or cycle.isdecimal():
        return None if cycle is None else int(cycle), operator
    if operator is not None:
        raise ConfigError("CYCLE", expected="the number of a cycle", got=repr(cycle), remedy="`--all` lists them")
    return None, cycle
