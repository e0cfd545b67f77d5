"""Offsets of sources, as far as they count rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["offset_rows"]


def offset_rows(offset: Any) -> int | None:
    """Return how many rows lie before an offset of Kafka or its kin; None where it counts something else.

    >>> offset_rows('{"topic":{"0":70,"1":30}}'), offset_rows({"orders": 12}), offset_rows({"logOffset": 3})
    (100, None, None)
    """
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return None
    if not isinstance(offset, Mapping) or not offset:
        return None
    topics = list(offset.values())
    if not all(isinstance(topic, Mapping) and topic for topic in topics):
        return None
    counts = [count for topic in topics for part, count in topic.items() if str(part).isdecimal()]
    whole = len(counts) == sum(len(topic) for topic in topics) and all(isinstance(count, int) for count in counts)
    return sum(counts) if whole else None
