"""Twitter classification (SPEC P9): the sentiment of a tweet, who wrote it, and the record in a database.

[PASPS]_ classifies tweets by content and author and stores them; it does not publish its operators. Here sentiment is
naive Bayes, and the author comes from a store that takes some milliseconds per event, as one in a network would. So
most of the time is spent waiting, and more replicas help even with few cores.

    foretide run twitter-classification
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from foretide import Topology, flow
from foretide.apps.authors import UNKNOWN, USERS, AuthorLookup, author
from foretide.apps.base import App, AppOptions, Rows, rate_field, store_field
from foretide.apps.sentiment import shipped_model

__all__ = ["APP", "Options", "add_sentiment", "make_record"]

_LARGE, _MEDIUM = 100_000, 1_000


class Options(AppOptions):
    """Options of Twitter classification."""

    # Ten times as fast, the trace's twenty minutes take two; at its peak, the lookups keep some seven replicas busy.
    rate_scale: float = rate_field(0.008)
    store: str = store_field("out/twitter-classification.db")
    lookup_ms: float = Field(default=3.0, ge=0, le=1000, description="Milliseconds that the lookup of an author takes.")


def add_sentiment(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Add the sentiment of the text: positive, negative or neutral."""
    return batch.append_column("sentiment", shipped_model().label_column(batch["text"]))


def make_record(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return what the database keeps, with the size of the author's audience."""
    large, medium = (pc.greater_equal(batch["followers"], least) for least in (_LARGE, _MEDIUM))
    audience = pc.if_else(large, "large", pc.if_else(medium, "medium", "small"))
    kept = batch.select(["id", "user", "sentiment", "country", "role", "event_time"])
    return kept.append_column("audience", audience)


def declare(options: Options) -> Topology:
    """Return the topology: sentiment, author, store."""
    job = flow("twitter-classification")
    wait_s = options.lookup_ms / 1000
    # Shuffle edges need no exchange: the three run one after another in the same tasks.
    return options.sink(
        options.source(job, "tweets")
        .operator("sentiment", add_sentiment, mode="arrow", execution_s=0.00001, selectivity=1.0, replicas=(1, 4))
        .operator(
            "author",
            AuthorLookup(wait_s),
            mode="arrow",
            execution_s=0.00001 + wait_s,
            selectivity=1.0,
            replicas=(1, 12),
        )
        .operator("store", make_record, mode="arrow", execution_s=0.00001, selectivity=1.0, replicas=(1, 4))
    )


def compute(events: pa.Table, options: Options) -> Rows:
    """Classify every tweet by itself."""
    return [_classified(row) for row in events.to_pylist()]


def _classified(tweet: dict[str, Any]) -> tuple[Any, ...]:
    number = int(tweet["user"].removeprefix("user"))
    country, role, followers = author(number) if number < USERS else UNKNOWN
    audience = "large" if followers >= _LARGE else "medium" if followers >= _MEDIUM else "small"
    return tweet["id"], tweet["user"], shipped_model().label(tweet["text"]), country, role, audience


APP = App(
    name="twitter-classification",
    summary="sentiment and author of tweets, stored in a database; the author's lookup waits",
    spec=("P9",),
    columns=("id", "user", "sentiment", "country", "role", "audience"),
    options=Options,
    declare=declare,
    compute=compute,
)
