"""The account of a decision for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from foretide.commands.runs_view import duration, seconds
from foretide.commands.terminal import plain_table
from foretide.control.decision import Explanation

__all__ = ["account_view"]

_STYLES = {"applied": "green", "refused": "red", "failed": "red", "skipped": "yellow", "advised": "yellow"}


def account_view(account: Mapping[str, Any], chains: Sequence[Explanation]) -> RenderableType:
    """Return the account of a decision for a terminal, with the chains of equations of some operators."""
    parts: list[RenderableType] = [_head(account), Text(), _facts(account)]
    if account["counts"]:
        parts += [Text(), _counts_table(account)]
    if account["notes"]:
        parts += [Text(), Text("notes", style="bold")]
        parts += [Text(f"  {note}", style="yellow" if note in account["warnings"] else "") for note in account["notes"]]
    for one in chains:
        thing = "of the slots of its stage" if account["unit"] == "slots" else "replicas"
        title = f"{one.operator}: {one.replicas} {thing}"
        parts += [Text(), Text(title, style="bold"), *(Text(line) for line in one.chain)]
    return Group(*parts)


def _head(account: Mapping[str, Any]) -> Text:
    outcome = account["failure"] or account["detail"]
    decided_by = ", ".join(text for text in (account["policy"], account["forecaster"]) if text)
    return Text.assemble(
        (account["name"], "bold"),
        (f"  {account['run']}", "dim"),
        f"\ncycle {account['cycle']} at {duration(account['at_s'])}",
        (f"  {account['at'][:19].replace('T', ' ')} UTC, decided by {decided_by}\n", "dim"),
        (account["status"], _STYLES.get(account["status"], "")),
        f": {outcome}" if outcome else "",
        f"\n{account['change'] or 'no change'}",
        f": {account['reason']}" if account["reason"] and account["reason"] != outcome else "",
    )


def _facts(account: Mapping[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, text in (
        ("input", _input(account["input"])),
        ("backlog", _events(account["input"]["backlog"])),
        ("latency", _latency(account["latency"])),
        ("promise", _promise(account["latency"])),
    ):
        if text:
            table.add_row(Text(name, style="bold"), text)
    return table


def _input(rates: Mapping[str, float | None]) -> str:
    seen, expected, low, high = (rates[f"{name}_per_s"] for name in ("seen", "expected", "low", "high"))
    texts = [] if seen is None else [f"{seen:,.0f}/s seen"]
    if expected is not None:
        between = "" if low is None or high is None else f" ({low:,.0f} to {high:,.0f})"
        texts.append(f"{expected:,.0f}/s expected{between}")
    return ", ".join(texts)


def _events(count: float | None) -> str:
    return "" if count is None else f"{count:,.0f} events" if count else "none"


def _latency(latency: Mapping[str, Any] | None) -> str:
    return f"p50 {_brief(latency['p50_s'])}, p95 {_brief(latency['p95_s'])} expected" if latency else ""


def _promise(latency: Mapping[str, Any] | None) -> str:
    if latency is None or latency["broken"] is None:
        return ""
    promise = f"{latency['promise']}: " if latency["promise"] else ""
    return f"{promise}planned for {_brief(latency['planned_for_s'])}, likelihood of breaking it {latency['broken']:.1%}"


def _brief(value: float | None) -> str:
    """Return seconds in three digits.

    >>> _brief(0.43219), _brief(1.23456), _brief(None)
    ('432 ms', '1.23 s', '–')
    """
    return seconds(value if value is None or value < 1 else float(f"{value:.3g}"))


def _counts_table(account: Mapping[str, Any]) -> Table:
    by_stage = account["unit"] == "slots"
    table = plain_table("stage" if by_stage else "operator", (f"{account['unit']} now → planned",))
    if by_stage:
        table.add_column("hired by the batch", overflow="fold")
        table.add_column("operators' parts", overflow="fold")
    for one in account["counts"]:
        less = "" if one["requested"] in (None, one["planned"]) else f" (requested {one['requested']})"
        counts = f"{'–' if one['now'] is None else one['now']} → {one['planned']}{less}"
        parts = ", ".join(f"{name} {part}" for name, part in one["parts"].items())
        table.add_row(one["name"], counts, *((_hiring(one["hiring"]), parts) if by_stage else ()))
    return table


def _hiring(rule: Mapping[str, Any] | None) -> str:
    if rule is None:
        return "fixed"
    events = rule["share_s"] / rule["event_s"]
    return f"a slot for {_brief(rule['share_s'])} of work ({events:,.0f} events), {rule['least']} to {rule['most']}"
