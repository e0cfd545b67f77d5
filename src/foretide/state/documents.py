"""The small files of a state, in JSON: what it is, which snapshots count, and the time of its last batch."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from foretide.depot import Depot, joined
from foretide.state.errors import DamagedStateError

__all__ = ["read_document"]

T = TypeVar("T")


def read_document(depot: Depot, name: str, operator: str, make: Callable[[dict[str, Any]], T]) -> T | None:
    """Return what is made of a file; None where there is none.

    Raises
    ------
    DamagedStateError
        When the file is cut short, or nothing can be made of it.

    Examples
    --------
    >>> import tempfile
    >>> from foretide.depot import open_depot
    >>> depot = open_depot(tempfile.mkdtemp())
    >>> read_document(depot, "state.json", "count", dict) is None
    True
    >>> depot.put("state.json", b'{"partitions": 8}')
    >>> read_document(depot, "state.json", "count", lambda found: found["partitions"])
    8
    """
    try:
        content = depot.read(name)
    except FileNotFoundError:
        return None
    try:
        return make(json.loads(content))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        got = f"{len(content)} bytes with a fault: {error!r}"
        raise DamagedStateError(operator, joined(depot.uri, name), expected="JSON with its fields", got=got) from error
