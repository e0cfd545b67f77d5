"""``foretide s3``: a server that speaks S3's language on this machine, for development and experiments."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

__all__ = ["s3"]


def s3(
    port: Annotated[int, typer.Option(help="Where clients connect; 0 takes a free one.", min=0, max=65_535)] = 9000,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where objects are kept; by default in your cache folder.")
    ] = None,
    bucket: Annotated[list[str] | None, typer.Option(help="A bucket to make; 'runs' unless given.")] = None,
    host: Annotated[str, typer.Option(help="The address at which it listens.")] = "127.0.0.1",
    as_json: Annotated[bool, typer.Option("--json", help="Print what clients need as JSON.")] = False,
) -> None:
    """Start a small S3 server (S3Proxy) and keep it in this terminal, until Ctrl+C; objects stay.

    Its packages are fetched once from Maven Central, by mvn; later starts need no network. It prints what clients need
    in their environment.

    [bold]Example:[/] foretide s3 --bucket runs

    [bold]Then:[/] foretide run examples/wordcount.py --path s3://runs/words --engine checkpoint=/tmp/words --minutes 1
    """
    from foretide.commands.machine.s3_server import S3Server
    from foretide.files import cache_directory

    folder = directory or cache_directory() / "s3"
    signal.signal(signal.SIGTERM, _interrupt)
    with S3Server(folder, bucket or ["runs"], host=host, port=port) as server:
        if as_json:
            typer.echo(json.dumps(server.environment, indent=2))
        else:
            typer.echo("\n".join(f"export {name}={value}" for name, value in server.environment.items()))
        typer.echo(f"objects are in {folder}; Ctrl+C stops it", err=True)
        try:
            server.wait()
        except KeyboardInterrupt:
            typer.echo("stopping", err=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
