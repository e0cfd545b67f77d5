"""``foretide run --compare``: policies one after another on the same input, on Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretide.commands.group import write_file
from foretide.errors import ConfigError

if TYPE_CHECKING:
    from foretide.commands.run import Session
    from foretide.commands.run_control import Asked
    from foretide.topology import Topology

__all__ = ["parse_names", "run_comparison"]


def run_comparison(
    names: str, session: Session, asked: Asked, load: Callable[..., Topology], json_out: Path | None
) -> None:
    """Run each policy, print one table, and write it as JSON if asked to."""
    from rich.console import Console

    from foretide.commands.run import StopSwitch, finish_record, trace_name
    from foretide.commands.run_control import prepare
    from foretide.commands.run_view import ProgressView, comparison_view
    from foretide.spark.policies import find_policy
    from foretide.spark.steered_run import run_steered

    policies = parse_names(names)
    if session.path is not None:
        raise ConfigError("--path", expected="none, since every policy starts afresh", got=str(session.path))
    prepared = prepare(session.topology, asked, session.named)
    for policy in policies:  # before Spark is started, and before the first of them has run for minutes
        find_policy(policy, prepared.setting)
    console, trace, rows = Console(), trace_name(session.topology), list[dict[str, Any]]()
    store = session.store()
    with ExitStack() as stack:
        stack.callback(lambda: store is not None and store.close())
        view = stack.enter_context(ProgressView(console, session.topology.name))
        spark = stack.enter_context(session.spark())
        switch = stack.enter_context(StopSwitch.installed(view))
        for number, policy in enumerate(policies, start=1):
            view.retitle(f"{session.topology.name}: {policy} ({number} of {len(policies)})")
            view.say("waiting for the first batch")
            with ExitStack() as inner:
                directory = session.directory(inner)
                # Each run has results of its own, in which events are counted.
                topology = load(f"store={directory / 'results.db'}") if session.application else session.topology
                own = replace(prepared, setting=replace(prepared.setting, topology=topology))
                options, replicas = own.options(policy, store, trace)
                how = session.options(replicas, steered=True)
                steered = run_steered(topology, spark, directory / "run", how, options, switch)
            finish_record(options.recorder, steered, trace)
            rows.append(steered.row(trace))
            if json_out is not None:
                # After every run: what is done is kept, whatever becomes of the next.
                json_out.write_text(json.dumps({"rows": rows}, indent=2) + "\n", encoding="utf-8")
            if steered.report.ending == "interrupted":
                break
    console.print(comparison_view(rows))
    if json_out is not None:
        write_file(json_out, json.dumps({"rows": rows}, indent=2, ensure_ascii=False) + "\n", "--json")


def parse_names(text: str) -> list[str]:
    """Read the names of policies.

    >>> parse_names("static-min, foretide")
    ['static-min', 'foretide']

    Raises
    ------
    ConfigError
        When there is none.
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ConfigError("--compare", expected="policies, such as 'static-peak,foretide'", got=repr(text))
    return names
