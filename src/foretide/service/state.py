"""What all routes of one service share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request

from foretide.service.desk import ForecastDesk
from foretide.service.live import LiveHub
from foretide.service.prometheus import ServiceMetrics
from foretide.service.settings import ServiceSettings
from foretide.store import RecordedRun, RunStore

__all__ = ["ServiceState", "state_of"]


@dataclass(frozen=True, kw_only=True)
class ServiceState:
    """The parts of a running service.

    Parameters
    ----------
    store : RunStore
        The runs.
    settings : ServiceSettings
        Address, token, limits.
    metrics : ServiceMetrics
        Counts.
    desk : ForecastDesk
        Forecasts.
    hub : LiveHub
        News of runs.
    now : callable
        Gives Unix time.
    """

    store: RunStore
    settings: ServiceSettings
    metrics: ServiceMetrics
    desk: ForecastDesk
    hub: LiveHub
    now: Callable[[], float]

    def run(self, name: str) -> RecordedRun:
        """Return a run by its id, the beginning of it, its name or ``latest``."""
        return self.store.run(name)


def state_of(request: Request) -> ServiceState:
    """Return the state of the service that a request came to."""
    state: ServiceState = request.app.state.foretide
    return state
