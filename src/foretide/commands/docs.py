"""``foretide docs``: generated pages, for developers of Foretide."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foretide.commands.group import write_file

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Write the generated pages.")


_Out = Annotated[Path | None, typer.Option(help="The file to write; printed without it.", metavar="OUT")]


@app.callback()
def _docs() -> None:
    """Write the generated pages."""


@app.command()
def configuration(out: _Out = None) -> None:
    """Write the page of all settings, from the settings themselves.

    [bold]Example:[/] foretide docs configuration --out docs/configuration.md
    """
    from foretide.reference import configuration_markdown

    _give(configuration_markdown(), out)


@app.command()
def cli(context: typer.Context, out: _Out = None) -> None:
    """Write the page of all commands, from the commands themselves.

    [bold]Example:[/] foretide docs cli --out cli.md
    """
    from foretide.commands.docs_view import commands_markdown

    _give(commands_markdown(context.find_root().command), out)


def _give(page: str, out: Path | None) -> None:
    if out is None:
        typer.echo(page, nl=False)
    else:
        write_file(out, page, "--out")
