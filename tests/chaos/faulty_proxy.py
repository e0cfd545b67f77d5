"""A proxy before a server that can let connections hang, cut them off, or answer that the service is unavailable."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

__all__ = ["FaultyProxy"]

_UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_CHUNK = 1 << 16


class FaultyProxy:
    """Passes bytes on to a port of this machine, as `mode` says.

    Parameters
    ----------
    target : int
        The port of the server.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        #: "pass", "hang" (nothing is answered), "cut" (answers end in their midst) or "unavailable".
        self.mode = "pass"
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop, and end all connections."""
        self._listening.close()
        self.drop()

    def drop(self) -> None:
        """End all connections that are open."""
        for one in list(self._open):
            self._end(one)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            client.close()
            return
        self._open |= {client, server}
        threading.Thread(target=self._pass, args=(client, server, False), daemon=True).start()
        self._pass(server, client, True)

    def _pass(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                while self.mode == "hang":
                    time.sleep(0.05)
                if self.mode == "unavailable" and not answers:
                    source.sendall(_UNAVAILABLE)
                    break
                if self.mode == "cut" and answers:
                    target.sendall(data[: len(data) // 2])
                    break
                target.sendall(data)
        self._end(source)
        self._end(target)

    def _end(self, one: socket.socket) -> None:
        self._open.discard(one)
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
