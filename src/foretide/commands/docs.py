"""``foretide docs``: pages that are generated, for those who work on Foretide."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foretide.commands.group import write_file

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Write the pages that are generated.")


@app.callback()
def _docs() -> None:
    """Write the pages that are generated."""


@app.command()
def configuration(
    out: Annotated[Path | None, typer.Option(help="The file to write; printed without it.", metavar="OUT")] = None,
) -> None:
    """Write the page of all settings, from the settings themselves.

    [bold]Example:[/] foretide docs configuration --out docs/configuration.md
    """
    from foretide.reference import configuration_markdown

    page = configuration_markdown()
    if out is None:
        typer.echo(page, nl=False)
    else:
        write_file(out, page, "--out")
