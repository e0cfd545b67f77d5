"""``foretide kafka``: a real broker on this machine, for development and experiments."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from foretide.kafka import BrokerInfo

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Start, stop and inspect a Kafka broker on this machine.")

Directory = Annotated[
    Path | None, typer.Option("--dir", help="Where its data are kept; by default in your cache folder.", metavar="DIR")
]


@app.command()
def up(
    port: Annotated[int, typer.Option(help="Where clients connect; 0 takes a free one.", min=0, max=65_535)] = 9092,
    directory: Directory = None,
    heap_mb: Annotated[int, typer.Option("--heap", help="Megabytes of its heap.", min=128)] = 512,
    topic: Annotated[
        list[str] | None,
        typer.Option(help="A topic to create unless it exists, with its partitions.", metavar="NAME[:N]"),
    ] = None,
    foreground: Annotated[
        bool,
        typer.Option("--foreground/--detach", "-f/-d", help="Keep it in this terminal, until Ctrl+C."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print where it is as JSON.")] = False,
) -> None:
    """Start a Kafka broker, one node on loopback, and return once it answers; foretide kafka down stops it.

    Its packages are fetched once from Maven Central, by mvn; later starts need no network. Topics survive a stop.

    [bold]Example:[/] foretide kafka up --topic orders:4
    """
    from foretide.kafka import Broker, Cluster

    topics = [_topic(text) for text in topic or ()]
    broker = Broker(directory, port, heap_mb=heap_mb)
    typer.echo("starting Kafka", err=True)
    info = broker.start()
    try:
        for name, partitions in topics:
            Cluster(info.servers, "foretide kafka up", 10.0).ensure_topic(name, partitions)
    except BaseException:
        broker.stop()
        raise
    if as_json:
        typer.echo(json.dumps(_facts(info), indent=2, ensure_ascii=False))
    else:
        _show(info)
    if not foreground:
        if not as_json:
            typer.echo("It runs in the background; foretide kafka down stops it.", err=True)
        return
    typer.echo("Ctrl+C stops it", err=True)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        broker.wait()
    except KeyboardInterrupt:
        typer.echo("stopping", err=True)
    finally:
        broker.stop()


@app.command()
def down(
    directory: Directory = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was stopped as JSON.")] = False,
) -> None:
    """Stop the broker that runs in a directory; its topics stay.

    [bold]Example:[/] foretide kafka down
    """
    from foretide.kafka import Broker, find_broker

    info = find_broker(directory)
    if info is not None:
        Broker(info.directory, int(info.servers.rpartition(":")[2])).stop()
    if as_json:
        typer.echo(json.dumps({"stopped": info.servers if info else None}))
    elif info is None:
        typer.echo("no broker runs there", err=True)
    else:
        typer.echo(f"stopped  {info.servers}")


@app.command()
def status(
    directory: Directory = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Show whether a broker runs, and what its topics hold.

    [bold]Example:[/] foretide kafka status
    """
    from foretide.kafka import Cluster, find_broker

    info = find_broker(directory)
    topics: dict[str, dict[str, int]] = {}
    if info is not None:
        cluster = Cluster(info.servers, "foretide kafka status", 5.0)
        known = cluster.retry(lambda: cluster.admin().list_topics(timeout=5.0)).topics
        for name in sorted(name for name in known if not name.startswith("__")):
            held = cluster.offsets(name)
            events = sum(offsets.end - offsets.first for offsets in held.values())
            topics[name] = {"partitions": len(held), "events": events}
    if as_json:
        typer.echo(
            json.dumps({"running": info is not None, **_facts(info), "topics": topics}, indent=2, ensure_ascii=False)
        )
        return
    if info is None:
        typer.echo("no broker runs there; start one: foretide kafka up")
        return
    _show(info)
    for name, facts in topics.items():
        typer.echo(f"topic    {name}: {facts['partitions']} partitions, {facts['events']} events")


def _facts(info: BrokerInfo | None) -> dict[str, str | int | None]:
    if info is None:
        return dict.fromkeys(("servers", "process", "data", "log"))
    return {"servers": info.servers, "process": info.pid, "data": info.directory, "log": str(info.log)}


def _show(info: BrokerInfo) -> None:
    for name, value in _facts(info).items():
        typer.echo(f"{name:<8} {value}")


def _topic(text: str) -> tuple[str, int]:
    from foretide.errors import ConfigError

    name, _, count = text.partition(":")
    if not name or (count and not (count.isdecimal() and int(count))):
        raise ConfigError("--topic", expected="a name and a number of partitions, such as orders:4", got=repr(text))
    return name, int(count or 4)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt
