"""How every command fails: one clear message for an error of ours, a traceback on request."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import typer
from typer.core import TyperGroup

from foretide.errors import ConfigError, ForetideError

__all__ = ["FAILED", "ForetideGroup", "check_writable", "write_file"]

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
    """Write a file that the user asked for by an option, making its folder, and say so on stderr.

    The file appears as a whole or not at all: a reader never finds half of it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():  # a pipe or a terminal: there is no name to put a new file under
            path.write_text(content, encoding="utf-8")
        else:
            _replace(path, content)
    except OSError as error:
        raise _unwritable(path, error, option) from error
    typer.echo(f"wrote {path}", err=True)


def check_writable(path: Path | None, option: str) -> None:
    """Raise a `ConfigError` where `write_file` would, before the work whose result is to go there."""
    if path is None or (path.exists() and not path.is_file() and not path.is_dir()):
        return
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise _unwritable(path, error, option) from error


def _replace(path: Path, content: str) -> None:
    with NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            # A temporary file is its owner's alone; what the user asked for has the rights that new files have.
            os.chmod(file.name, _new_file_mode())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _new_file_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _unwritable(path: Path, error: OSError, option: str) -> ConfigError:
    reason = f"{str(path)!r}: {(error.strerror or str(error)).lower()}"
    return ConfigError(option, expected="a file that can be written", got=reason, remedy="choose another path")
