"""The application, assembled, and its OpenAPI document."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from foretide._version import __version__
from foretide.service import forecasting, runs, steering
from foretide.service.desk import ForecastDesk
from foretide.service.http.bodies import DESCRIBED
from foretide.service.http.entrance import Entrance
from foretide.service.http.problems import ProblemDocument, handle_problems
from foretide.service.live import LiveHub
from foretide.service.pages import add_pages
from foretide.service.prometheus import ServiceMetrics
from foretide.service.settings import ServiceSettings
from foretide.service.state import ServiceState
from foretide.store import RunStore

__all__ = ["create_app"]

_DESCRIPTION = """Forecasts for anyone's series, and recorded runs of topologies: what was measured, expected, decided
and why.

Instants are seconds on the clock of a run's loop; `clock_offset_s` of the run leads from there to Unix time. Errors are
`application/problem+json` (RFC 9457). If the service was started with a token, every request except those for the pages
carries it as `Authorization: Bearer TOKEN`.
"""
_TAGS = [
    {"name": "forecasts", "description": "Forecasters of rates (SPEC P6)."},
    {"name": "runs", "description": "What was recorded of runs, live and afterwards."},
    {"name": "control", "description": "Taking the wheel of a run."},
]


def create_app(
    store: RunStore, settings: ServiceSettings | None = None, *, now: Callable[[], float] = time.time
) -> FastAPI:
    """Return the service as an ASGI application.

    Parameters
    ----------
    store : RunStore
        The runs.
    settings : ServiceSettings, optional
        Token and limits.
    now : callable
        Gives Unix time.

    Examples
    --------
    >>> app = create_app(RunStore("runs.db"))
    >>> "/v1/forecast/{model}" in app.openapi()["paths"]
    True
    """
    settings = settings or ServiceSettings()
    metrics = ServiceMetrics(store, now)
    state = ServiceState(
        store=store,
        settings=settings,
        metrics=metrics,
        desk=ForecastDesk(settings),
        hub=LiveHub(store, settings, now),
        now=now,
    )
    app = FastAPI(
        title="Foretide",
        version=__version__,
        description=_DESCRIPTION,
        openapi_tags=_TAGS,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
    )
    app.state.foretide = state
    handle_problems(app)
    for router in (forecasting.router, runs.router, steering.router):
        app.include_router(router)
    add_pages(app)
    app.add_middleware(Entrance, settings=settings, metrics=metrics)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    state: ServiceState = app.state.foretide
    yield
    await state.hub.close()
    state.desk.close()


def _document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with how to authenticate and what a problem looks like."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            tags=app.openapi_tags,
        )
        parts = document.setdefault("components", {})
        described: dict[str, type[BaseModel]] = {**DESCRIBED, "ProblemDocument": ProblemDocument}
        for name, model in described.items():
            schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
            parts.setdefault("schemas", {}).update({**schema.pop("$defs", {}), name: schema})
        for unused in ("HTTPValidationError", "ValidationError"):
            parts["schemas"].pop(unused, None)
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        # Either way: a service on loopback needs no token.
        document["security"] = [{"token": []}, {}]
        app.openapi_schema = document
    return app.openapi_schema
