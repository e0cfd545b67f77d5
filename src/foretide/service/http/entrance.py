"""What every request passes before anything else looks at it: gate, limits, headers and counts."""

from __future__ import annotations

import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foretide.service.http.access import Gate
from foretide.service.http.limits import BodyCounter, RateLimit
from foretide.service.http.problems import Problem, problem_response
from foretide.service.prometheus import ServiceMetrics
from foretide.service.settings import ServiceSettings

__all__ = ["Entrance"]

# Nothing from other sites is loaded, run, or allowed to frame the page.
_POLICY = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
_DATA = [(b"x-content-type-options", b"nosniff")]
_PAGES = [*_DATA, (b"content-security-policy", _POLICY.encode()), (b"referrer-policy", b"no-referrer")]


class Entrance:
    """Checks access and limits, adds security headers, and counts requests.

    Parameters
    ----------
    app : ASGI application
        The application behind it.
    settings : ServiceSettings
        Token and limits.
    metrics : ServiceMetrics
        Counts requests.
    """

    def __init__(self, app: ASGIApp, settings: ServiceSettings, metrics: ServiceMetrics) -> None:
        self._app, self._metrics = app, metrics
        self._gate = Gate(settings)
        self._rate = RateLimit(settings.rate_per_s, settings.burst)
        self._most_bytes = int(settings.max_body_kb * 1024)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(scope, send, self._metrics)
        try:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            self._rate.check(_client(scope))
            self._gate.check(scope["method"], scope["path"], headers)
            length = headers.get("content-length", "")
            counter = BodyCounter(self._most_bytes)
            if length.isdecimal():
                BodyCounter(self._most_bytes).add(int(length))
        except Problem as problem:
            await problem_response(problem)(scope, receive, answer.send)
            return

        async def counted() -> Message:
            message = await receive()
            counter.add(len(message.get("body", b"")))
            return message

        await self._app(scope, counted, answer.send)


class _Answer:
    """An answer on its way out: it gets headers, and is counted when it begins."""

    def __init__(self, scope: Scope, send: Send, metrics: ServiceMetrics) -> None:
        self._scope, self._send, self._metrics = scope, send, metrics
        self._began = time.perf_counter()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            safety = _DATA if self._scope["path"].startswith("/v1/") else _PAGES
            message["headers"] = [*message.get("headers", ()), *safety]
            route: Any = self._scope.get("route")
            path = getattr(route, "path", "other")
            self._metrics.answered(self._scope["method"], path, message["status"], time.perf_counter() - self._began)
        await self._send(message)


def _client(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "unknown"
