"""``foretide compare``: many policies on many traces."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretide.commands.group import check_writable, console_for, write_file

if TYPE_CHECKING:
    from foretide.sim.compare import Scenario

__all__ = ["compare"]

_WIDE = 140
_INTERRUPTED = 130


def compare(
    traces: Annotated[
        list[str],
        typer.Option(
            help="Inputs: shipped names, patterns and CSV files, separated by commas or spaces.", metavar="A,B"
        ),
    ],
    policies: Annotated[
        str,
        typer.Option(
            help="Planners, each with its own forecaster after a colon if wanted; static-min, static-peak.",
            metavar="A,B",
        ),
    ],
    more_traces: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TRACE]...", help="More inputs, as when a shell expands --traces *.csv.", show_default=False
        ),
    ] = None,
    forecaster: Annotated[
        str, typer.Option(help="The forecaster of policies that need one and do not name it; 'none' for none.")
    ] = "auto",
    td: Annotated[float, typer.Option(help="Seconds between two decisions, for all.")] = 30.0,
    stress: Annotated[
        bool,
        typer.Option("--stress", help="Service 10 % slower than believed, noise of CV .2, replicas active after 5 s."),
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Runs with different randomness: seeds 0, 1, and so on.")] = 1,
    topology: Annotated[
        str, typer.Option(help="A topology file or an application; 'pasps' is the paper's, calibrated for each trace.")
    ] = "pasps",
    warm_up: Annotated[float, typer.Option(help="Seconds at the start that the metrics leave out.")] = 30.0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting, such as 'static.replicas=8', 'lr.window=20', 'sim.queue_bound=1000'."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; by default as many as there are cores.")] = None,
    json_out: Annotated[
        Path | None, typer.Option("--json", help="Write a row for every run to this file; - prints it.", metavar="OUT")
    ] = None,
) -> None:
    """Simulate many policies on many traces, side by side, and show which of them no other beats.

    For each trace the table shows the mean over the seeds. A dot marks the Pareto front: no other policy saves as much
    with as little latency (mean and p99) and as many events processed. For the others it names one that beats them.

    'static' keeps the replicas that the peak needs, unless --set static.replicas=N. On the paper's topology its
    forecasters look back on twelve samples of 5 s, as the authors set them.

    [bold]Example:[/] foretide compare --traces 'pasps_*' --policies pasps:ann,pasps:basic,presps,ds2,static --td 5
    --stress --seeds 5 --json out.json

    [bold]Own traffic:[/] foretide compare --traces week/*.csv --policies pasps,ds2,threshold --topology
    job.toml --td 10
    """
    from foretide.commands.simulating.compare_view import CompareView, comparison
    from foretide.commands.simulating.scenarios import GROUPS, CommonOptions, find_traces, read_topology, scenario
    from foretide.commands.simulating.simulate import seconds_between
    from foretide.control.policies import parse_policies, parse_settings
    from foretide.sim.compare import Case, run_cases

    check_writable(json_out, "--json")
    named = parse_policies(policies, None if forecaster == "none" else forecaster)
    chosen_policies, groups = parse_settings(settings or [], named, GROUPS)
    common = CommonOptions(
        topology=read_topology(topology),
        td_s=seconds_between(td),
        stress=stress,
        warm_up_s=warm_up,
        settings=groups,
    )
    scenarios: list[Scenario] = [scenario(trace, common) for trace in find_traces([*traces, *(more_traces or ())])]
    cases = [Case(what, policy, seed) for what in scenarios for policy in chosen_policies for seed in range(seeds)]
    console = console_for(json_out, _WIDE)
    try:
        with CompareView(console, len(cases)) as view:
            rows = run_cases(cases, jobs or _cores(), view.show)
    except KeyboardInterrupt:
        typer.echo("interrupted: nothing was written", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    console.print(comparison(rows))
    if json_out is not None:
        write_file(json_out, json.dumps({"rows": rows}, indent=1, ensure_ascii=False, allow_nan=False) + "\n", "--json")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
