"""Twitter complex (SPEC P9): eight operators, split into news and opinions, which meet again and are stored.

[PASPS]_ names the kinds of tweets and the branches, not the operators. Here news get a topic and an urgency, opinions
a sentiment and an author, whose lookup waits as in Twitter classification.

    foretide run twitter-complex
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from foretide import Topology, flow
from foretide.apps.authors import AuthorLookup, author
from foretide.apps.base import App, AppOptions, Rows, rate_field, store_field
from foretide.apps.keywords import CATEGORIES, SUBCATEGORIES, TOPICS, KeywordDetector
from foretide.apps.sentiment import shipped_model
from foretide.apps.twitter_classification import add_sentiment
from foretide.topology import Stream

__all__ = ["APP", "Options", "clean", "make_record", "merge", "split"]

_OPINION = KeywordDetector("kind", {"opinion": CATEGORIES["opinion"]})
_TOPIC = KeywordDetector("topic", TOPICS)
_URGENCY = KeywordDetector("urgency", {"alert": SUBCATEGORIES["alert"], "report": CATEGORIES["report"]})
# Measured over generated tweets.
_NEWS_SHARE = 0.74


class Options(AppOptions):
    """Options of Twitter complex."""

    rate_scale: float = rate_field(0.008)
    store: str = store_field("out/twitter-complex.db")
    lookup_ms: float = Field(default=3.0, ge=0, le=1000, description="Milliseconds that the lookup of an author takes.")


def clean(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Bring the text into the form that others expect: lower case, one space between two words."""
    text = pc.utf8_trim_whitespace(pc.replace_substring_regex(pc.utf8_lower(batch["text"]), r"\s+", " "))
    return batch.set_column(batch.schema.get_field_index("text"), "text", text)


def split(batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
    """Send opinions, which hold a word of praise or blame, one way and news the other."""
    is_opinion = pc.equal(_OPINION(batch)["kind"], "opinion")
    return {"opinion": batch.filter(is_opinion), "news": batch.filter(pc.invert(is_opinion))}


def merge(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Bring what the branches found into common columns: kind, subject and tone."""
    is_news = "topic" in batch.schema.names
    subject, tone = ("topic", "urgency") if is_news else ("role", "sentiment")
    kind = pa.repeat("news" if is_news else "opinion", batch.num_rows)
    columns = {"id": batch["id"], "user": batch["user"], "kind": kind, "subject": batch[subject], "tone": batch[tone]}
    return pa.RecordBatch.from_pydict({**columns, "event_time": batch["event_time"]})


def make_record(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return what the database keeps: the label that all findings make together."""
    label = pc.binary_join_element_wise(batch["kind"], batch["subject"], batch["tone"], "/")
    return batch.select(["id", "user", "event_time"]).append_column("label", label)


def declare(options: Options) -> Topology:
    """Return the topology: clean, split, topic and urgency, sentiment and author, merge, store."""
    job = flow("twitter-complex")
    parts = (
        options.source(job, "tweets")
        .operator("clean", clean, mode="arrow", execution_s=0.00001, selectivity=1.0, replicas=(1, 4))
        .operator(
            "split",
            split,
            mode="arrow",
            outputs=("news", "opinion"),
            execution_s=0.00001,
            selectivity={"news": _NEWS_SHARE, "opinion": round(1 - _NEWS_SHARE, 3)},
            replicas=(1, 4),
        )
    )
    branches = [_news(parts["news"]), _opinions(parts["opinion"], options.lookup_ms / 1000)]
    together = job.operator(
        "merge",
        merge,
        inputs=branches,
        grouping="load-aware",
        mode="arrow",
        execution_s=0.00001,
        selectivity=1.0,
        replicas=(1, 4),
    )
    return options.sink(
        together.operator("store", make_record, mode="arrow", execution_s=0.00001, selectivity=1.0, replicas=(1, 4))
    )


def _news(stream: Stream) -> Stream:
    for detector in (_TOPIC, _URGENCY):
        stream = stream.operator(
            detector.column, detector, mode="arrow", execution_s=0.00002, selectivity=1.0, replicas=(1, 4)
        )
    return stream


def _opinions(stream: Stream, wait_s: float) -> Stream:
    return stream.operator(
        "sentiment", add_sentiment, mode="arrow", execution_s=0.00001, selectivity=1.0, replicas=(1, 4)
    ).operator(
        "author",
        AuthorLookup(wait_s),
        mode="arrow",
        execution_s=0.00001 + wait_s,
        selectivity=1.0,
        replicas=(1, 8),
    )


def compute(events: pa.Table, options: Options) -> Rows:
    """Label every tweet by itself."""
    return [(row["id"], row["user"], _label(row)) for row in events.to_pylist()]


def _label(tweet: dict[str, Any]) -> str:
    text = tweet["text"]
    if _OPINION.detect(text) != "opinion":
        return f"news/{_TOPIC.detect(text)}/{_URGENCY.detect(text)}"
    _, role, _ = author(int(tweet["user"].removeprefix("user")))
    return f"opinion/{role}/{shipped_model().label(text)}"


APP = App(
    name="twitter-complex",
    summary="news and opinions take branches of their own, meet again and are stored",
    spec=("P9",),
    columns=("id", "user", "label"),
    options=Options,
    declare=declare,
    compute=compute,
)
