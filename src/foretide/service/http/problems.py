"""Errors as `application/problem+json` (RFC 9457): what is wrong, where, and what to do about it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import compile_path

from foretide.errors import ConfigError, ForetideError
from foretide.store import StoreError, UnknownRunError

__all__ = ["Problem", "ProblemDocument", "handle_problems", "problem_response", "problems"]

_LOG = logging.getLogger(__name__)
_MEDIA_TYPE = "application/problem+json"
_TYPE = "urn:foretide:problem:"
# As many wrong places as an answer names.
_NAMED = 10


class WrongPlace(BaseModel):
    """One thing that is wrong with a request."""

    pointer: str = Field(description="Where: a JSON pointer into the body, or the name of a parameter.")
    detail: str = Field(description="What is wrong there.")


class ProblemDocument(BaseModel):
    """What went wrong, as RFC 9457 writes it."""

    type: str = Field(description="What kind of problem it is; the same for all of a kind.")
    title: str = Field(description="The kind in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What happened this time, and what to do about it.")
    errors: list[WrongPlace] | None = Field(default=None, description="What is wrong with the request, place by place.")


class Problem(HTTPException):
    """A request that cannot be served, and why.

    Parameters
    ----------
    status : int
        The HTTP status.
    kind : str
        What kind of problem it is, such as ``unknown-run``.
    detail : str
        What happened and what to do about it.
    errors : sequence of (pointer, detail)
        What is wrong with the request, place by place.
    headers : mapping
        Headers of the answer, such as ``Retry-After``.

    >>> print(Problem(404, "unknown-run", "no run has that name").kind)
    unknown-run
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        errors: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail, dict(headers or {}))
        self.kind, self.errors = kind, tuple(errors)

    def document(self) -> dict[str, Any]:
        """Return it as plain data."""
        body: dict[str, Any] = {
            "type": _TYPE + self.kind,
            "title": self.kind.replace("-", " "),
            "status": self.status_code,
            "detail": self.detail,
        }
        if self.errors:
            body["errors"] = [{"pointer": pointer, "detail": detail} for pointer, detail in self.errors]
        return body


def problem_response(problem: Problem) -> Response:
    """Return the answer to a request that cannot be served."""
    content = json.dumps(problem.document(), ensure_ascii=True, allow_nan=False)
    return Response(content, problem.status_code, problem.headers, _MEDIA_TYPE)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what a route may answer besides its own answer, for the OpenAPI document."""
    every = sorted({*statuses, 401, 403, 429})
    schema = {"$ref": "#/components/schemas/ProblemDocument"}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {_MEDIA_TYPE: {"schema": schema}}}
        for status in every
    }


def handle_problems(app: FastAPI) -> None:
    """Make every error of an application a problem document."""
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(ForetideError, _of_ours)
    app.add_exception_handler(Exception, _of_anything)


async def _of_http(request: Request, error: Exception) -> Response:
    if isinstance(error, Problem):
        return problem_response(error)
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    kind = status.phrase.lower().replace(" ", "-")
    headers = dict(error.headers or {})
    if status == HTTPStatus.METHOD_NOT_ALLOWED and (methods := _methods(request)):
        # The error knows of the first route alone that the path has.
        headers["Allow"] = ", ".join(methods)
    return problem_response(Problem(error.status_code, kind, _words(error, request), headers=headers))


def _methods(request: Request) -> list[str]:
    """Return the methods that there are for a path."""
    paths = request.app.openapi()["paths"].items()
    fitting = [operations for path, operations in paths if compile_path(path)[0].match(request.url.path)]
    return sorted({method.upper() for operations in fitting for method in operations})


def _words(error: HTTPException, request: Request) -> str:
    if error.status_code == HTTPStatus.NOT_FOUND:
        return f"there is nothing at {request.url.path}; /docs lists what there is"
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return f"{request.method} is not for {request.url.path}; /docs lists what is"
    return str(error.detail)


async def _of_validation(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    if any(one["type"] == "json_invalid" for one in found):
        reason = found[0].get("ctx", {}).get("error", "something else")
        return problem_response(Problem(400, "malformed-json", f"the body: expected JSON, got {reason}"))
    places = [(_pointer(one["loc"]), str(one["msg"])) for one in found]
    first = f"{places[0][0]}: {places[0][1]}"
    more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
    return problem_response(Problem(422, "invalid-request", first + more, errors=places[:_NAMED]))


def _pointer(location: Sequence[int | str]) -> str:
    """Return where something is wrong: a JSON pointer into the body, the plain name of a parameter elsewhere.

    >>> _pointer(("body", "samples", 3)), _pointer(("query", "last")), _pointer(("body",))
    ('#/samples/3', 'query last', '#')
    """
    kind, *rest = location
    if kind != "body":
        return f"{kind} {'.'.join(str(part) for part in rest)}"
    escaped = (str(part).replace("~", "~0").replace("/", "~1") for part in rest)
    return "#" + "".join(f"/{part}" for part in escaped)


async def _of_ours(_: Request, error: Exception) -> Response:
    if isinstance(error, UnknownRunError):
        return problem_response(Problem(404, "unknown-run", str(error)))
    if isinstance(error, StoreError):
        return problem_response(Problem(503, "store-unavailable", str(error), headers={"Retry-After": "1"}))
    if isinstance(error, ConfigError):
        return problem_response(Problem(422, "invalid-request", str(error)))
    return problem_response(Problem(500, "failed", str(error)))


async def _of_anything(request: Request, error: Exception) -> Response:
    _LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem_response(Problem(500, "failed", "the service failed on this request; see its log"))
