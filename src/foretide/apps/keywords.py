"""Finding out what a text is about by the words in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["CATEGORIES", "OTHER", "SUBCATEGORIES", "SUBTOPICS", "TOPICS", "KeywordDetector"]

#: The label of a text without keywords.
OTHER = "other"

TOPICS = {
    "sport": "game|team|match|goal|coach|player|striker|keeper|league|final|cup|medal|race|record",
    "politics": "vote|law|court|judge|mayor|senate|election|campaign|debate|poll|party|leader|speech",
    "economy": "market|price|stock|bank|trade|coin|budget|tax|bill|strike|union|wage|job",
    "culture": "film|music|actor|scene|stage|concert|band|album|song|dance|show|season|episode|series",
}
SUBTOPICS = {
    "football": "goal|striker|keeper|league|cup|football",
    "athletics": "race|record|sprint|marathon|medal",
    "election": "vote|election|campaign|debate|poll|party",
    "justice": "law|court|judge|bill",
    "finance": "market|stock|bank|trade|coin|price",
    "music": "music|concert|band|album|song|guitar|drum|voice",
    "screen": "film|actor|scene|show|season|episode|series|video",
}
CATEGORIES = {
    "report": "news|report|photo|camera|update|live|video",
    "event": "today|now|night|morning|evening|weekend|holiday|season",
    "opinion": "love|good|great|best|happy|sad|angry|proud|funny|strange|wrong|right",
}
SUBCATEGORIES = {
    "praise": "love|good|great|best|happy|proud|brave|lucky|bright",
    "complaint": "sad|angry|tired|wrong|slow|loud|poor|false",
    "alert": "storm|flood|quake|fire|smoke|alarm|outage|rescue|police",
}


@dataclass(frozen=True)
class KeywordDetector:
    """An operator that adds a column: the first name one of whose keywords is in the text, else ``other``.

    Parameters
    ----------
    column : str
        The column to add.
    keywords : mapping of str to str
        The keywords of each name, with bars between them.

    Examples
    --------
    >>> detect = KeywordDetector("topic", {"sport": "goal|match", "economy": "bank|price"})
    >>> batch = pa.RecordBatch.from_pydict({"text": ["a goal", "the price of a match", "a goalkeeper"]})
    >>> detect(batch)["topic"].to_pylist()
    ['sport', 'sport', 'other']
    """

    column: str
    keywords: Mapping[str, str]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with the column added."""
        found = {name: pc.match_substring_regex(batch["text"], pattern) for name, pattern in self._patterns.items()}
        which = pa.StructArray.from_arrays(list(found.values()), names=list(found))
        return batch.append_column(self.column, pc.case_when(which, *map(pa.scalar, found), pa.scalar(OTHER)))

    def detect(self, text: str) -> str:
        """Return the label of one text, by its words."""
        words = set(text.split(" "))
        return next((name for name, keys in self.keywords.items() if words & set(keys.split("|"))), OTHER)

    @cached_property
    def _patterns(self) -> dict[str, str]:
        return {name: rf"\b(?:{words})\b" for name, words in self.keywords.items()}
