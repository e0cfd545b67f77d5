"""``foretide serve``: forecasts, runs and the dashboard over HTTP."""

from __future__ import annotations

import json
import signal
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from foretide.commands.runs import Store
from foretide.errors import ConfigError
from foretide.extras import needs_extra

if TYPE_CHECKING:
    from foretide.service import ServiceSettings

__all__ = ["serve"]


def serve(
    store: Store = None,
    host: Annotated[str, typer.Option(help="The address to listen on; any but loopback needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65_535)] = 8740,
    token: Annotated[
        str | None,
        typer.Option(
            help="What requests must carry. Prefer the variable: others can see options.",
            envvar="FORETIDE_TOKEN",
            show_envvar=True,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting, such as 'rate_per_s=50' or 'max_samples=1000'.", metavar="NAME=VALUE"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the addresses as JSON once it serves.")] = False,
) -> None:
    """Serve the dashboard, the API and the metrics of recorded runs, until Ctrl+C.

    The dashboard is at /, the documentation of the API at /docs, metrics for Prometheus at /metrics.

    [bold]Example:[/] foretide serve

    [bold]For others in the network:[/] FORETIDE_TOKEN=... foretide serve --host 0.0.0.0
    """
    with needs_extra("service", "foretide serve"):
        from foretide.service import BackgroundService
    from foretide.store import RunStore, default_store

    chosen = _settings(host, port, token, settings or [])
    with RunStore(store or default_store()) as runs, BackgroundService(runs, chosen) as service:
        if as_json:
            addresses = {"dashboard": f"{service.url}/", "api": f"{service.url}/docs", "store": runs.name}
            typer.echo(json.dumps(addresses, indent=2, ensure_ascii=False))
        typer.echo(f"dashboard  {service.url}/\nAPI        {service.url}/docs\nruns       {runs.name}", err=True)
        if chosen.token is not None:
            typer.echo("every request needs the token", err=True)
        signal.signal(signal.SIGTERM, _interrupt)
        service.wait()


def _interrupt(_: int, __: FrameType | None) -> None:
    """End as Ctrl+C does: streams and the store are closed."""
    raise KeyboardInterrupt


def _settings(host: str, port: int, token: str | None, given: list[str]) -> ServiceSettings:
    from foretide.config import parsed_value, validated
    from foretide.service import ServiceSettings

    values: dict[str, object] = {"host": host, "port": port, "token": token or None}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError("--set", expected="a name and a value, such as rate_per_s=50", got=repr(text))
        values[name.strip()] = parsed_value(value.strip())
    return validated(ServiceSettings, values, "service")
