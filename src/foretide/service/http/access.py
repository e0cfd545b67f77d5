"""Access control: the token, the host name of the request, and requests that other sites make through a browser."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from foretide.service.http.problems import Problem
from foretide.service.settings import ServiceSettings, is_loopback

__all__ = ["Gate"]

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
#: Public paths: the page and its files, whether the service is up, and the description of the API.
_OPEN = frozenset({"/", "/healthz", "/docs", "/openapi.json"})
_OPEN_UNDER = ("/static/",)


@dataclass(frozen=True)
class Gate:
    """Decides whether a request may pass.

    Parameters
    ----------
    settings : ServiceSettings
        Address and token.

    Examples
    --------
    >>> gate = Gate(ServiceSettings(token="0123456789abcdef"))
    >>> gate.check("GET", "/v1/runs", {"host": "127.0.0.1:8740", "authorization": "Bearer 0123456789abcdef"})
    >>> gate.check("GET", "/v1/runs", {"host": "127.0.0.1:8740"})
    Traceback (most recent call last):
    ...
    foretide.service.http.problems.Problem: 401: expected a token as 'Authorization: Bearer TOKEN', got none
    """

    settings: ServiceSettings

    def check(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        """Return if a request may pass.

        Raises
        ------
        Problem
            401 without the right token, 403 for a wrong host name or a page of another site.
        """
        self._check_host(headers.get("host", ""))
        self._check_origin(method, headers)
        if not (path in _OPEN or path.startswith(_OPEN_UNDER)):
            self._check_token(headers.get("authorization"))

    def _check_host(self, host: str) -> None:
        """Refuse other host names if there is no token: a foreign name server may point one here (DNS rebinding)."""
        if self.settings.token is not None:
            return
        name = _name(host)
        if not (is_loopback(name) or name == self.settings.host):
            raise Problem(403, "wrong-host", f"expected a request for {self.settings.host} or localhost, got {name!r}")

    def _check_origin(self, method: str, headers: Mapping[str, str]) -> None:
        """Refuse changes that a page of another site makes through a browser."""
        origin = headers.get("origin")
        if method in _SAFE or origin is None:
            return
        if urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
            raise Problem(403, "foreign-origin", f"expected a request from this service's own page, got {origin!r}")

    def _check_token(self, authorization: str | None) -> None:
        token = self.settings.token
        if token is None:
            return
        challenge = {"WWW-Authenticate": "Bearer"}
        if authorization is None:
            detail = "expected a token as 'Authorization: Bearer TOKEN', got none"
            raise Problem(401, "token-missing", detail, headers=challenge)
        kind, _, given = authorization.partition(" ")
        # In constant time, however much of the token is right.
        if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
            detail = "expected the token that the service was started with, got another one"
            raise Problem(401, "token-wrong", detail, headers=challenge)


@lru_cache(256)
def _name(host: str) -> str:
    """Return the name in a Host header, without its port.

    >>> [_name(host) for host in ("localhost:8740", "[::1]:8740", "[::1", "")]
    ['localhost', '::1', '', '']
    """
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
