"""The service: forecasts and runs over HTTP, live data, Prometheus, and the dashboard."""

from foretide.service.app import create_app
from foretide.service.server import BackgroundService
from foretide.service.settings import TOKEN_VARIABLE, ServiceSettings

__all__ = ["TOKEN_VARIABLE", "BackgroundService", "ServiceSettings", "create_app"]
