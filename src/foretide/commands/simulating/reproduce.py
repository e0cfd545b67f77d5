"""``foretide reproduce``: the papers' tables and figures, compared with what they print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretide.commands.group import STDOUT, console_for

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["reproduce"]

_WIDE = 160


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Experiments, patterns such as 'dabs-*', or 'all'.", metavar="NAME...")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where to write pages, figures and numbers.", metavar="DIR")] = Path(
        "reproduction"
    ),
    seeds: Annotated[int, typer.Option(help="Runs with different randomness.")] = 5,
    processes: Annotated[int, typer.Option(help="Runs at the same time.")] = 2,
    first: Annotated[
        float | None,
        typer.Option(help="Only the first seconds of every input, to try it out.", metavar="S"),
    ] = None,
    traces: Annotated[
        Path | None,
        typer.Option(
            help="A folder with the series of BGElasor: bgelasor_periodic.csv and bgelasor_fluctuating.csv.",
            metavar="DIR",
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the experiments and do nothing else.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what holds, or the list, as JSON.")] = False,
) -> None:
    """Reproduce published tables and figures, and compare them with what the papers print.

    Each experiment writes a page with a table of our numbers, the paper's and the deviation, a figure, and the numbers
    as JSON; runs that several of them need are made once. A statement of a paper is printed with whether it holds.
    Page and output say which data was used. The series of BGElasor are not shipped: without --traces, or the
    environment variable FORETIDE_TRACES, made-up ones stand in.

    [bold]Example:[/] foretide reproduce pasps-table2 grouping-fig8 --out reproduction
    """
    from rich.text import Text

    from foretide.commands.simulating.reproduce_view import JobsView, experiments_table
    from foretide.errors import ConfigError
    from foretide.experiments.reproduce import EXPERIMENTS, Scope, find_experiments, run_jobs, to_report, write_index

    console = console_for(STDOUT if as_json else None, _WIDE)
    if list_ and as_json:
        entries = [{"name": one.name, "title": one.title, "seconds": one.seconds} for one in EXPERIMENTS.values()]
        typer.echo(json.dumps(entries, indent=2, ensure_ascii=False))
        return
    if list_:
        console.print(experiments_table(EXPERIMENTS))
        return
    if not names:
        expected = f"all, or some of {', '.join(EXPERIMENTS)}"
        raise ConfigError("NAME", expected=expected, got="none", remedy="`foretide reproduce --list` describes them")
    found = find_experiments(names)
    scope = Scope(seeds, first, traces)
    inputs = {experiment.name: experiment.inputs(scope) for experiment in found}
    # Before minutes of work: a folder that cannot be created is reported now.
    _make_folder(out)
    jobs = [job for experiment in found for job in experiment.jobs(scope)]
    with JobsView(console) as view:
        outcomes = run_jobs(jobs, processes, view.show)
    failing, verdicts = 0, []
    for experiment in found:
        result = experiment.conclude(scope, outcomes)
        to_report(experiment, result, scope).write(out)
        checks = [check.to_data() for check in result.checks]
        verdicts.append({"name": experiment.name, "inputs": list(inputs[experiment.name]), "checks": checks})
        console.print(Text(experiment.name, style="bold"))
        for line in inputs[experiment.name]:
            console.print(Text(f"  input: {line}"), soft_wrap=True)
        failing += _print(console, [(check.holds, str(check)) for check in result.checks])
    write_index(out, EXPERIMENTS)
    console.print(f"{len(found)} experiments in {out}; {failing} statements do not hold", highlight=False)
    if as_json:
        typer.echo(json.dumps({"out": str(out), "experiments": verdicts}, indent=2, ensure_ascii=False))


def _make_folder(out: Path) -> None:
    from foretide.errors import ConfigError

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"{str(out)!r}: {(error.strerror or str(error)).lower()}"
        raise ConfigError("--out", expected="a folder", got=reason, remedy="choose another path") from error


def _print(console: Console, checks: list[tuple[bool, str]]) -> int:
    """Print the statements of an experiment, and return how many do not hold."""
    from rich.text import Text

    for holds, text in checks:
        verdict, _, rest = text.partition(" (")
        console.print(Text.assemble("  ", (verdict, "green" if holds else "yellow"), f" ({rest}"))
    return sum(not holds for holds, _ in checks)
