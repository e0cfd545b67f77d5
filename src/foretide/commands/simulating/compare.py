"""``foretide compare``: many policies on many traces."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretide.commands.group import check_writable, console_for, interrupted, write_file

if TYPE_CHECKING:
    from foretide.sim.compare import Scenario

__all__ = ["compare"]

_WIDE = 140


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
    slo: Annotated[
        str | None,
        typer.Option(
            help="A promise such as 'p95<800ms', with --set sim.micro_batch: foretide takes the fewest slots that keep "
            "it, and rows say how often it was kept and at what cost.",
            metavar="pNN<TIME",
        ),
    ] = None,
    topology: Annotated[
        str, typer.Option(help="A topology file or an application; 'pasps' is the paper's, calibrated for each trace.")
    ] = "pasps",
    warm_up: Annotated[float, typer.Option(help="Seconds at the start that the metrics leave out.")] = 30.0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting, such as 'static.replicas=8', 'lr.window=20', 'sim.queue_bound=1000'."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; by default as many as there are cores.")] = None,
    front: Annotated[
        bool,
        typer.Option("--front", help="Sweep the knob of every policy, and compare fronts of cost and waiting."),
    ] = False,
    front_metric: Annotated[
        str, typer.Option(help="What fronts measure of latencies: mean, p95 or p99.", metavar="METRIC")
    ] = "p95",
    grids: Annotated[
        list[str] | None,
        typer.Option("--grid", help="Values of a knob for --front, such as 'foretide.patience=0.5,1,2'."),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            help="With --front: keep every run in this file, so that the same command goes on where it stopped."
        ),
    ] = None,
    html_out: Annotated[
        Path | None, typer.Option("--html", help="Draw the fronts on this page.", metavar="OUT.html")
    ] = None,
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

    One setting of a policy is one point. With --front each policy is run at many settings of its own knob (of foretide
    the patience, or on batches the promise, of a lag rule limit and cool-down, of policies that size by load how busy
    replicas may be), and compared by the front of its points: cost, as a part of the static peak, and latency. For each
    trace the table shows the part of the plane that a front covers (hypervolume), and its cost ÷ that of a plan that
    knew the future (regret). --set sim.micro_batch.fixed_s=0.2 runs batches as on Spark.

    With --slo, and batches, policies are measured by a promise: 'kept' is the share of intervals in which it was kept,
    '÷ clairv.' the slot-seconds ÷ those of a plan that knew the input and kept it in every interval.

    [bold]Promises:[/] foretide compare --traces 'pasps_*' --policies foretide,pasps --td 5 --slo 'p95<1200ms' --set
    sim.micro_batch.fixed_s=0.2 --set sim.micro_batch.trigger_s=0.5

    [bold]Fronts:[/] foretide compare --front --traces 'pasps_*,made:*' --policies foretide,pasps,ds2,threshold,static
    --td 5 --stress --seeds 5 --html fronts.html --json fronts.json --keep fronts.jsonl
    """
    from foretide.commands.simulating.compare_view import CompareView, comparison
    from foretide.commands.simulating.scenarios import GROUPS, CommonOptions, find_traces, read_topology, scenario
    from foretide.commands.simulating.simulate import seconds_between
    from foretide.control.policies import parse_policies, parse_settings
    from foretide.sim.compare import Case, run_cases

    for path, option in ((html_out, "--html"), (json_out, "--json"), (keep, "--keep")):
        check_writable(path, option)
    if not front:
        _only_with_front({"--html": html_out, "--grid": grids, "--keep": keep})
    named = parse_policies(policies, None if forecaster == "none" else forecaster)
    chosen_policies, groups = parse_settings(settings or [], named, GROUPS)
    common = CommonOptions(
        topology=read_topology(topology),
        td_s=seconds_between(td),
        stress=stress,
        warm_up_s=warm_up,
        settings=groups,
        slo=slo,
    )
    scenarios: list[Scenario] = [scenario(trace, common) for trace in find_traces([*traces, *(more_traces or ())])]
    console = console_for(json_out, _WIDE)
    if front:
        from foretide.commands.simulating.fronts import FrontRequest, compare_fronts

        request = FrontRequest(
            scenarios,
            chosen_policies,
            front_metric,
            seeds,
            tuple(grids or ()),
            jobs or _cores(),
            html_out,
            json_out,
            keep,
            {"forecaster": forecaster, "set": settings or [], "slo": slo, "topology": topology},
        )
        compare_fronts(request, console)
        return
    cases = [Case(what, policy, seed) for what in scenarios for policy in chosen_policies for seed in range(seeds)]
    try:
        with CompareView(console, len(cases)) as view:
            rows = run_cases(cases, jobs or _cores(), view.show)
    except KeyboardInterrupt:
        raise interrupted() from None
    console.print(comparison(rows))
    if json_out is not None:
        write_file(json_out, json.dumps({"rows": rows}, indent=1, ensure_ascii=False, allow_nan=False) + "\n", "--json")


def _only_with_front(given: Mapping[str, object]) -> None:
    """Refuse options that only fronts have."""
    from foretide.errors import ConfigError

    for option, value in given.items():
        if value:
            raise ConfigError(option, expected="--front beside it", got="none", remedy="add --front")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
