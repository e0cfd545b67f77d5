"""Plain data as answers: JSON that never holds NaN, and examples for the documentation."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from foretide.store.databases.codec import to_json

__all__ = ["columns", "json_answer", "rounded"]

_DIGITS = 6


def json_answer(data: Any, status: int = 200) -> Response:
    """Return data as a JSON answer; what is not finite becomes null.

    >>> json_answer({"mean": float("nan")}).body
    b'{"mean": null}'
    """
    return Response(to_json(data), status, media_type="application/json")


def rounded(values: Any) -> Any:
    """Return numbers rounded to readable precision, as plain lists.

    >>> import numpy as np
    >>> rounded(np.array([1 / 3, 2.0]))
    [0.333333, 2.0]
    """
    found = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(found, list):
        return [rounded(value) for value in found]
    return float(f"{found:.{_DIGITS}g}") if isinstance(found, float) else found


def columns(names: tuple[str, ...], table: Any) -> dict[str, Any]:
    """Return a table with a column for each name as one list per name.

    >>> import numpy as np
    >>> columns(("a", "b"), np.array([[1, 2], [3, 4]]))
    {'a': [1, 3], 'b': [2, 4]}
    """
    return {name: rounded(table[:, place]) for place, name in enumerate(names)}
