"""``foretide experiment``: the paper's evidence on worker health, reproduced on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from foretide.experiments.report import Report

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Experiments on Spark: split ratios, and bypassing a slow worker.")

_Out = Annotated[Path, typer.Option(help="Where to write page, figure and numbers.", metavar="DIR")]
_OUT = Path("out/experiments")
_Json = Annotated[bool, typer.Option("--json", help="Print the numbers and targets as JSON.")]


@app.command()
def split(
    out: _Out = _OUT,
    phase: Annotated[float, typer.Option(min=3.0, help="Seconds of each ratio.")] = 15.0,
    rate: Annotated[float, typer.Option(min=10.0, help="Events per second.")] = 3_000.0,
    master: Annotated[str, typer.Option(help="Where to run.")] = "local[2]",
    as_json: _Json = False,
) -> None:
    """Change the split ratio of a running stream: 1:1:1, 7:3:2, one replica bypassed.

    Every batch reports what each replica got; shares are to be within 2 points of the ratio from the next batch on.

    [bold]Example:[/] foretide experiment split --out out/experiments
    """
    from foretide.experiments.split import SplitOptions, report_split, run_split

    options = SplitOptions(phase_s=phase, rate=rate, master=master)
    _finish(report_split(run_split(options, progress=_progress)), out, as_json)


@app.command()
def bypass(
    out: _Out = _OUT,
    before: Annotated[float, typer.Option(min=10.0, help="Seconds before the worker is throttled.")] = 45.0,
    throttled: Annotated[float, typer.Option(min=5.0, help="Seconds for which it is.")] = 60.0,
    rate: Annotated[float, typer.Option(min=10.0, help="Events per second.")] = 120.0,
    master: Annotated[
        str, typer.Option(help="A cluster of several executors on this machine.")
    ] = "local-cluster[3,1,1024]",
    as_json: _Json = False,
) -> None:
    """Throttle one of three executors to a tenth of its speed, and bypass it.

    The run is made twice, with and without worker health: the mean event time after detection is to be at most 1.2
    times that before, at least 5 times without, and no event is to fail.

    [bold]Example:[/] foretide experiment bypass --out out/experiments
    """
    from foretide.experiments.bypass import BypassOptions, report_bypass, run_bypass

    warm_up = min(20.0, before / 2)
    options = BypassOptions(before_s=before, throttled_s=throttled, warm_up_s=warm_up, rate=rate, master=master)
    _progress("with worker health")
    with_bypass = run_bypass(options, progress=_progress)
    _progress("without")
    without = run_bypass(options, bypassing=False, progress=_progress)
    _finish(report_bypass(with_bypass, without, options), out, as_json)


def _progress(text: str) -> None:
    typer.echo(text, err=True)


def _finish(report: Report, out: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(report.numbers(), nl=False)
    else:
        typer.echo("\n".join([report.table(), *(str(check) for check in report.checks)]))
    for path in report.write(out):
        typer.echo(f"wrote {path}", err=True)
    if not report.holds:
        raise typer.Exit(1)
