"""``foretide run --compare``: policies one after another on the same input, on Spark."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretide.commands.group import STDOUT, console_for, exit_if_failed, write_file
from foretide.commands.running.launch import StopSwitch, run_steered, trace_name, watched_session
from foretide.commands.running.run_view import comparison_view
from foretide.control.starting.rehearsal import Rehearsal
from foretide.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from foretide.commands.running.request import RunRequest
    from foretide.control.policies import Policy
    from foretide.spark.driver.run import RunOptions
    from foretide.spark.steering.steered_run import SteeredRun
    from foretide.store import RunStore
    from foretide.topology import Topology

__all__ = ["run_comparison"]

_WARM_UP_S = 10.0


def run_comparison(
    names: str, request: RunRequest, options: RunOptions, load: Callable[..., Topology], json_out: Path | None
) -> None:
    """Run each policy, print one table, and write it as JSON if asked to."""
    policies = request.policies(names, "--compare")
    if options.path is not None:
        raise ConfigError("--path", expected="none, since every policy starts afresh", got=str(options.path))
    # Before Spark is started, and before the first of them has run for minutes.
    for steering in [request.steering(options.topology, policy) for policy in policies]:
        Rehearsal(options.topology, steering).start()
    console, store = console_for(json_out), request.open_store()
    with (
        nullcontext() if store is None else store,
        watched_session(request, options.topology, console) as (spark, view, switch),
    ):
        comparison = _Comparison(request, options, load, spark, switch)
        view.say("warming up, so that the first policy does not pay for it")
        comparison.run(policies[0], _WARM_UP_S, None)
        rows: list[dict[str, Any]] = []
        for number, policy in enumerate(policies, start=1):
            if switch.stopping():
                break
            view.retitle(f"{options.topology.name}: {policy.name} ({number} of {len(policies)})")
            view.say("waiting for the first batch")
            rows.append(comparison.run(policy, options.seconds, store).row(trace_name(options.topology)))
            if json_out not in (None, STDOUT):
                # After every run: what is done is kept, whatever becomes of the next.
                json_out.write_text(_document(rows), encoding="utf-8")
    console.print(comparison_view(rows))
    if json_out is not None:
        write_file(json_out, _document(rows), "--json")
    exit_if_failed(sum(row["failed"] for row in rows))


@dataclass(frozen=True)
class _Comparison:
    """Policies on the same input, each from a fresh start, in one Spark session."""

    request: RunRequest
    options: RunOptions
    load: Callable[..., Topology]
    spark: SparkSession
    switch: StopSwitch

    def run(self, policy: Policy, seconds: float | None, store: RunStore | None) -> SteeredRun:
        with tempfile.TemporaryDirectory(prefix="foretide-", ignore_cleanup_errors=True) as folder:
            directory, topology = Path(folder), self.options.topology
            if self.request.application:
                # Each run has results of its own, in which events are counted.
                topology = self.load(f"store={directory / 'results.db'}")
            options = replace(self.options, topology=topology, path=directory / "run", seconds=seconds)
            return run_steered(self.spark, options, self.request.steering(topology, policy), self.switch, store)


def _document(rows: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"rows": rows}, indent=2, ensure_ascii=False) + "\n"
