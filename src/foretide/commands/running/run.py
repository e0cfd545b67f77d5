"""``foretide run``: a topology on Spark, steered and watched from start to a graceful stop."""

from __future__ import annotations

import json
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretide.commands.group import check_writable, console_beside, write_file
from foretide.commands.topology_argument import SETTINGS_HELP, TOPOLOGY_HELP, load_topology_argument

if TYPE_CHECKING:
    from rich.console import Console

    from foretide.commands.running.run_control import Asked, Prepared
    from foretide.commands.running.run_view import ProgressView
    from foretide.spark.driver.run import Progress, RunOptions, RunReport
    from foretide.spark.steering.steered_run import Recording, SteeredRun
    from foretide.store import RunStore
    from foretide.topology import Topology

__all__ = ["StopSwitch", "run"]


def run(
    file: Annotated[Path, typer.Argument(metavar="APP|FILE", help=TOPOLOGY_HELP)],
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=SETTINGS_HELP)] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="Who decides: a planner, static-min, static-peak, or none. Applications: foretide."),
    ] = None,
    forecaster: Annotated[str | None, typer.Option(help="Who looks ahead, for a policy that needs it.")] = None,
    td: Annotated[float | None, typer.Option(help="Seconds between two decisions; 3 unless given.")] = None,
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
    minutes: Annotated[
        float | None, typer.Option(help="Stop after so many minutes; else when all input is through.")
    ] = None,
    replicas: Annotated[str | None, typer.Option(help="Replicas to begin with, such as 'split=2,count=3'.")] = None,
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
    path: Annotated[
        Path | None,
        typer.Option(help="Where to keep checkpoints, to go on from later; else nothing is kept.", metavar="DIR"),
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
    name a policy, --td, --forecaster, --config or --advisory. Options of a trace hold for all sources of that kind.
    Ctrl-C lets what is inside come through and then stops; a second one stops at once.

    [bold]Example:[/] foretide run twitter-classification --html out/report.html

    [bold]Compare:[/] foretide run twitter-classification --compare static-min,static-peak,threshold,pasps,foretide
    --json out/compare.json

    [bold]Your own:[/] foretide run examples/wordcount.py --policy pasps --forecaster lr --td 5 --minutes 1
    """
    from foretide.commands.running.run_control import Asked
    from foretide.traces.replacement import TraceOverrides, parse_replicas, with_replicas, with_trace_options

    for out, option in ((html_out, "--html"), (json_out, "--json")):
        check_writable(out, option)
    asked = parse_replicas(replicas)
    overrides = TraceOverrides(trace, speed, rate_scale, payload, seed)

    def load(*more: str) -> Topology:
        """Return the topology, with further options of the application, which win."""
        replaced = {text.partition("=")[0] for text in more}
        kept = [text for text in settings or () if text.partition("=")[0].strip() not in replaced]
        found = load_topology_argument(file, [*kept, *more])
        return with_trace_options(with_replicas(found, asked), overrides)

    control = Asked(
        policy=policy, forecaster=forecaster, td_s=td, advisory=advisory, config=config, executors=executors
    )
    session = Session(file, load(), master, path, store, _seconds(minutes), asked)
    if compare is not None:
        from foretide.commands.running.run_compare import run_comparison

        run_comparison(compare, session, control, load, json_out)
        return
    _run_one(session, control, html_out, json_out)


@dataclass(frozen=True)
class Session:
    """Where and for how long to run, and what to keep.

    Parameters
    ----------
    named : Path
        The application or file, as the command line names it.
    topology : Topology
        What to run.
    asked_master, path, asked_store
        As on the command line.
    seconds : float, optional
        How long.
    replicas : mapping of str to int
        Replicas to begin with.
    """

    named: Path
    topology: Topology
    asked_master: str | None
    path: Path | None
    asked_store: str | None
    seconds: float | None
    replicas: Mapping[str, int]

    @property
    def application(self) -> bool:
        """Whether an application runs, not a file."""
        from foretide.commands.running.run_control import is_application

        return is_application(self.named)

    @property
    def master(self) -> str:
        """Where to run."""
        from foretide.commands.running.run_control import default_master

        if self.asked_master is not None:
            return self.asked_master
        return default_master(self.topology) if self.application else "local[*]"

    def directory(self, stack: ExitStack) -> Path:
        """Return where checkpoints are kept; a temporary one lives as long as `stack`."""
        return _directory(self.path, self.master, stack)

    def store(self) -> RunStore | None:
        """Return where runs are recorded."""
        from foretide.store import RunStore, default_store

        if self.asked_store == "none":
            return None
        return RunStore(default_store() if self.asked_store is None else self.asked_store)

    @contextmanager
    def spark(self) -> Iterator[Any]:
        """Start Spark, with what the topology needs."""
        from foretide.spark.session.shipping import ship_modules

        functions = [operator.function for operator in self.topology.operators if callable(operator.function)]
        modules = sorted({str(getattr(function, "__module__", "")) for function in functions} - {""})
        with _session(self.master, self.topology.name, modules if self.application else ()) as spark:
            ship_modules(spark, self.named, self.topology)
            yield spark

    def options(self, replicas: Mapping[str, int] | None = None, *, steered: bool = False) -> RunOptions:
        """Return how to run."""
        from foretide.spark.driver.run import RunOptions
        from foretide.spark.settings import EngineSettings

        engine = EngineSettings(trigger_s=TRIGGER_S if steered else 0.0)
        return RunOptions(self.seconds, {**(replicas or {}), **self.replicas}, engine)


#: Seconds between the starts of two batches of a steered run. Spark itself takes about half of that; less waiting
#: would be all its own.
TRIGGER_S = 0.25


def _run_one(session: Session, control: Asked, html_out: Path | None, json_out: Path | None) -> None:
    from foretide.commands.running.run_control import chosen_policy, prepare
    from foretide.commands.running.run_view import report_view, steered_view

    console, trace = console_beside(json_out), trace_name(session.topology)
    policy = chosen_policy(control, session.application)
    if policy is None:
        if html_out is not None:
            _refuse_html()
        report = _run_plain(session, console, trace)
        console.print(report_view(report))
        body = report.to_dict()
    else:
        prepared = prepare(session.topology, control, session.named)
        if control.policy is None:
            policy = prepared.planner_of_file or policy
        steered = _run_steered(session, console, prepared, policy)
        console.print(report_view(steered.report))
        console.print(steered_view(steered))
        if html_out is not None:
            _write_html(html_out, steered, trace)
        body = steered.to_dict(trace)
    if json_out is not None:
        write_file(json_out, json.dumps(body, indent=2, ensure_ascii=False) + "\n", "--json")


def _run_plain(session: Session, console: Console, trace: str) -> RunReport:
    """Run without control; the run is recorded if a store is named."""
    from foretide.spark.driver.run import run_topology

    with _watched(session, console) as (spark, directory, switch), _recording(session, trace) as beside:
        return run_topology(session.topology, spark, directory, session.options(), switch, beside)


def _run_steered(session: Session, console: Console, prepared: Prepared, policy: str) -> SteeredRun:
    """Run under control, and record it."""
    from foretide.spark.steering.steered_run import run_steered

    store, trace = session.store(), trace_name(session.topology)
    try:
        options, replicas = prepared.options(policy, store, trace)
        how = session.options(replicas, steered=True)
        with _watched(session, console) as (spark, directory, switch):
            steered = run_steered(session.topology, spark, directory, how, options, switch)
        finish_record(options.recorder, steered, trace)
        return steered
    finally:
        if store is not None:
            store.close()


@contextmanager
def _watched(session: Session, console: Console) -> Iterator[tuple[Any, Path, StopSwitch]]:
    """Start Spark, show progress and listen to Ctrl-C: everything around a run."""
    from foretide.commands.running.run_view import ProgressView

    with ExitStack() as stack:
        directory = session.directory(stack)
        view = stack.enter_context(ProgressView(console, session.topology.name))
        spark = stack.enter_context(session.spark())
        view.say("waiting for the first batch")
        # After Spark has put a handler of its own in place, which would cancel the running batch.
        yield spark, directory, stack.enter_context(StopSwitch.installed(view))


@contextmanager
def _recording(session: Session, trace: str) -> Iterator[Recording | None]:
    """Record a run that nobody steers from here, if a store is named."""
    from foretide.spark.steering.steered_run import Recording
    from foretide.store import RunSpec

    store = None if session.asked_store is None else session.store()
    if store is None:
        yield None
        return
    with store, store.begin_run(RunSpec(topology=session.topology, trace=trace)) as recorder:
        yield Recording(recorder)


def finish_record(recorder: Any, steered: SteeredRun, trace: str) -> None:
    """Record how a run went."""
    if recorder is not None:
        status = "interrupted" if steered.report.ending == "interrupted" else "finished"
        recorder.finish(steered.row(trace), status=status)


def trace_name(topology: Topology) -> str:
    """Return the trace that a topology replays; empty where it replays none."""
    names = [
        str(source.connector.options.get("trace", ""))
        for source in topology.sources
        if source.connector.kind == "trace"
    ]
    return ", ".join(Path(name).stem if name.endswith(".csv") else name for name in names)


def _write_html(path: Path, steered: SteeredRun, trace: str) -> None:
    from foretide.report import to_html
    from foretide.report.steered import steered_record

    write_file(path, to_html(steered_record(steered, trace)), "--html")


def _refuse_html() -> None:
    from foretide.errors import ConfigError

    raise ConfigError(
        "--html", expected="a run that is steered, which has something to plot", got="none", remedy="add --policy"
    )


class StopSwitch:
    """Watches a run for the command line: shows progress, and turns the first Ctrl-C into a graceful stop."""

    def __init__(self, view: ProgressView) -> None:
        self._view, self._asked = view, False

    @classmethod
    @contextmanager
    def installed(cls, view: ProgressView) -> Iterator[StopSwitch]:
        """Listen to Ctrl-C and to a request to terminate, until the end of the block."""
        switch = cls(view)
        before = {kind: signal.signal(kind, switch.ask) for kind in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield switch
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)

    def ask(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Ask the run to stop; a second time, stop it at once."""
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True

    def show(self, progress: Progress) -> None:
        """Pass it on to the view."""
        self._view.show(progress)

    def draining(self) -> None:
        """Say so."""
        self._view.say("stopping: letting what is inside come through")

    def stopping(self) -> bool:
        """Tell whether someone asked."""
        return self._asked


def _seconds(minutes: float | None) -> float | None:
    from foretide.errors import ConfigError

    if minutes is not None and not 0 < minutes < float("inf"):
        raise ConfigError("--minutes", expected="a positive number", got=minutes)
    return None if minutes is None else minutes * 60


def _directory(path: Path | None, master: str, stack: ExitStack) -> Path:
    from foretide.errors import ConfigError

    if path is not None:
        return path
    if not master.startswith("local"):
        raise ConfigError(
            "--path", expected=f"a directory that driver and executors share, for master {master!r}", got="none"
        )
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="foretide-", ignore_cleanup_errors=True)))


@contextmanager
def _session(master: str, name: str, preload: Any = ()) -> Iterator[Any]:
    from foretide.spark import create_session
    from foretide.spark.session.logs import quiet_start

    with quiet_start():
        spark = create_session(master, name, preload=preload)
    try:
        yield spark
    finally:
        spark.stop()
