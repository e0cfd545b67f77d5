"""The service as a process, or as a background thread of a run."""

from __future__ import annotations

import socket
import time
from typing import ClassVar

import uvicorn

from foretide.background import Background
from foretide.errors import ConfigError
from foretide.service.app import create_app
from foretide.service.settings import ServiceSettings
from foretide.store import RunStore

__all__ = ["BackgroundService"]

# Readers of live data would keep the service from ending.
_GRACE_S = 2
_START_S = 30.0
# Clients that send requests now and then keep their connection.
_IDLE_S = 30


class BackgroundService(Background):
    """The service in a background thread, for instance of a run; as a context manager it ends with the block.

    Parameters
    ----------
    store : RunStore
        The runs.
    settings : ServiceSettings, optional
        Address, token and limits; port 0 takes a free one.

    Raises
    ------
    ConfigError
        When the address cannot be listened on.
    """

    _name: ClassVar[str] = "foretide-service"

    def __init__(self, store: RunStore, settings: ServiceSettings | None = None) -> None:
        super().__init__()
        self.settings = settings or ServiceSettings()
        self._socket = _listen(self.settings)
        self._server = _server(store, self.settings)

    @property
    def url(self) -> str:
        """Where it listens."""
        return _url(self._socket)

    def start(self) -> None:
        """Start serving, and return once it does."""
        super().start()
        due_s = time.monotonic() + _START_S
        while not self._server.started and self.is_alive and time.monotonic() < due_s:
            time.sleep(0.01)

    def wait(self) -> None:
        """Serve until the process is interrupted, or the thread ends."""
        try:
            while self._thread is not None and self._thread.is_alive():
                self._thread.join(0.5)
        except KeyboardInterrupt:
            pass

    def stop(self, timeout_s: float = _GRACE_S + 3.0) -> None:
        """End within a few seconds."""
        self._server.should_exit = True
        super().stop(timeout_s)
        self._socket.close()

    def _run(self) -> None:
        self._server.run([self._socket])


def _server(store: RunStore, settings: ServiceSettings) -> uvicorn.Server:
    config = uvicorn.Config(
        create_app(store, settings),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_S,
        timeout_keep_alive=_IDLE_S,
        ws="none",
    )
    return uvicorn.Server(config)


def _listen(settings: ServiceSettings) -> socket.socket:
    """Return a listening socket, or raise an error before anything else starts."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(address)
            listening.listen(128)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise ConfigError(
            "port" if settings.port else "host",
            expected="an address of this machine that is free",
            got=f"{settings.host}:{settings.port} ({(error.strerror or str(error)).lower()})",
            remedy="choose another --port or --host",
        ) from error
    return listening


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
