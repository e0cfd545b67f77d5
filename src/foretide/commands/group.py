"""How every command fails: one clear message, a traceback on request; and where its results go."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from foretide.errors import ConfigError, ForetideError, MissingExtraError
from foretide.extras import extra_with
from foretide.files import replace_file

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "BROKEN",
    "EVENTS_FAILED",
    "FAILED",
    "STDOUT",
    "ForetideGroup",
    "check_writable",
    "console_for",
    "exit_if_failed",
    "interrupted",
    "write_file",
]

#: The exit status after a Foretide error, the same as for wrong arguments.
FAILED = 2
#: The exit status after an unexpected error.
BROKEN = 3
#: The exit status of a run that finished, but in which operators failed on some events.
EVENTS_FAILED = 4
# What a shell reports after Ctrl-C.
_INTERRUPTED = 130
#: Stands for standard output if an option takes a file.
STDOUT = Path("-")


class ForetideGroup(TyperGroup):
    """Prints an error as one message and exits with `FAILED`, or `BROKEN` if it is not a Foretide error.

    If a traceback is wanted, the error is raised as it is. Only the outermost group is of this class: it knows
    whether a traceback is wanted.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and explain what went wrong."""
        try:
            return super().invoke(ctx)
        except ForetideError as error:
            if ctx.params.get("traceback"):
                raise
            _say(str(error))
            raise typer.Exit(FAILED) from error
        except Exception as error:
            if ctx.params.get("traceback") or _of_click(error):
                raise
            if isinstance(error, ModuleNotFoundError) and (extra := extra_with(error.name)):
                _say(str(MissingExtraError(f"foretide {ctx.invoked_subcommand}", extra, (str(error.name),))))
                raise typer.Exit(FAILED) from error
            _say(f"{type(error).__name__}: {error}")
            typer.echo("This was unexpected: `foretide --traceback ...` shows where it arose.", err=True)
            raise typer.Exit(BROKEN) from error


def _of_click(error: Exception) -> bool:
    """Return whether an error is one that typer deals with: wrong arguments, an exit, a reader that went away."""
    return type(error).__module__.startswith(("click", "typer")) or isinstance(error, BrokenPipeError)


def _say(message: str) -> None:
    typer.secho("Error: ", fg=typer.colors.RED, bold=True, err=True, nl=False)
    typer.echo(message, err=True)


def interrupted() -> typer.Exit:
    """Report that the user ended the command before anything was written, and return the exit to raise."""
    typer.echo("interrupted: nothing was written", err=True)
    return typer.Exit(_INTERRUPTED)


def exit_if_failed(events: int) -> None:
    """Exit with a distinct status if operators failed on events, so that a script can tell without parsing output."""
    if events:
        raise typer.Exit(EVENTS_FAILED)


def write_file(path: Path, content: str | bytes, option: str) -> None:
    """Write a file that the user named in an option, creating its folder, and report that on stderr.

    The file appears as a whole or not at all: a reader never finds half of it. ``-`` is standard output.
    """
    if path == STDOUT:
        typer.echo(content, nl=isinstance(content, str) and not content.endswith("\n"))
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():  # a pipe or a terminal: there is no name to put a new file under
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        else:
            replace_file(path, content)
    except OSError as error:
        raise _unwritable(path, error, option) from error
    typer.echo(f"wrote {path}", err=True)


def console_for(json_out: Path | None, width: int | None = None) -> Console:
    """Return the console for people: not standard output if JSON goes there.

    Parameters
    ----------
    json_out : Path, optional
        Where JSON goes.
    width : int, optional
        Columns if there is no terminal: a pipe or a file has no width, and gets a line for each item.
    """
    from rich.console import Console

    console = Console(stderr=json_out == STDOUT)
    return console if console.is_terminal or width is None else Console(stderr=console.stderr, width=width)


def check_writable(path: Path | None, option: str) -> None:
    """Raise a `ConfigError` if `write_file` would, before the work whose result goes there."""
    if path is None or path == STDOUT or (path.exists() and not path.is_file() and not path.is_dir()):
        return
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise _unwritable(path, error, option) from error


def _unwritable(path: Path, error: OSError, option: str) -> ConfigError:
    reason = f"{str(path)!r}: {(error.strerror or str(error)).lower()}"
    return ConfigError(option, expected="a file that can be written", got=reason, remedy="choose another path")
