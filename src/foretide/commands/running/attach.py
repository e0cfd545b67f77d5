"""``foretide attach``: a PySpark script of the user's, as it is, its executors scaled ahead of its load."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretide.commands.group import FAILED, check_writable
from foretide.errors import ForetideError

if TYPE_CHECKING:
    from foretide.commands.running.attach_request import AttachRequest

__all__ = ["Job", "attach", "launcher_path", "prepare"]


@dataclass(frozen=True)
class Job:
    """A script, its arguments, and how to attach to it.

    Parameters
    ----------
    path : Path
        The script.
    arguments : tuple of str
        What it is given.
    request : AttachRequest
        What was asked of Foretide.
    json_out : Path, optional
        Where a summary goes when the job has ended.
    """

    path: Path
    arguments: tuple[str, ...]
    request: AttachRequest
    json_out: Path | None = None

    def command(self) -> list[str]:
        """Return the arguments of the launcher that stand for this job."""
        options = self.request.options()
        if self.json_out is not None:
            options += ["--json", str(self.json_out)]
        return [*options, "--", str(self.path), *self.arguments]


def launcher_path() -> Path:
    """Return the script that runs a job with Foretide attached, for ``spark-submit``."""
    return Path(__file__).with_name("launcher.py")


def _print_launcher(wanted: bool) -> None:
    if wanted:
        typer.echo(launcher_path())
        raise typer.Exit


def _job_of(
    job: Annotated[Path, typer.Argument(metavar="job.py", help="The script, as you would hand it to python.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[arguments]", help="All that follows is the script's own.")
    ] = None,
    executors: Annotated[
        str | None,
        typer.Option(
            help="The fewest and the most executors, such as 1:4; 1:8 unless given.",
            metavar="N:M",
            envvar="FORETIDE_EXECUTORS",
        ),
    ] = None,
    slo: Annotated[
        str | None,
        typer.Option(
            help="A promise such as 'p95<10s', kept with the fewest executors.",
            metavar="pNN<TIME",
            envvar="FORETIDE_SLO",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            "--planner",
            help="Who decides: a planner, as in 'foretide' or 'pasps:lr'; foretide unless given.",
            envvar="FORETIDE_POLICY",
        ),
    ] = None,
    forecaster: Annotated[
        str | None,
        typer.Option(
            help="Who looks ahead, for a policy that needs it; auto unless given.", envvar="FORETIDE_FORECASTER"
        ),
    ] = None,
    td: Annotated[
        float | None, typer.Option(help="Seconds between two decisions; 5 unless given.", envvar="FORETIDE_TD")
    ] = None,
    advisory: Annotated[
        bool,
        typer.Option("--advisory", help="Decide and record, but change nothing.", envvar="FORETIDE_ADVISORY"),
    ] = False,
    kafka_bound: Annotated[
        bool,
        typer.Option(
            "--kafka-bound",
            help="No more executors than Kafka's partitions keep busy: for queries that do not shuffle.",
            envvar="FORETIDE_KAFKA_BOUND",
        ),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Settings of loop, planners, forecasters, guards and executors.",
            metavar="TOML",
            envvar="FORETIDE_CONFIG",
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            help="Record the job there as a run, a file or postgresql://...; 'none' records nothing. Unset, where all "
            "runs are, see foretide runs.",
            metavar="FILE|URL|none",
        ),
    ] = None,
    json_out: Annotated[
        Path | None,
        typer.Option(
            "--json", help="Write what was decided to this file when the job ends; - prints it.", metavar="OUT"
        ),
    ] = None,
    where: Annotated[
        bool,
        typer.Option(
            "--where",
            callback=_print_launcher,
            is_eager=True,
            help="Print the script that spark-submit takes in place of yours, and exit.",
        ),
    ] = False,
) -> Job:
    """Run a PySpark script as it is, and scale its executors ahead of its load.

    The script needs not a word of Foretide: when it makes its Spark session, Foretide attaches to it, listens to its
    streaming queries, and asks Spark for executors before they are needed. Output, exit status, tracebacks and signals
    are the script's own. Options come before the script; each has an environment variable, such as
    FORETIDE_EXECUTORS=1:4. What is wrong with them is said before the script starts. Whatever fails later costs one
    line on stderr, and the job goes on as if Foretide were not there. So it does without a cluster to scale (a local
    master, Spark Connect), and where Spark's own dynamic allocation scales it already.

    [bold]Example:[/] foretide attach --executors 1:4 job.py --topic orders

    [bold]Look before it acts:[/] foretide attach --advisory --json decided.json job.py

    [bold]With spark-submit:[/] spark-submit --master yarn $(foretide attach --where) --executors 2:10 job.py

    [bold]From past runs, without running anything:[/] foretide advise EVENTLOG
    """
    from foretide.commands.running.attach_request import AttachRequest
    from foretide.commands.running.script import check_script

    check_script(job)
    check_writable(json_out, "--json")
    request = AttachRequest(
        executors=executors,
        slo=slo,
        policy=policy,
        forecaster=forecaster,
        td_s=td,
        advisory=advisory,
        kafka_bound=kafka_bound,
        config=config,
        store=store,
    )
    _ = request.values  # which says what is wrong, before anything starts
    return Job(job, tuple(arguments or ()), request, json_out)


@wraps(_job_of)
def attach(*given: Any, **options: Any) -> None:
    """Become the launcher of the job, which leaves nothing of this command line around it."""
    job = _job_of(*given, **options)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, str(launcher_path()), *job.command()])


def prepare(arguments: list[str]) -> Job:
    """Read the launcher's command line, and attach to the session that the job will make.

    What is wrong with the command line ends the process, as it does for every command. Nothing else that fails here
    keeps the job from running.
    """
    job = _read(arguments)
    try:
        from foretide.spark.attached.hook import attach_to_sessions

        attach_to_sessions(job.request.settings(), job.json_out)
    except Exception as error:
        print(f"foretide: not attached, the job runs as it is: {_reason(error)}", file=sys.stderr, flush=True)
    return job


def _read(arguments: list[str]) -> Job:
    reader = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    reader.command(**SETTINGS)(_job_of)
    command = typer.main.get_command(reader)
    try:
        found = command.main(arguments, prog_name="foretide attach", standalone_mode=False)
    except ForetideError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(FAILED)
    except Exception as error:
        if not hasattr(error, "show"):
            raise
        error.show()
        sys.exit(getattr(error, "exit_code", FAILED))
    if not isinstance(found, Job):  # help, or where the launcher lies
        sys.exit(0)
    return found


def _reason(error: Exception) -> str:
    text = str(error) if isinstance(error, ForetideError | ImportError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())


#: How the command line is read: options end where the script begins.
SETTINGS: dict[str, Any] = {"context_settings": {"allow_interspersed_args": False}}
