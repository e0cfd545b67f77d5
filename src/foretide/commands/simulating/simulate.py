"""``foretide simulate``: what a policy would do with recorded traffic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretide.commands.group import check_writable, console_for, write_file

if TYPE_CHECKING:
    from foretide.sim.compare import Case
    from foretide.sim.outcome import SimulationReport

__all__ = ["seconds_between", "simulate"]

_WIDE = 120
_TD_S = 30.0


def simulate(
    topology: Annotated[
        str | None,
        typer.Argument(help="A topology file or an application (foretide apps); 'pasps' is the paper's, calibrated."),
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option(
            help="The input: a shipped name, or a CSV file with second,events_per_second.", metavar="NAME|CSV"
        ),
    ] = None,
    policy: Annotated[
        str, typer.Option(help="The policy: a planner, as in 'pasps' or 'pasps:lr', static-min or static-peak.")
    ] = "foretide",
    run: Annotated[
        str | None,
        typer.Option(
            help="Replay what a recorded run received, on its topology with the times measured: an id or 'latest'.",
            metavar="RUN",
        ),
    ] = None,
    store: Annotated[str | None, typer.Option(help="The store that has the run.", metavar="FILE|URL")] = None,
    forecaster: Annotated[
        str, typer.Option(help="The forecaster of a policy that needs one and does not name it; 'none' for none.")
    ] = "auto",
    td: Annotated[
        float | None, typer.Option(help="Seconds between two decisions; by default those of the run, or 30.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs with different randomness: seeds 0, 1, and so on.")] = 1,
    stress: Annotated[
        bool,
        typer.Option("--stress", help="Service 10 % slower than believed, noise of CV .2, replicas active after 5 s."),
    ] = False,
    slo: Annotated[
        str | None,
        typer.Option(
            help="A promise such as 'p95<800ms', with --set sim.micro_batch: foretide takes the fewest slots that keep "
            "it, and rows say how often it was kept and at what cost.",
            metavar="pNN<TIME",
        ),
    ] = None,
    warm_up: Annotated[float, typer.Option(help="Seconds at the start that the metrics leave out.")] = 30.0,
    cold_start: Annotated[
        bool, typer.Option("--cold-start", help="Begin with the topology's initial replicas instead of those needed.")
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting, such as 'static.replicas=8', 'lr.window=20', 'sim.queue_bound=1000'."),
    ] = None,
    html_out: Annotated[
        Path | None, typer.Option("--html", help="Write a report with plots of the first seed.", metavar="OUT.html")
    ] = None,
    json_out: Annotated[
        Path | None,
        typer.Option("--json", help="Write the metrics of every seed to this file; - prints it.", metavar="OUT"),
    ] = None,
) -> None:
    """Try a policy on recorded traffic: every event of the trace, in simulated time.

    The trace drives every source of the topology. The same control loop decides as on a real system. It prints the
    metrics of SPEC P8, from the end of the warm-up on: saved resources (against the replicas that the peak needs),
    latency, events processed ÷ received, throughput degradation, errors of forecast and replicas, changes.

    'static' keeps the replicas that the peak needs, unless --set static.replicas=N. Settings of the simulated system
    begin with 'sim.', of the control loop with 'loop.', of the stress with 'stress.'.

    [bold]Example:[/] foretide simulate examples/twitter_complex.toml --trace pasps_twitter_smoothed --policy pasps
    --forecaster auto --td 5 --html report.html

    [bold]What another policy would have done:[/] foretide simulate --run latest --policy pasps

    [bold]Own traffic, under stress:[/] foretide simulate job.toml --trace rates.csv --policy ds2 --td 10 --stress
    --seeds 5 --json out.json
    """
    from foretide.commands.simulating.scenarios import GROUPS, CommonOptions, find_input, scenario
    from foretide.commands.simulating.simulate_view import SimulationView, metrics_table, promise_table
    from foretide.control.policies import parse_policy, parse_settings
    from foretide.sim.compare import Case

    for path, option in ((html_out, "--html"), (json_out, "--json")):
        check_writable(path, option)
    named = parse_policy(policy, None if forecaster == "none" else forecaster)
    [chosen_policy], groups = parse_settings(settings or [], [named], GROUPS)
    found = find_input(topology, trace, run, store)
    common = CommonOptions(
        topology=found.topology,
        td_s=seconds_between(found.td_s or _TD_S if td is None else td),
        stress=stress,
        warm_up_s=warm_up,
        cold_start=cold_start,
        settings=groups,
        slo=slo,
    )
    what = scenario(found.input, common)
    cases = [Case(what, chosen_policy, seed) for seed in range(seeds)]
    console = console_for(json_out, _WIDE)
    reports = _run(cases, SimulationView(console, seeds))
    console.print(metrics_table(reports))
    foreseen = [case.foreseen(report.metrics.slot_seconds) for case, report in zip(cases, reports, strict=True)]
    if slo is not None:
        console.print(promise_table(reports, foreseen))
    if json_out is not None:
        write_file(json_out, _json(reports, foreseen), "--json")
    if html_out is not None:
        from foretide.report import record_of, to_html

        write_file(html_out, to_html(record_of(reports[0])), "--html")


def _run(cases: list[Case], view: Any) -> list[SimulationReport]:
    with view:
        return [case.run(view.of(number), keep_decisions=number == 0) for number, case in enumerate(cases)]


def seconds_between(td: float) -> float:
    """Return the interval between two decisions, checked."""
    from foretide.errors import ConfigError

    if not 0 < td <= 86_400:
        raise ConfigError("--td", expected="more than 0 seconds and at most a day", got=td)
    return td


def _json(reports: list[SimulationReport], foreseen: list[dict[str, float | None]]) -> str:
    first = reports[0]
    data = {
        "topology": first.topology.name,
        "r_over": first.r_over,
        "warm_up_s": first.options.warm_up_s,
        "rows": [
            {**report.row(), **known, "totals": report.totals, "stand_ins": report.stand_ins}
            for report, known in zip(reports, foreseen, strict=True)
        ],
    }
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
