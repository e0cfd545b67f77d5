"""Twitter complex (SPEC P9): eight operators, split into news and opinions, which meet again and are stored.

[PASPS]_ names the kinds of tweets and the branches, not the operators. Here news get a topic and an urgency, opinions
a sentiment and an author, whose lookup waits as in Twitter classification.

A ninth, which the paper does not have, counts what there is talk of in windows of time. It keeps its counts by key, and
its replicas change like those of all others.

    foretide run twitter-complex
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from foretide import Topology, flow
from foretide.apps.authors import AuthorLookup, author
from foretide.apps.base import App, AppOptions, Output, Rows, rate_field, store_field
from foretide.apps.keywords import CATEGORIES, SUBCATEGORIES, TOPICS, KeywordDetector
from foretide.apps.sentiment import shipped_model
from foretide.apps.twitter_classification import add_sentiment
from foretide.topology import Stream

__all__ = ["APP", "TREND", "Options", "clean", "count_trend", "make_record", "merge", "split"]

#: The sink of the trend.
TREND = "trends"

_OPINION = KeywordDetector("kind", {"opinion": CATEGORIES["opinion"]})
_TOPIC = KeywordDetector("topic", TOPICS)
_URGENCY = KeywordDetector("urgency", {"alert": SUBCATEGORIES["alert"], "report": CATEGORIES["report"]})
# Measured over generated tweets.
_NEWS_SHARE = 0.74
_WINDOW = ["window_s", "kind", "subject"]


class Options(AppOptions):
    """Options of Twitter complex."""

    rate_scale: float = rate_field(0.008)
    store: str = store_field("out/twitter-complex.db")
    lookup_ms: float = Field(default=3.0, ge=0, le=1000, description="Milliseconds that the lookup of an author takes.")
    trend_s: int = Field(default=10, ge=1, le=86_400, description="Seconds of a window that subjects are counted in.")


def clean(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Bring the text into the form that others expect: lower case, one space between two words."""
    text = pc.utf8_trim_whitespace(pc.replace_substring_regex(pc.utf8_lower(batch["text"]), r"\s+", " "))
    return batch.set_column(batch.schema.get_field_index("text"), "text", text)


def split(batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
    """Send opinions, which hold a word of praise or blame, one way and news the other."""
    is_opinion = pc.equal(_OPINION(batch)["kind"], "opinion")
    return {"opinion": batch.filter(is_opinion), "news": batch.filter(pc.invert(is_opinion))}


def merge(batch: pa.RecordBatch, trend_s: int = 10) -> pa.RecordBatch:
    """Bring what the branches found into common columns: kind, subject and tone; and the window of the trend."""
    is_news = "topic" in batch.schema.names
    subject, tone = ("topic", "urgency") if is_news else ("role", "sentiment")
    kind = pa.repeat("news" if is_news else "opinion", batch.num_rows)
    columns = {"id": batch["id"], "user": batch["user"], "kind": kind, "subject": batch[subject], "tone": batch[tone]}
    us = batch["event_time"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    window_s = pc.multiply(pc.divide(us, trend_s * 1_000_000), trend_s)
    return pa.RecordBatch.from_pydict({**columns, "window_s": window_s, "event_time": batch["event_time"]})


def count_trend(rows: pd.DataFrame, state: pd.DataFrame, trend_s: int = 10) -> tuple[pd.DataFrame | None, pd.DataFrame]:
    """Count the tweets of each window, kind and subject, so far; a window that is over is forgotten."""
    if rows.empty:  # called by the timer
        return None, state.assign(count=None, ends=None)
    count = state["count"].fillna(0).astype("int64").add(rows.groupby(_WINDOW).size(), fill_value=0).astype("int64")
    ends = pd.to_datetime(state.index.get_level_values("window_s") + trend_s, unit="s", utc=True)
    return count.rename("count").reset_index(), pd.DataFrame({"count": count, "ends": ends}, index=state.index)


def make_record(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return what the database keeps: the label that all findings make together."""
    label = pc.binary_join_element_wise(batch["kind"], batch["subject"], batch["tone"], "/")
    return batch.select(["id", "user", "event_time"]).append_column("label", label)


def declare(options: Options) -> Topology:
    """Return the topology: clean, split, topic and urgency, sentiment and author, merge, store and trend."""
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
        partial(merge, trend_s=options.trend_s),
        inputs=branches,
        grouping="load-aware",
        mode="arrow",
        execution_s=0.00001,
        selectivity=1.0,
        replicas=(1, 4),
    )
    options.keep(_trend(together, options.trend_s), TREND)
    return options.sink(
        together.operator("store", make_record, mode="arrow", execution_s=0.00001, selectivity=1.0, replicas=(1, 4))
    )


def _trend(stream: Stream, trend_s: int) -> Stream:
    return stream.operator(
        "trend",
        partial(count_trend, trend_s=trend_s),
        mode="pandas",
        key=_WINDOW,
        state="count long, ends timestamp",
        timer="ends",
        watermark_s=trend_s,
        schema="window_s long, kind string, subject string, count long",
        execution_s=0.00002,
        selectivity=0.1,
        replicas=(1, 4),
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


def compute_trend(events: pa.Table, options: Options) -> Rows:
    """Count every tweet in the window of its time."""
    counts: Counter[tuple[int, str, str]] = Counter()
    for tweet in events.to_pylist():
        kind, subject, _ = _label(tweet).split("/")
        counts[int(tweet["event_time"].timestamp()) // options.trend_s * options.trend_s, kind, subject] += 1
    return [(*window, count) for window, count in counts.items()]


def settle_trend(rows: Rows) -> Rows:
    """Return the last count of each window, kind and subject: the highest, since counts only grow."""
    latest: dict[tuple[Any, ...], int] = {}
    for *window, count in rows:
        latest[tuple(window)] = max(count, latest.get(tuple(window), 0))
    return [(*window, count) for window, count in latest.items()]


def _label(tweet: dict[str, Any]) -> str:
    text = tweet["text"]
    if _OPINION.detect(text) != "opinion":
        return f"news/{_TOPIC.detect(text)}/{_URGENCY.detect(text)}"
    _, role, _ = author(int(tweet["user"].removeprefix("user")))
    return f"opinion/{role}/{shipped_model().label(text)}"


APP = App(
    name="twitter-complex",
    summary="news and opinions take branches of their own, meet again and are stored; subjects are counted in windows",
    spec=("P9",),
    columns=("id", "user", "label"),
    options=Options,
    declare=declare,
    compute=compute,
    further={TREND: Output((*_WINDOW, "count"), compute_trend, settle_trend)},
)
