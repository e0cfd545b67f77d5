"""The service: forecasts and runs over HTTP, live data, Prometheus, and the dashboard.

May import `control`, `forecast`, `store` and what lies below them. Names are imported when they are first used, so
that settings can be read without the extra ``service``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretide._lazy import lazy_names

if TYPE_CHECKING:
    from foretide.service.app import create_app
    from foretide.service.server import BackgroundService
    from foretide.service.settings import TOKEN_VARIABLE, ServiceSettings

__all__ = ["TOKEN_VARIABLE", "BackgroundService", "ServiceSettings", "create_app"]

__getattr__ = lazy_names(
    __name__,
    {
        "TOKEN_VARIABLE": "foretide.service.settings",
        "BackgroundService": "foretide.service.server",
        "ServiceSettings": "foretide.service.settings",
        "create_app": "foretide.service.app",
    },
)
