"""``foretide demo``: a plan, step by step."""

from __future__ import annotations

import json
from typing import Annotated

import typer

__all__ = ["demo"]


def demo(
    as_json: Annotated[bool, typer.Option("--json", help="Print every term as JSON.")] = False,
) -> None:
    """Work through a published example, from measurements to replicas.

    Three operators, one interval: every equation with its values, and what the paper prints. Needs no Spark.

    [bold]Example:[/] foretide demo
    """
    from rich.console import Console

    from foretide.experiments.presps_example import worked_example
    from foretide.experiments.presps_view import render

    example = worked_example()
    if as_json:
        typer.echo(json.dumps(example.to_dict(), indent=2, ensure_ascii=False))
    else:
        Console().print(render(example))
