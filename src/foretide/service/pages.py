"""The dashboard and the page that documents the API: files of the package, which load nothing from other sites."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

from foretide._version import __version__
from foretide.service.http.answers import json_answer
from foretide.service.state import state_of

__all__ = ["add_pages"]

_FILES = Path(__file__).parent / "static"
# Read each time, so that a new version of the package shows at once.
_FRESH = {"Cache-Control": "no-cache"}
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_router = APIRouter(include_in_schema=False)


@_router.get("/")
def dashboard() -> Response:
    """Return the dashboard."""
    return FileResponse(_FILES / "index.html", headers=_FRESH)


@_router.get("/docs")
def documentation() -> Response:
    """Return the page that documents the API."""
    return FileResponse(_FILES / "docs.html", headers=_FRESH)


@_router.get("/favicon.ico")
def icon() -> Response:
    """Return the icon."""
    return FileResponse(_FILES / "icon.svg", media_type="image/svg+xml", headers=_FRESH)


@_router.get("/healthz")
def health() -> Response:
    """Report that the service is up."""
    return json_answer({"status": "up", "version": __version__})


@_router.get("/metrics")
def metrics(request: Request) -> Response:
    """Return all metrics for Prometheus."""
    return Response(state_of(request).metrics.to_text(), media_type=_METRICS_TYPE)


def add_pages(app: FastAPI) -> None:
    """Add the pages to an application."""
    app.include_router(_router)
    app.mount("/static", StaticFiles(directory=_FILES), name="static")
