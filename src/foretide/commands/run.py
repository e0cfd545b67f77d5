"""``foretide run``: a topology on Spark, watched from start to a graceful stop."""

from __future__ import annotations

import json
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretide.commands.group import write_file

if TYPE_CHECKING:
    from foretide.commands.run_view import ProgressView
    from foretide.spark.session_run import Progress

__all__ = ["StopSwitch", "run"]


def run(
    file: Annotated[Path, typer.Argument(help="The topology: a .toml, .yaml, .yml or .py file.")],
    trace: Annotated[
        str | None, typer.Option(help="Replay this trace: a shipped name, or a CSV file.", metavar="NAME|CSV")
    ] = None,
    speed: Annotated[float | None, typer.Option(help="Seconds of the trace that pass in one second.")] = None,
    rate_scale: Annotated[float | None, typer.Option(help="Multiply the trace's rates by this.")] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Stop after so many minutes; else when all input is through.")
    ] = None,
    replicas: Annotated[str | None, typer.Option(help="Replicas to begin with, such as 'split=2,count=3'.")] = None,
    master: Annotated[str, typer.Option(help="Where to run, such as 'local-cluster[2,2,1024]'.")] = "local[*]",
    path: Annotated[
        Path | None,
        typer.Option(help="Where to keep checkpoints, to go on from later; else nothing is kept.", metavar="DIR"),
    ] = None,
    payload: Annotated[str | None, typer.Option(help="What events of the trace carry, such as 'words'.")] = None,
    seed: Annotated[int | None, typer.Option(help="Generate other events of the same kind.")] = None,
    json_out: Annotated[
        Path | None, typer.Option("--json", help="Write the report to this file.", metavar="OUT")
    ] = None,
) -> None:
    """Run a topology on Spark, show how it does, and report when it is over.

    Options of a trace hold for all sources of that kind, others are left alone. Ctrl-C lets what is inside come
    through and then stops; a second one stops at once.

    [bold]Example:[/] foretide run examples/wordcount.py --speed 20 --minutes 1 --replicas 'split=2,count=3'
    """
    from rich.console import Console

    from foretide.commands.run_view import ProgressView, report_view
    from foretide.spark.overrides import TraceOverrides, parse_replicas, with_replicas, with_trace_options
    from foretide.spark.session_run import RunOptions, run_topology
    from foretide.topology.loader import load_topology

    asked = parse_replicas(replicas)
    overrides = TraceOverrides(trace, speed, rate_scale, payload, seed)
    topology = with_trace_options(with_replicas(load_topology(file), asked), overrides)
    options = RunOptions(_seconds(minutes), asked)
    console = Console()
    with ExitStack() as stack:
        directory = _directory(path, master, stack)
        view = stack.enter_context(ProgressView(console, topology.name))
        spark = stack.enter_context(_session(master, topology.name))
        _ship(spark, file, topology)
        view.say("waiting for the first batch")
        # After Spark has put a handler of its own in place, which would cancel the running batch.
        switch = stack.enter_context(StopSwitch.installed(view))
        report = run_topology(topology, spark, directory, options, switch)
    console.print(report_view(report))
    if json_out is not None:
        write_file(json_out, json.dumps(report.to_dict(), indent=2, ensure_ascii=False) + "\n", "--json")


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
def _session(master: str, name: str) -> Iterator[Any]:
    from foretide.spark import create_session
    from foretide.spark.logs import quiet_start

    with quiet_start():
        spark = create_session(master, name)
    try:
        yield spark
    finally:
        spark.stop()


def _ship(spark: Any, file: Path, topology: Any) -> None:
    from foretide.spark.shipping import ship_modules

    ship_modules(spark, file, topology)
