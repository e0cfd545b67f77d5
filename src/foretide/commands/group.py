"""How every command fails: one clear message for an error of ours, a traceback on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from foretide.errors import ConfigError, ForetideError

__all__ = ["FAILED", "ForetideGroup", "write_file"]

#: The exit status after an error of ours, the one that wrong arguments have too.
FAILED = 2


class ForetideGroup(TyperGroup):
    """Prints a `ForetideError` as one message and exits with `FAILED`, unless a traceback is asked for.

    Only the outermost group is one: it is the one that knows whether a traceback is wanted.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and explain what went wrong."""
        try:
            return super().invoke(ctx)
        except ForetideError as error:
            if ctx.params.get("traceback"):
                raise
            typer.secho("Error: ", fg=typer.colors.RED, bold=True, err=True, nl=False)
            typer.echo(str(error), err=True)
            raise typer.Exit(FAILED) from error


def write_file(path: Path, content: str, option: str) -> None:
    """Write a file that the user asked for by an option, making its folder, and say so on stderr."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        reason = f"{str(path)!r}: {(error.strerror or str(error)).lower()}"
        raise ConfigError(
            option, expected="a file that can be written", got=reason, remedy="choose another path"
        ) from error
    typer.echo(f"wrote {path}", err=True)
