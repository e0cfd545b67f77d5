"""``foretide doctor``: whether this machine has what Foretide needs."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from foretide.commands.running.engine_options import CONF, spark_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from foretide.commands.machine.doctor_checks import Check

__all__ = ["doctor"]

_WIDE = 140
_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}
_SIGNS = {"ok": "✓ ok", "warn": "! warn", "fail": "✗ fail"}


def doctor(
    quick: Annotated[bool, typer.Option("--quick", help="Leave out the check that starts Spark.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False,
    master: Annotated[
        str | None,
        typer.Option(
            help="Check a cluster, such as spark://host:7077, instead of Spark here: whether executors come, what runs "
            "there, and whether they see the directory of --path.",
            metavar="URL",
        ),
    ] = None,
    path: Annotated[
        str | None,
        typer.Option(
            help="With --master: the directory that a run is to have, or its URI; else one for temporary files.",
            metavar="DIR|URI",
        ),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="With --master: a setting of Spark's, as in foretide run.", metavar=CONF)
    ] = None,
) -> None:
    """Check that Python, Java, Spark and its workers, memory, disk, ports and the store are in order.

    Shows for each what was found and, if something is wrong, what to do. A warning is a limit to be aware of; a failure
    keeps something from working, and makes the exit status 1.

    [bold]Example:[/] foretide doctor

    [bold]In a script:[/] foretide doctor --quick --json

    [bold]A cluster:[/] foretide doctor --master spark://host:7077 --path /nfs/runs
    """
    from foretide.commands.group import console_for
    from foretide.commands.machine.cluster_checks import cluster_checks
    from foretide.commands.machine.doctor_checks import all_checks

    console, settings = console_for(None, _WIDE), spark_settings(conf or ())

    def look() -> list[Check]:
        found = list(all_checks(quick=quick or master is not None))
        if master is not None:
            with tempfile.TemporaryDirectory(prefix="foretide-") as folder:
                found += cluster_checks(master, path or folder, settings)
        return found

    if as_json or not console.is_terminal:
        checks = look()
    else:
        with console.status("checking; Spark takes a few seconds" if not quick else "looking around"):
            checks = look()
    failed = [check.name for check in checks if check.status == "fail"]
    if as_json:
        body = {"ok": not failed, "checks": [asdict(check) for check in checks]}
        typer.echo(json.dumps(body, indent=2, ensure_ascii=False))
    else:
        console.print(_table(checks))
        console.print(_verdict(checks), highlight=False)
    if failed:
        raise typer.Exit(1)


def _table(checks: Sequence[Check]) -> Table:
    from rich.text import Text

    from foretide.commands.terminal import plain_table

    table = plain_table("check")
    table.add_column("", no_wrap=True)
    table.add_column("found", overflow="fold")
    table.add_column("what to do", style="dim", overflow="fold")
    for check in checks:
        sign = Text(_SIGNS[check.status], style=_STYLES[check.status])
        table.add_row(check.name, sign, Text(check.found), Text(check.remedy))
    return table


def _verdict(checks: Sequence[Check]) -> str:
    """Return a summary in one line."""
    failed = [check.name for check in checks if check.status == "fail"]
    warned = [check.name for check in checks if check.status == "warn"]
    if failed:
        return f"\n{len(failed)} failed: {', '.join(failed)}"
    return "\nall is well" + (f"; limits: {', '.join(warned)}" if warned else "")
