"""The command line: parse, build, call."""

from __future__ import annotations

from typing import Annotated

import typer

from foretide._version import __version__
from foretide.commands import docs, experiment, runs
from foretide.commands.advise import advise
from foretide.commands.apps import apps
from foretide.commands.demo import demo
from foretide.commands.forecasting import forecast
from foretide.commands.group import ForetideGroup
from foretide.commands.machine import kafka
from foretide.commands.machine.doctor import doctor
from foretide.commands.machine.init import init
from foretide.commands.machine.s3 import s3
from foretide.commands.machine.warm_up import warm_up
from foretide.commands.planners import planners
from foretide.commands.running.attach import SETTINGS as ATTACH_SETTINGS
from foretide.commands.running.attach import attach
from foretide.commands.running.plan_spark import plan_spark
from foretide.commands.running.profile import profile
from foretide.commands.running.repartition import repartition
from foretide.commands.running.run import run
from foretide.commands.running.state import state
from foretide.commands.running.steer import steer
from foretide.commands.serve import serve
from foretide.commands.show import show
from foretide.commands.simulating.compare import compare
from foretide.commands.simulating.reproduce import reproduce
from foretide.commands.simulating.simulate import simulate
from foretide.commands.traces import traces
from foretide.commands.why import why

__all__ = ["app", "main"]

app = typer.Typer(
    name="foretide",
    cls=ForetideGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(init)
app.command()(doctor)
app.command("warm-up")(warm_up)
app.command()(show)
app.command("plan-spark")(plan_spark)
app.command()(run)
app.command("attach", **ATTACH_SETTINGS)(attach)
app.command()(advise)
app.command()(steer)
app.command()(why)
app.command()(state)
app.command()(repartition)
app.command()(profile)
app.command()(simulate)
app.command()(compare)
app.command()(reproduce)
app.command()(serve)
app.command()(apps)
app.command()(planners)
app.command()(traces)
app.command()(demo)
app.add_typer(forecast.app, name="forecast")
app.add_typer(experiment.app, name="experiment")
app.add_typer(runs.app, name="runs")
app.add_typer(kafka.app, name="kafka")
app.command()(s3)
app.add_typer(docs.app, name="docs", hidden=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"foretide {__version__}")
        raise typer.Exit


@app.callback()
def _foretide(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    traceback: Annotated[
        bool,
        typer.Option(
            "--traceback", "--debug", envvar="FORETIDE_TRACEBACK", help="Show where in the code an error arose."
        ),
    ] = False,
) -> None:
    """Predictive elasticity for stream processing on Apache Spark.

    Declare operators and the streams between them: Foretide forecasts the load and plans the replicas.

    [bold]Start with:[/] foretide demo

    [bold]Then:[/] foretide doctor, foretide init shop, foretide run twitter-classification
    """


def main() -> None:
    """Run the command line."""
    app()
