"""``foretide warm-up``: compile ahead of the first run."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

__all__ = ["warm_up"]


def warm_up(
    as_json: Annotated[bool, typer.Option("--json", help="Print counts and seconds as JSON.")] = False,
) -> None:
    """Compile the numerical code of forecasters, planners, groupings and the simulator, so that no run has to.

    The machine code is kept on disk: beside the package if that folder can be written, else in the user's cache
    (~/.cache/foretide, or below $XDG_CACHE_HOME); $NUMBA_CACHE_DIR, if set, comes first. This takes less than a minute
    the first time, and seconds when nothing has changed. `make venv` does it; after `pip install`, do it once.

    [bold]Example:[/] foretide warm-up
    """
    from rich.console import Console

    from foretide.commands.machine.kernels import WORK, count_files
    from foretide.errors import ConfigError

    before, began_s = count_files(), time.perf_counter()
    with Console(stderr=True).status("compiling"):
        for work in WORK:
            work()
    found = count_files()
    if not found:
        raise ConfigError("NUMBA_CACHE_DIR", expected="a folder that can be written", got="none for the machine code")
    took_s = time.perf_counter() - began_s
    if as_json:
        typer.echo(json.dumps({"compiled": found - before, "kernels": found, "seconds": round(took_s, 1)}))
    else:
        typer.echo(f"compiled {found - before} of {found} kernels in {took_s:.1f} s")
