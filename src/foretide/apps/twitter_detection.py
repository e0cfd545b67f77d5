"""Twitter detection (SPEC P9): what is a tweet about, in four steps from topic to subcategory.

Each operator looks for keywords in the text and adds one column. [PASPS]_ gives its four operators, not their code:
these are of that kind. By waiting, each takes the time with which a model of the topology reproduces the tables of the
paper; without that (``paced=false``) they are cheap enough to show what the engine itself costs.

    foretide run twitter-detection --minutes 1
"""

from __future__ import annotations

import pyarrow as pa

from foretide import Topology, flow
from foretide.apps.base import App, Rows, rate_field
from foretide.apps.keywords import CATEGORIES, SUBCATEGORIES, SUBTOPICS, TOPICS, KeywordDetector
from foretide.apps.pacing import PacedOptions

__all__ = ["APP", "DETECTORS", "Options"]

#: The operators, in their order, and the mean time of each for one event, in seconds.
DETECTORS = (
    (KeywordDetector("topic", TOPICS), 0.000178),
    (KeywordDetector("subtopic", SUBTOPICS), 0.000290),
    (KeywordDetector("category", CATEGORIES), 0.000232),
    (KeywordDetector("subcategory", SUBCATEGORIES), 0.000253),
)


class Options(PacedOptions):
    """Options of Twitter detection."""

    rate_scale: float = rate_field(0.02)


def declare(options: Options) -> Topology:
    """Return the topology: topic, subtopic, category, subcategory."""
    job = flow("twitter-detection")
    stream = options.source(job, "tweets")
    # Shuffle edges need no exchange: the four run one after another in the same tasks.
    for detector, execution_s in DETECTORS:
        stream = options.attach(stream, detector.column, detector, execution_s)
    return options.sink(stream)


def compute(events: pa.Table, options: Options) -> Rows:
    """Look at every tweet by itself."""
    return [(row["id"], *(detector.detect(row["text"]) for detector, _ in DETECTORS)) for row in events.to_pylist()]


APP = App(
    name="twitter-detection",
    summary="topic, subtopic, category and subcategory of tweets by keywords",
    spec=("P9",),
    columns=("id", "topic", "subtopic", "category", "subcategory"),
    options=Options,
    declare=declare,
    compute=compute,
)
