"""``foretide run``: a topology on Spark, steered and watched from start to a graceful stop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretide.commands.group import check_writable, console_for, exit_if_failed, write_file
from foretide.commands.running.engine_options import CONF
from foretide.commands.topology_argument import SETTINGS_HELP, TOPOLOGY_HELP, load_topology_argument

if TYPE_CHECKING:
    from foretide.commands.running.request import RunRequest
    from foretide.spark import EngineSettings
    from foretide.spark.driver.run import RunOptions
    from foretide.store import RunStore
    from foretide.topology import Topology

__all__ = ["run"]


def run(
    file: Annotated[Path, typer.Argument(metavar="APP|FILE", help=TOPOLOGY_HELP)],
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=SETTINGS_HELP)] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="Who decides: a planner, as in 'pasps' or 'pasps:lr', static-min, static-peak, or none. "
            "Applications: foretide."
        ),
    ] = None,
    forecaster: Annotated[str | None, typer.Option(help="Who looks ahead, for a policy that needs it.")] = None,
    models: Annotated[
        Path | None,
        typer.Option(
            help="Trained models of the forecaster, as `foretide forecast train --out` leaves them; else those of "
            "earlier runs of this topology. A network is trained again while it runs.",
            metavar="DIR",
        ),
    ] = None,
    td: Annotated[float | None, typer.Option(help="Seconds between two decisions; 3 unless given.")] = None,
    slo: Annotated[
        str | None,
        typer.Option(
            help="A promise such as 'p95<500ms': the policy foretide takes the fewest slots that keep it, and the "
            "report says in how many intervals it was kept.",
            metavar="pNN<TIME",
        ),
    ] = None,
    health: Annotated[
        str | None,
        typer.Option(
            help="Watch the workers and bypass slow ones, judged by a model (linear, idrnn) or by their peers; none: "
            "only record their features. Applications then run on four executors here.",
            metavar="idrnn|linear|peers|none",
        ),
    ] = None,
    advisory: Annotated[bool, typer.Option("--advisory", help="Decide and show, but change nothing.")] = False,
    compare: Annotated[
        str | None,
        typer.Option(help="Run these policies in turn on the same input, and print one table.", metavar="A,B,..."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings of loop, planners, forecasters and guards.", metavar="TOML")
    ] = None,
    trace: Annotated[
        str | None, typer.Option(help="Replay this trace: a shipped name, or a CSV file.", metavar="NAME|CSV")
    ] = None,
    speed: Annotated[float | None, typer.Option(help="Seconds of the trace that pass in one second.")] = None,
    rate_scale: Annotated[float | None, typer.Option(help="Multiply the trace's rates by this.")] = None,
    max_failed: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Stop if more than this share of an operator's last 1,000 events fails, .5 unless given; 1: never.",
        ),
    ] = None,
    queue_bound: Annotated[
        list[str] | None,
        typer.Option(
            help="Events that may wait at a source or on a queued edge; beyond that, the oldest are dropped, and "
            "counted. For one queue: 'tweets=1000' or 'parse -> count=1000'; may be given several times.",
            metavar="[QUEUE=]EVENTS",
        ),
    ] = None,
    timeout: Annotated[
        list[str] | None,
        typer.Option(
            help="Age in seconds beyond which waiting events are dropped and counted; for one queue as above.",
            metavar="[QUEUE=]SECONDS",
        ),
    ] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Run from Kafka to Kafka in tasks that stay, without batches; what cannot is refused.",
        ),
    ] = False,
    minutes: Annotated[
        float | None, typer.Option(help="Stop after so many minutes; else when all input is through.")
    ] = None,
    replicas: Annotated[
        str | None,
        typer.Option(
            help="Replicas to begin with, such as 'split=2,count=3'; else what the last run had at such a rate, or "
            "what the first rates need."
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin without what earlier runs have learnt; --compare always does.")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option(
            help="Where to run, such as 'local-cluster[2,2,1024]'. Files: local[*]. Applications: here, with a slot "
            "for every replica of their pools."
        ),
    ] = None,
    executors: Annotated[
        str | None, typer.Option(help="Scale executors of a cluster within these bounds, such as 1:4.", metavar="N:M")
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            help="A setting of Spark's, such as spark.executor.memory=2g; may be given several times. Table [spark] of "
            "--config.",
            metavar=CONF,
        ),
    ] = None,
    engine_options: Annotated[
        list[str] | None,
        typer.Option(
            "--engine",
            help="A setting of the engine, such as edges=kafka (see EngineSettings in docs/configuration.md); may be "
            "given several times. Table [engine] of --config.",
            metavar="NAME=VALUE",
        ),
    ] = None,
    path: Annotated[
        str | None,
        typer.Option(
            help="Where to keep checkpoints, queued edges and state, to go on from later: a directory, or a folder of "
            "an object store such as s3://bucket/run. Else nothing is kept.",
            metavar="DIR|URI",
        ),
    ] = None,
    payload: Annotated[str | None, typer.Option(help="What events of the trace carry, such as 'words'.")] = None,
    seed: Annotated[int | None, typer.Option(help="Generate other events of the same kind.")] = None,
    store: Annotated[
        str | None,
        typer.Option(
            help="Record the run there, a file or postgresql://...; 'none' records nothing. A steered run is recorded "
            "anyway, see foretide runs.",
            metavar="FILE|URL|none",
        ),
    ] = None,
    html_out: Annotated[
        Path | None, typer.Option("--html", help="Write a report with plots.", metavar="OUT.html")
    ] = None,
    json_out: Annotated[
        Path | None, typer.Option("--json", help="Write the report to this file; - prints it.", metavar="OUT")
    ] = None,
) -> None:
    """Run a topology on Spark, steer it ahead of its load, show how it does, and report when it is over.

    An application is steered by the policy 'foretide' unless --policy names another; a topology of your own if you
    name a policy, --td, --forecaster, --health, --config or --advisory. Options of a trace hold for all sources of that
    kind. Ctrl-C lets what is inside come through and then stops; a second one stops at once.

    The exit status is 0 if all events went through, 4 if some failed (they are listed, and kept in the dead-letter
    log), 2 if an error stopped the run, such as an operator on which most events fail, and 3 if that was not expected.

    [bold]Example:[/] foretide run twitter-classification --html out/report.html

    [bold]Compare:[/] foretide run twitter-classification --compare static-min,static-peak,threshold,pasps,foretide
    --json out/compare.json

    [bold]Your own:[/] foretide run examples/wordcount.py --policy pasps --forecaster lr --td 5 --minutes 1
    """
    from foretide.commands.running.request import RunRequest
    from foretide.traces.replacement import TraceOverrides, parse_replicas, with_replicas, with_trace_options

    for out, option in ((html_out, "--html"), (json_out, "--json")):
        check_writable(out, option)
    given_replicas = parse_replicas(replicas)
    overrides = TraceOverrides(trace, speed, rate_scale, payload, seed)

    def load(*more: str) -> Topology:
        """Return the topology, with further options of the application, which win."""
        replaced = {text.partition("=")[0] for text in more}
        kept = [text for text in settings or () if text.partition("=")[0].strip() not in replaced]
        found = load_topology_argument(file, [*kept, *more])
        return with_trace_options(with_replicas(found, given_replicas), overrides)

    request = RunRequest(
        named=file,
        policy=policy,
        forecaster=forecaster,
        td_s=td,
        advisory=advisory,
        config=config,
        executors=executors,
        master=master,
        store=store,
        slo=slo,
        models=models,
        fresh=fresh or compare is not None,
        health=health,
        conf=conf or (),
        engine=engine_options or (),
    )
    topology, seconds = load(), _seconds(minutes)
    from foretide.commands.running.limits import queue_settings
    from foretide.spark.driver.run import RunOptions

    trigger_s = TRIGGER_S if (compare is not None or request.steered) and not live else 0.0
    given = queue_settings(queue_bound or (), timeout or ())
    given |= {} if max_failed is None else {"failed_share": max_failed}
    given |= {"live": True} if live else {}
    engine = request.engine_settings({"trigger_s": trigger_s}, given)
    request.spark_settings()  # before Spark is started, which says what is wrong with them
    _check_path(path, topology, engine, request.master_for(topology))
    _check_live(topology, engine)
    options = RunOptions(topology=topology, path=path, seconds=seconds, replicas=given_replicas, settings=engine)
    if compare is not None:
        from foretide.commands.running.run_compare import run_comparison

        run_comparison(compare, request, options, load, json_out)
    elif request.steered:
        _run_steered(request, options, html_out, json_out)
    else:
        _run_plain(request, options, html_out, json_out)


#: Seconds between the starts of two batches of a steered run. Spark itself takes about half of that; less waiting
#: would be all its own.
TRIGGER_S = 0.25


def _run_plain(request: RunRequest, options: RunOptions, html_out: Path | None, json_out: Path | None) -> None:
    """Run without control; the run is recorded if a store is named."""
    from foretide.commands.running.launch import run_plain, watched_session
    from foretide.commands.running.run_view import report_view
    from foretide.errors import ConfigError

    if html_out is not None:
        expected = "a run that is steered, which has something to plot"
        raise ConfigError("--html", expected=expected, got="none", remedy="add --policy")
    console = console_for(json_out)
    with (
        _opened(None if request.store is None else request.open_store()) as store,
        watched_session(request, options.topology, console) as (spark, _, switch),
    ):
        report = run_plain(spark, options, switch, store, request.settings.health)
    console.print(report_view(report))
    _write_json(json_out, report.to_dict())
    exit_if_failed(report.dead_letters)


def _run_steered(request: RunRequest, options: RunOptions, html_out: Path | None, json_out: Path | None) -> None:
    """Run under control, and record it."""
    from foretide.commands.running.launch import run_steered, trace_name, watched_session
    from foretide.commands.running.run_view import report_view, steered_view
    from foretide.control.starting.beginning import Beginning
    from foretide.control.starting.rehearsal import Rehearsal

    steering, console = request.steering(options.topology), console_for(json_out)
    if steering.models is not None:
        from foretide.control.models.shelf import found_models

        model, retraining = steering.forecaster_name, steering.settings.retraining
        words, missing = found_models(steering.models, model, options.topology, retraining)
        console.print(words, style="yellow" if missing else "", highlight=False)
    with (
        Rehearsal(options.topology, steering) as rehearsal,  # while Spark starts
        _opened(request.open_store()) as store,
        watched_session(request, options.topology, console) as (spark, _, switch),
    ):
        beginning = Beginning(rehearsal=rehearsal, past=None if request.fresh else store)
        steered = run_steered(spark, options, steering, switch, store, beginning)
    trace = trace_name(options.topology)
    console.print(report_view(steered.report))
    console.print(steered_view(steered))
    if html_out is not None:
        from foretide.report import to_html
        from foretide.report.runs import steered_record

        write_file(html_out, to_html(steered_record(steered, trace)), "--html")
    _write_json(json_out, steered.to_dict(trace))
    exit_if_failed(steered.report.dead_letters)


def _opened(store: RunStore | None) -> AbstractContextManager[RunStore | None]:
    return nullcontext() if store is None else store


def _write_json(path: Path | None, body: Mapping[str, Any]) -> None:
    if path is not None:
        write_file(path, json.dumps(body, indent=2, ensure_ascii=False) + "\n", "--json")


def _check_live(topology: Topology, engine: EngineSettings) -> None:
    """Refuse stages that cannot be live before Spark is started."""
    from foretide.compile.stages import compile_stages
    from foretide.spark.live.checking import live_graph

    live_graph(compile_stages(topology), engine)


def _seconds(minutes: float | None) -> float | None:
    from foretide.errors import ConfigError

    if minutes is not None and not 0 < minutes < float("inf"):
        raise ConfigError("--minutes", expected="a positive number", got=minutes)
    return None if minutes is None else minutes * 60


def _check_path(path: str | None, topology: Topology, engine: EngineSettings, master: str) -> None:
    """Refuse, before Spark starts, to run without a directory what needs one that executors see."""
    from foretide.spark import compile_stages
    from foretide.spark.driver.sharing import check_given, shared_places

    check_given(shared_places(compile_stages(topology), path, engine), master)
