"""What Spark's reports of progress tell its listeners and its event logs: instants, and offsets that count rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

__all__ = ["LAST_BATCH", "instant_s", "offset_rows", "parsed_offset", "rows_ahead"]

#: Under this name a report has what the last batch of a stage of Foretide's did, next to its inputs; no input can
#: have this name.
LAST_BATCH = "last batch"


def instant_s(timestamp: str) -> float:
    """Return an instant of Spark's, in seconds since the epoch.

    >>> instant_s("1970-01-01T00:01:40.250Z")
    100.25
    """
    return datetime.fromisoformat(timestamp).timestamp()


def parsed_offset(offset: Any) -> Any:
    """Return an offset as data; None where it is a text that is no JSON."""
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset)
    except ValueError:
        return None


def offset_rows(offset: Any) -> int | None:
    """Return how many rows lie before an offset, as far as its form tells; None where it counts something else.

    Offsets of Kafka and its kin are rows by partition, those of Foretide's own sources rows by input.

    >>> offset_rows('{"topic": {"0": 70, "1": 30}}')
    100
    >>> offset_rows({"tweets": {"first": 10, "next": 30, "trace": "1f"}}), offset_rows({"next": 7, "trace": "1f"})
    (30, 7)
    >>> offset_rows({"tweets": {"first": 10, "next": 30}, "last batch": {"rows": 20}})
    30
    >>> offset_rows({"logOffset": 3}), offset_rows({"orders": {}}), offset_rows(12), offset_rows("?")
    (None, None, None, None)
    """
    offset = parsed_offset(offset)
    if not isinstance(offset, Mapping):
        return None
    if isinstance(offset.get("next"), int):
        return int(offset["next"])
    counts = [_part_rows(part) for name, part in offset.items() if name != LAST_BATCH]
    return None if not counts or None in counts else sum(count for count in counts if count is not None)


def rows_ahead(source: Mapping[str, Any]) -> int:
    """Return the rows between the end of the last batch and the end of a source; 0 where it does not tell."""
    latest, end = (offset_rows(source.get(name)) for name in ("latestOffset", "endOffset"))
    return 0 if latest is None or end is None else max(0, latest - end)


def _part_rows(part: Any) -> int | None:
    """Return the rows of a topic, or of an input."""
    if not isinstance(part, Mapping) or not part:
        return None
    if isinstance(part.get("next"), int):
        return int(part["next"])
    whole = all(isinstance(value, int) and str(name).isdecimal() for name, value in part.items())
    return sum(part.values()) if whole else None
