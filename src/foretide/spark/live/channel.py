"""The line between the driver and the tasks of a live stage: lines of JSON over a socket of the driver's.

A task that dies closes its end, so that the driver knows at once; a task whose driver dies ends. Who connects must know
the token that travels with the task.
"""

from __future__ import annotations

import hmac
import json
import logging
import queue
import secrets
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

__all__ = ["ControlLine", "ControlServer", "Message"]

_LOG = logging.getLogger(__name__)

Message: TypeAlias = dict[str, Any]
# Seconds that a message may take to be handed to the other side, and that a new connection has to say who it is.
_SEND_S = 10.0
_GREETING_BYTES = 4096


class ControlLine:
    """One end of a connection.

    Parameters
    ----------
    place : socket
        The connection.
    """

    def __init__(self, place: socket.socket) -> None:
        place.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._place, self._sending = place, threading.Lock()
        self._reading = place.makefile("r", encoding="utf-8", newline="\n")

    @classmethod
    def connect(cls, address: tuple[str, int], greeting: Mapping[str, Any]) -> ControlLine:
        """Connect to the driver at an address, and say who connects."""
        place = socket.create_connection(address, timeout=_SEND_S)
        place.settimeout(None)
        line = cls(place)
        line.send(greeting)
        return line

    def send(self, message: Mapping[str, Any]) -> bool:
        """Send a message; return whether the connection still stands."""
        data = json.dumps(message).encode() + b"\n"
        try:
            with self._sending:
                self._place.sendall(data)
            return True
        except OSError:
            return False

    def receive(self, most: int = -1) -> Message | None:
        """Return the next message; None when the connection has ended."""
        try:
            text = self._reading.readline(most)
            return json.loads(text) if text.endswith("\n") else None
        except (OSError, ValueError):
            return None

    def messages(self) -> Iterator[Message]:
        """Yield messages until the connection ends."""
        while (message := self.receive()) is not None:
            yield message

    def close(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self._place.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            self._reading.close()
            self._place.close()


class ControlServer:
    """The driver's side: tasks connect, and what they say waits in `events`.

    Parameters
    ----------
    host : str
        The address at which tasks reach the driver.
    bind : str
        The address to listen at.
    """

    def __init__(self, host: str, bind: str) -> None:
        self.token = secrets.token_hex(16)
        self._place = socket.create_server((bind, 0))
        #: Where tasks connect to.
        self.address = (host, int(self._place.getsockname()[1]))
        #: What tasks say, each with the name of the task; a message without ``is`` says that it is gone.
        self.events: queue.SimpleQueue[tuple[str, Message]] = queue.SimpleQueue()
        self._lines: dict[str, ControlLine] = {}
        threading.Thread(target=self._accept, name="foretide-live-line", daemon=True).start()

    def send(self, task: str, message: Mapping[str, Any]) -> None:
        """Tell a task something; one that does not take it is gone."""
        line = self._lines.get(task)
        if line is not None and not line.send(message):
            line.close()

    def close(self) -> None:
        """End all connections."""
        with suppress(OSError):
            self._place.shutdown(socket.SHUT_RDWR)
        self._place.close()
        for line in list(self._lines.values()):
            line.close()

    def _accept(self) -> None:
        while True:
            try:
                place, _ = self._place.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(place,), name="foretide-live-task", daemon=True).start()

    def _serve(self, place: socket.socket) -> None:
        place.settimeout(_SEND_S)
        line = ControlLine(place)
        greeting = line.receive(_GREETING_BYTES)
        if greeting is None or not hmac.compare_digest(str(greeting.pop("token", "")), self.token):
            _LOG.warning("a connection that does not know the token was refused")
            line.close()
            return
        # Tasks that have nothing to say still report; they may be silent for as long as an operator computes.
        place.settimeout(None)
        task = str(greeting["task"])
        self._lines[task] = line
        self.events.put((task, greeting))
        for message in line.messages():
            self.events.put((task, message))
        self._lines.pop(task, None)
        line.close()
        self.events.put((task, {}))
