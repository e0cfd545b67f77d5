"""``foretide traces``: the inputs that go by a name."""

from __future__ import annotations

import json
from typing import Annotated

import typer

__all__ = ["traces"]

_WIDE = 140


def traces(
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List the inputs that go by a name: shipped traces, and made-up ones.

    A made-up input may have a seed: 'made:steps:3' is another one of the same kind, the same whenever it is named.
    'simulate --trace' and 'compare --traces' take these names, and CSV files.

    [bold]Example:[/] foretide traces
    """
    from foretide.commands.group import console_for
    from foretide.commands.terminal import plain_table
    from foretide.traces import known_traces, load_trace
    from foretide.traces.made import FAMILIES

    what = dict.fromkeys(known_traces(), "shipped") | {
        f"{family}:{name}": shape.summary for family, shapes in FAMILIES.items() for name, shape in shapes.items()
    }
    found = [(load_trace(name), summary) for name, summary in what.items()]
    if as_json:
        entries = [
            {
                "name": trace.name,
                "summary": summary,
                "bin_s": trace.bin_s,
                "duration_s": trace.duration_s,
                "mean_per_s": float(trace.rates.mean()),
                "peak_per_s": trace.peak_rate,
                "events": trace.total_events,
            }
            for trace, summary in found
        ]
        typer.echo(json.dumps(entries, indent=2, ensure_ascii=False))
        return
    table = plain_table("trace", ("seconds", "mean/s", "peak/s", "events"))
    table.add_column("what it is")
    for trace, summary in found:
        numbers = (trace.duration_s, trace.rates.mean(), trace.peak_rate, trace.total_events)
        table.add_row(trace.name, *(f"{number:,.0f}" for number in numbers), summary)
    console_for(None, _WIDE).print(table)
