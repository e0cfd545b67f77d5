"""Bodies of requests, read in one step from bytes to a checked record: several times faster than FastAPI's two."""

from __future__ import annotations

from typing import Any, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.requests import Request

__all__ = ["body_of", "described"]

_Model = TypeVar("_Model", bound=BaseModel)
_SCHEMAS = "#/components/schemas/"
#: The records that routes read by `body_of`, by name, for the OpenAPI document.
DESCRIBED: dict[str, type[BaseModel]] = {}


def described(model: type[BaseModel]) -> dict[str, Any]:
    """Return what the OpenAPI document says about a body that `body_of` reads."""
    DESCRIBED[model.__name__] = model
    schema = {"$ref": _SCHEMAS + model.__name__}
    return {"required": True, "content": {"application/json": {"schema": schema}}}


async def body_of(request: Request, model: type[_Model]) -> _Model:
    """Return the body of a request as a record.

    Raises
    ------
    RequestValidationError
        When it is not JSON, or does not match the record.
    """
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise RequestValidationError([{**one, "loc": ("body", *one["loc"])} for one in found]) from error
