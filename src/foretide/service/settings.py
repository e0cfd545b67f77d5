"""The settings of the service: where it listens, who may use it, and how much."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from pydantic import Field, model_validator

from foretide.config import Settings
from foretide.errors import ConfigError

__all__ = ["TOKEN_VARIABLE", "ServiceSettings", "is_loopback"]

#: The environment variable that holds the token.
TOKEN_VARIABLE = "FORETIDE_TOKEN"
_SHORTEST_TOKEN = 16


class ServiceSettings(Settings):
    """Where the service listens, who may use it, and how much a client may request."""

    host: str = Field(
        default="127.0.0.1", min_length=1, description="The address to listen on; any but loopback needs a token."
    )
    port: int = Field(default=8740, ge=0, le=65_535, description="The port to listen on; 0 takes a free one.")
    token: str | None = Field(
        default=None, repr=False, description="What requests must carry as `Authorization: Bearer TOKEN`."
    )
    max_body_kb: float = Field(default=1_024.0, gt=0, description="Kilobytes that the body of a request may have.")
    max_samples: int = Field(default=10_000, ge=1, description="Samples that a forecast may be made from.")
    max_horizon: int = Field(default=1_000, ge=1, description="Steps that a forecast may have.")
    rate_per_s: float = Field(default=500.0, gt=0, description="Requests a second that one client may sustain.")
    burst: int = Field(default=1_000, ge=1, description="Requests that one client may make at once.")
    max_rows: int = Field(default=20_000, ge=1, description="Records of a run that one request may read.")
    forecast_threads: int = Field(
        default=2, ge=1, le=64, description="Threads for expensive models; cheap ones share one other thread."
    )
    forecast_queue: int = Field(default=256, ge=1, description="Forecasts that may wait for a thread, of either kind.")
    forecast_deadline_s: float = Field(default=30.0, gt=0, description="Seconds after which a forecast is given up.")
    max_streams: int = Field(default=64, ge=1, description="Live streams that may be open at once.")
    poll_s: float = Field(default=0.2, ge=0.02, le=10, description="Seconds between two checks for news of a run.")

    @model_validator(mode="after")
    def _is_guarded(self) -> ServiceSettings:
        if self.token is not None and (len(self.token) < _SHORTEST_TOKEN or not self.token.isascii()):
            raise ConfigError(
                "token",
                expected=f"at least {_SHORTEST_TOKEN} plain characters",
                got=f"{len(self.token)} of them" if self.token.isascii() else "others",
                remedy="make one with: python -c 'import secrets; print(secrets.token_urlsafe())'",
            )
        if self.token is None and not is_loopback(self.host):
            raise ConfigError(
                "host",
                expected="a loopback address, such as 127.0.0.1, or a token as well",
                got=f"{self.host} without a token",
                remedy=f"set {TOKEN_VARIABLE}, or give --token",
            )
        return self


@lru_cache(256)
def is_loopback(host: str) -> bool:
    """Return whether an address leads to this machine alone.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
