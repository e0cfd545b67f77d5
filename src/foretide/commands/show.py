"""``foretide show``: look at a topology."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from foretide.commands.group import write_file
from foretide.commands.topology_argument import SETTINGS_HELP, TOPOLOGY_HELP, load_topology_argument

__all__ = ["show"]


def show(
    file: Annotated[Path, typer.Argument(metavar="APP|FILE", help=TOPOLOGY_HELP)],
    svg: Annotated[Path | None, typer.Option(help="Write a picture to this file.", metavar="OUT")] = None,
    mermaid: Annotated[Path | None, typer.Option(help="Write a Mermaid flowchart to this file.", metavar="OUT")] = None,
    theme: Annotated[str, typer.Option(help="Colours of the picture: light or dark.")] = "light",
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=SETTINGS_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the topology as JSON.")] = False,
) -> None:
    """Check a topology and show it.

    Prints its operators layer by layer, or every error in it with its line.

    [bold]Example:[/] foretide show twitter-complex --svg twitter.svg
    """
    from rich.console import Console

    from foretide.errors import ConfigError
    from foretide.topology.draw import THEMES, to_mermaid, to_svg, to_text
    from foretide.topology.dumper import dump_topology

    if theme not in THEMES:
        raise ConfigError("--theme", expected=f"one of {', '.join(THEMES)}", got=repr(theme))
    topology = load_topology_argument(file, settings or ())
    if as_json:
        typer.echo(json.dumps(dump_topology(topology), indent=2, ensure_ascii=False))
    else:
        Console().print(to_text(topology))
    if svg:
        write_file(svg, to_svg(topology, theme=THEMES[theme]), "--svg")
    if mermaid:
        write_file(mermaid, to_mermaid(topology), "--mermaid")
