"""``foretide run --compare``: policies one after another on the same input, on Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretide.commands.group import STDOUT, console_beside, write_file
from foretide.errors import ConfigError

if TYPE_CHECKING:
    from foretide.commands.running.run import Session, StopSwitch
    from foretide.commands.running.run_control import Asked, Prepared
    from foretide.commands.running.run_view import ProgressView
    from foretide.spark.steering.steered_run import SteeredRun
    from foretide.store import RunStore
    from foretide.topology import Topology

__all__ = ["parse_names", "run_comparison"]

_WARM_UP_S = 10.0


def run_comparison(
    names: str, session: Session, asked: Asked, load: Callable[..., Topology], json_out: Path | None
) -> None:
    """Run each policy, print one table, and write it as JSON if asked to."""
    from foretide.commands.running.run import StopSwitch
    from foretide.commands.running.run_control import prepare
    from foretide.commands.running.run_view import ProgressView, comparison_view
    from foretide.control.policies import find_policy

    policies = parse_names(names)
    if session.path is not None:
        raise ConfigError("--path", expected="none, since every policy starts afresh", got=str(session.path))
    prepared = prepare(session.topology, asked, session.named)
    for policy in policies:  # before Spark is started, and before the first of them has run for minutes
        find_policy(policy, prepared.setting)
    console = console_beside(json_out)
    with ExitStack() as stack:
        store = session.store()
        stack.callback(lambda: store is not None and store.close())
        view = stack.enter_context(ProgressView(console, session.topology.name))
        spark = stack.enter_context(session.spark())
        switch = stack.enter_context(StopSwitch.installed(view))
        rows = _Comparison(session, prepared, load, spark, switch, store).run_all(policies, view, json_out)
    console.print(comparison_view(rows))
    if json_out is not None:
        write_file(json_out, _document(rows), "--json")


@dataclass(frozen=True)
class _Comparison:
    """Policies on the same input, each from a fresh start, in one Spark session."""

    session: Session
    prepared: Prepared
    load: Callable[..., Topology]
    spark: Any
    switch: StopSwitch
    store: RunStore | None

    def run_all(self, policies: Sequence[str], view: ProgressView, json_out: Path | None) -> list[dict[str, Any]]:
        from foretide.commands.running.run import trace_name

        trace, rows = trace_name(self.session.topology), list[dict[str, Any]]()
        view.say("warming up, so that the first policy does not pay for it")
        self.run(policies[0], trace, _WARM_UP_S, None)
        for number, policy in enumerate(policies, start=1):
            view.retitle(f"{self.session.topology.name}: {policy} ({number} of {len(policies)})")
            view.say("waiting for the first batch")
            steered = self.run(policy, trace, self.session.seconds, self.store)
            rows.append(steered.row(trace))
            if json_out not in (None, STDOUT):
                # After every run: what is done is kept, whatever becomes of the next.
                json_out.write_text(_document(rows), encoding="utf-8")
            if self.switch.stopping():
                break
        return rows

    def run(self, policy: str, trace: str, seconds: float | None, store: RunStore | None) -> SteeredRun:
        from foretide.commands.running.run import finish_record
        from foretide.spark.steering.steered_run import run_steered

        with ExitStack() as stack:
            directory, topology = self.session.directory(stack), self.session.topology
            if self.session.application:
                # Each run has results of its own, in which events are counted.
                topology = self.load(f"store={directory / 'results.db'}")
            own = replace(self.prepared, setting=replace(self.prepared.setting, topology=topology))
            options, replicas = own.options(policy, store, trace)
            how = replace(self.session.options(replicas, steered=True), seconds=seconds)
            steered = run_steered(topology, self.spark, directory / "run", how, options, self.switch)
        finish_record(options.recorder, steered, trace)
        return steered


def _document(rows: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"rows": rows}, indent=2, ensure_ascii=False) + "\n"


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
