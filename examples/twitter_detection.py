"""The Twitter detection of PA-SPS: what is a tweet about, in four steps from topic to subcategory.

Each operator looks for keywords in the text and adds one column. The paper gives its four operators, not their code:
these are of that kind, and cheap enough to show what the engine itself costs.

    foretide run examples/twitter_detection.py --rate-scale 0.5 --minutes 1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from foretide import flow

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


def detect(column: str, keywords: Mapping[str, str]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return an operator that adds `column`: the first name one of whose keywords is in the text, else "other"."""
    patterns = {name: rf"\b(?:{words})\b" for name, words in keywords.items()}

    def add(batch: pa.RecordBatch) -> pa.RecordBatch:
        found = {name: pc.match_substring_regex(batch["text"], pattern) for name, pattern in patterns.items()}
        which = pa.StructArray.from_arrays(list(found.values()), names=list(found))
        return batch.append_column(column, pc.case_when(which, *map(pa.scalar, found), pa.scalar("other")))

    return add


job = flow("twitter_detection")
(
    job.source("tweets", "trace", trace="pasps_twitter_smoothed", payload="tweets", rate_scale=0.2)
    # Shuffle edges need no exchange: the four run one after another in the same tasks.
    .operator("topic", detect("topic", TOPICS), mode="arrow", execution_s=0.000178, replicas=(1, 8))
    .operator("subtopic", detect("subtopic", SUBTOPICS), mode="arrow", execution_s=0.000290, replicas=(1, 8))
    .operator("category", detect("category", CATEGORIES), mode="arrow", execution_s=0.000232, replicas=(1, 8))
    .operator("subcategory", detect("subcategory", SUBCATEGORIES), mode="arrow", execution_s=0.000253, replicas=(1, 8))
    .sink("out")
)
topology = job.build()
