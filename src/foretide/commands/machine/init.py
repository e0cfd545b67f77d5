"""``foretide init``: a starter project to change."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from foretide.errors import ConfigError

__all__ = ["init"]


def init(
    directory: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="The folder; created if it does not exist.")
    ] = Path("."),
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write a starter project: a topology in one Python file, its input, settings, a test and a README.

    Every file is commented and works as it is. Existing files are not overwritten without --force.

    [bold]Example:[/] foretide init shop

    [bold]Then:[/] cd shop, foretide simulate pipeline.py --trace traffic.csv --policy foretide --td 5, and
    foretide run pipeline.py --config foretide.toml
    """
    from foretide.commands.machine.init_files import starter_files

    folder = directory.expanduser()
    files = {folder / file: content for file, content in starter_files(_name(folder)).items()}
    _refuse(folder, [path for path in files if path.exists() and not force])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            path.write_text(content, encoding="utf-8")
    except OSError as error:
        reason = f"{error.filename}: {(error.strerror or str(error)).lower()}"
        raise ConfigError("DIR", expected="a folder that can be written", got=reason) from error
    if as_json:
        body = {"directory": str(folder.resolve()), "files": [path.name for path in files]}
        typer.echo(json.dumps(body, indent=2, ensure_ascii=False))
        return
    for path in files:
        typer.echo(f"wrote {path}")
    typer.echo(f"\nnext:\n  cd {folder}\n  foretide simulate pipeline.py --trace traffic.csv --policy foretide --td 5")
    typer.echo("  foretide run pipeline.py --config foretide.toml")


def _name(folder: Path) -> str:
    """Return the name of the topology: the folder's name, as far as it is valid.

    >>> _name(Path("/tmp/My Shop!")), _name(Path("/"))
    ('my-shop', 'pages')
    """
    words = re.findall(r"[a-z0-9]+", folder.resolve().name.lower())
    return "-".join(words) or "pages"


def _refuse(folder: Path, there: list[Path]) -> None:
    if folder.exists() and not folder.is_dir():
        raise ConfigError("DIR", expected="a folder", got=f"the file {str(folder)!r}")
    if there:
        names = ", ".join(path.name for path in there)
        raise ConfigError(
            "DIR",
            expected="a folder without the files of a starter project",
            got=f"{names} in {str(folder)!r}",
            remedy="choose another folder, or add --force to overwrite them",
        )
