"""The four operators of the Twitter detection on one event, in plain Python, for systems that take events one by one.

It needs the standard library alone: every system runs it in an environment of its own. The keywords are those of
`foretide.apps.keywords`, handed over as a file of JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

Event = dict[str, Any]
Operator = Callable[[Event], Event]

#: Where the keywords stand: column, then name, then words.
KEYWORDS = "FIELD_KEYWORDS"
OTHER = "other"


def operators() -> list[tuple[str, Operator]]:
    """Return the operators in their order, with the column that each adds."""
    tables = json.loads(Path(os.environ[KEYWORDS]).read_text(encoding="utf-8"))
    return [(column, detector(column, keywords)) for column, keywords in tables.items()]


def detector(column: str, keywords: dict[str, str]) -> Operator:
    """Return an operator that adds the first name one of whose words is in the text."""
    words = [(name, frozenset(keys.split("|"))) for name, keys in keywords.items()]

    def detect(event: Event) -> Event:
        found = set(event["text"].split(" "))
        event[column] = next((name for name, keys in words if not keys.isdisjoint(found)), OTHER)
        return event

    return detect
