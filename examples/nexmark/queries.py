"""The queries of Nexmark, 0 to 9, 11 and 12: an auction house, and what its operators want to know.

foretide run examples/nexmark/queries.py:q4 --path run --minutes 1     # one of them; replicas change, no state moves
foretide run examples/nexmark/queries.py:q5 --policy foretide --minutes 2     # steered
foretide state run winning --limit 5                                   # the auctions of q4 that are open

Events are made from the numbers that a trace replays. Queries 3, 4, 6, 9 and 12 keep their state by key, 5, 7, 8 and 11
leave it to Spark. Rows of 4, 6 and 12 replace those before them: they tell how things stand, by category, by seller,
and by bidder and window. All others are final.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from generator import TIME, Nexmark
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from foretide.topology import Topology, flow
from foretide.topology.builder import Stream

REPLAY = {"trace": "pasps_dns", "payload": "ids", "speed": 20, "rate_scale": 0.02}
# About as many events as come in a second, so that windows last about as long as they say.
EVENTS_PER_S = 1000
READERS, WORKERS = (1, 4), (1, 8)
EURO = 0.908
LOCAL = ("OR", "ID", "CA")
WINDOW_S = 10
WINDOW = f"{WINDOW_S} seconds"
Row = Mapping[str, Any]
Query = Callable[..., Topology]


def query(attach: Callable[[Stream, Nexmark], Stream]) -> Query:
    """Make a topology of what `attach` attaches to a replayed trace, which gives the numbers of events."""

    @wraps(attach)
    def build(events: Nexmark | None = None, sink: str = "none", **replay: Any) -> Topology:
        job = flow(f"nexmark-{attach.__name__}")
        ids = job.source("events", "trace", **{**REPLAY, **replay})
        attach(ids, events or Nexmark(events_per_s=EVENTS_PER_S)).sink("out", sink)
        return job.build()

    return build


@query
def q0(ids: Stream, events: Nexmark) -> Stream:
    """Pass all bids through: what everything else costs."""
    return ids.operator("pass", events.bids, mode="arrow", replicas=WORKERS)


@query
def q1(ids: Stream, events: Nexmark) -> Stream:
    """Convert the prices of bids from dollars to euros."""

    def in_euros(batch: pa.RecordBatch) -> pa.RecordBatch:
        bids = events.bids(batch)
        return bids.set_column(bids.schema.names.index("price"), "price", pc.multiply(bids["price"], EURO))

    return ids.operator("convert", in_euros, mode="arrow", replicas=WORKERS)


@query
def q2(ids: Stream, events: Nexmark) -> Stream:
    """Select the bids for every 123rd auction."""

    def select(batch: pa.RecordBatch) -> pa.RecordBatch:
        bids = events.bids(batch, "auction", "price")
        return bids.filter(pa.array(bids["auction"].to_numpy() % 123 == 0))

    return ids.operator("select", select, mode="arrow", replicas=WORKERS)


@query
def q3(ids: Stream, events: Nexmark) -> Stream:
    """Find who sells in Oregon, Idaho or California, in category 10: a join of persons and auctions, by the person.

    A seller may come after an auction of his: auctions wait for him in the state.
    """

    def read(batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        auctions = events.auctions(batch, "id", "seller", "category")
        auctions = auctions.filter(pc.equal(auctions["category"], 10)).drop_columns(["category"])
        persons = events.persons(batch, "id", "name", "city", "state")
        return {"persons": renamed(persons, id="seller"), "auctions": renamed(auctions, id="auction")}

    def suggest(seller: int, rows: Sequence[Row], state: Row | None) -> tuple[list[Row], Row]:
        person = next((row for row in rows if row["name"]), state) or {"name": None}
        auctions = [*(state["waiting"] if state else ()), *(row["auction"] for row in rows if row["auction"])]
        if person["name"] is None:
            return [], {"waiting": auctions}
        known = {column: person[column] for column in ("name", "city", "state")}
        found = auctions if known["state"] in LOCAL else ()
        return [{"auction": auction, **known} for auction in found], {**known, "waiting": []}

    columns = {
        "persons": "seller long, name string, city string, state string",
        "auctions": "auction long, seller long",
    }
    kinds = ids.operator("read", read, mode="arrow", outputs=tuple(columns), schema=columns, replicas=READERS)
    return ids.flow.operator(
        "suggest",
        suggest,
        inputs=[kinds["persons"], kinds["auctions"]],
        key="seller",
        state="name string, city string, state string, waiting array<long>",
        schema="auction long, name string, city string, state string",
        replicas=WORKERS,
    )


@query
def q4(ids: Stream, events: Nexmark) -> Stream:
    """Tell what the auctions of each category that have closed brought on average."""

    def average(sold: pd.DataFrame, state: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        sums = state.fillna(0) + sold.groupby("category")["price"].agg(n="size", total="sum")
        return pd.DataFrame({"price": sums["total"] / sums["n"]}).reset_index(), sums

    return winning(ids, events).operator(
        "average",
        average,
        mode="pandas",
        key="category",
        state="n long, total long",
        schema="category long, price double",
        replicas=WORKERS,
    )


@query
def q5(ids: Stream, events: Nexmark) -> Stream:
    """Find the auctions that had the most bids in ten seconds, every two seconds.

    Spark counts. When it closes a window, all its counts come in one batch, so that `hottest` sees them together.
    """

    def count(rows: DataFrame) -> DataFrame:
        bids = made(rows, events.bids, "auction long, date_time timestamp")
        windows = bids.groupBy(sf.window("date_time", WINDOW, "2 seconds"), "auction")
        return windows.agg(sf.count("*").alias("bids")).select("window.start", "auction", "bids")

    def hottest(counts: pd.DataFrame, state: pd.DataFrame) -> tuple[pd.DataFrame, None]:
        return counts[counts["bids"] == counts.groupby("start")["bids"].transform("max")], None

    counts = ids.operator("count", count, mode="dataframe", stateful=True, replicas=WORKERS)
    return counts.operator("hottest", hottest, mode="pandas", key="start", state="kept boolean", replicas=READERS)


@query
def q6(ids: Stream, events: Nexmark) -> Stream:
    """Tell what the last ten auctions of each seller that have closed brought on average."""

    def average(seller: int, sold: Sequence[Row], state: Row | None) -> tuple[Row, Row]:
        known = [*(state["last"] if state else ()), *sold]
        last = sorted(known, key=lambda sale: (sale["expires"], sale["auction"]))[-10:]
        kept = [{column: sale[column] for column in ("auction", "expires", "price")} for sale in last]
        return {"seller": seller, "price": sum(sale["price"] for sale in last) / len(last)}, {"last": kept}

    return winning(ids, events).operator(
        "average",
        average,
        key="seller",
        state="last array<struct<auction: long, expires: timestamp, price: long>>",
        schema="seller long, price double",
        replicas=WORKERS,
    )


@query
def q7(ids: Stream, events: Nexmark) -> Stream:
    """Find the highest bid of each ten seconds; the first one, where several are equal."""

    def highest(rows: DataFrame) -> DataFrame:
        bids = made(rows, events.bids, "auction long, bidder long, price long, date_time timestamp")
        first = sf.struct((-sf.col("price")).alias("high"), "date_time", "auction", "bidder", "price")
        windows = bids.groupBy(sf.window("date_time", WINDOW)).agg(sf.min(first).alias("bid"))
        return windows.select("window.start", "bid.auction", "bid.bidder", "bid.price", "bid.date_time")

    return ids.operator("highest", highest, mode="dataframe", stateful=True, replicas=WORKERS)


@query
def q8(ids: Stream, events: Nexmark) -> Stream:
    """Find who came and sold something within the same ten seconds: a join of two streams, in Spark."""

    def newcomers(rows: DataFrame) -> DataFrame:
        window = sf.window("date_time", WINDOW)
        persons = made(rows, events.persons, "id long, name string, date_time timestamp")
        auctions = made(rows, events.auctions, "seller long, date_time timestamp")
        persons = persons.select("id", "name", window.alias("came"))
        auctions = auctions.select("seller", window.alias("sold"))
        both = persons.join(auctions, sf.expr("id = seller AND came = sold"))
        return both.dropDuplicates(["id", "came"]).select("id", "name", "came.start")

    return ids.operator("newcomers", newcomers, mode="dataframe", stateful=True, replicas=WORKERS)


@query
def q9(ids: Stream, events: Nexmark) -> Stream:
    """Tell which bid has won each auction, when it has closed."""
    return winning(ids, events)


@query
def q11(ids: Stream, events: Nexmark) -> Stream:
    """Count the bids of each session of a bidder, which ends when there was none for ten seconds."""

    def sessions(rows: DataFrame) -> DataFrame:
        bids = made(rows, events.bids, "bidder long, date_time timestamp")
        found = bids.groupBy("bidder", sf.session_window("date_time", WINDOW)).agg(sf.count("*").alias("bids"))
        return found.select("bidder", "session_window.start", "session_window.end", "bids")

    return ids.operator("sessions", sessions, mode="dataframe", stateful=True, replicas=WORKERS)


@query
def q12(ids: Stream, events: Nexmark) -> Stream:
    """Count the bids of each bidder in ten seconds of processing time, so far.

    A batch that is repeated may see other times; it replaces what it did at first, so that each bid counts once.
    """

    def arrive(batch: pa.RecordBatch) -> pa.RecordBatch:
        bids = events.bids(batch, "bidder")
        start_us = int(time.time()) // WINDOW_S * WINDOW_S * 1_000_000
        return bids.append_column("start", pa.repeat(pa.scalar(start_us).cast(TIME), bids.num_rows))

    def count(rows: pd.DataFrame, state: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        total = pd.DataFrame({"bids": state["bids"].fillna(0) + rows.groupby(["bidder", "start"]).size()})
        return total.reset_index(), total

    return ids.operator("arrive", arrive, mode="arrow", replicas=READERS).operator(
        "count",
        count,
        mode="pandas",
        key=["bidder", "start"],
        state="bids long",
        ttl_s=6 * WINDOW_S,
        schema="bidder long, start timestamp, bids long",
        replicas=WORKERS,
    )


def winning(ids: Stream, events: Nexmark) -> Stream:
    """Attach what queries 4, 6 and 9 share: the highest bid of each auction, told when the auction has closed.

    A bid counts if it comes while its auction is open; of equal ones the first counts. The numbers of events never go
    back from one batch to the next: an auction is known before any bid that counts, and no bid is late.
    """

    def read(batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        auctions = events.auctions(batch, "id", "date_time", "expires", "seller", "category")
        bids = events.bids(batch, "auction", "date_time", "bidder", "price")
        return {"auctions": renamed(auctions, id="auction"), "bids": bids}

    opening, bidding = ["opened", "expires", "closes", "seller", "category"], ["bidder", "price", "at"]

    def best(rows: pd.DataFrame, state: pd.DataFrame) -> tuple[pd.DataFrame | None, pd.DataFrame]:
        if rows.empty:  # called by a timer: these auctions have closed, and are forgotten
            return state[state["price"].notna()].reset_index(), pd.DataFrame(None, state.index, state.columns)
        auctions = rows[rows["expires"].notna()].set_index("auction")
        auctions = auctions.assign(opened=auctions["date_time"], closes=auctions["expires"] + pd.Timedelta("1ms"))
        state[opening] = state[opening].fillna(auctions[opening])
        bids = rows.loc[rows["price"].notna(), ["auction", "date_time", "bidder", "price"]]
        known = bids[["auction"]].join(state, on="auction")
        higher = bids["date_time"].between(known["opened"], known["expires"]) & ~(bids["price"] <= known["price"])
        first = bids[higher].sort_values(["price", "date_time", "bidder"], ascending=[False, True, True])
        found = first.drop_duplicates("auction").set_index("auction").rename(columns={"date_time": "at"})
        state.loc[found.index, bidding] = found[bidding]
        return None, state.loc[auctions.index.union(found.index)]

    columns = {
        "auctions": "auction long, date_time timestamp, expires timestamp, seller long, category long",
        "bids": "auction long, date_time timestamp, bidder long, price long",
    }
    kinds = ids.operator("read", read, mode="arrow", outputs=tuple(columns), schema=columns, replicas=READERS)
    return ids.flow.operator(
        "winning",
        best,
        inputs=[kinds["auctions"], kinds["bids"]],
        mode="pandas",
        key="auction",
        state="opened timestamp, expires timestamp, closes timestamp, seller long, category long, "
        "bidder long, price long, at timestamp",
        timer="closes",
        watermark_s=0,
        event_time="date_time",
        schema="auction long, seller long, category long, expires timestamp, bidder long, price long, at timestamp",
        replicas=WORKERS,
    )


def made(rows: DataFrame, make: Callable[..., pa.RecordBatch], columns: str) -> DataFrame:
    """Return these columns of persons, auctions or bids, for Spark to work on.

    Their time never goes back from one batch to the next, so that none is late.
    """
    names = [column.split()[0] for column in columns.split(", ")]
    found = rows.select("id").mapInArrow(lambda batches: (make(batch, *names) for batch in batches), columns)
    return found.withWatermark("date_time", "0 seconds")


def renamed(rows: pa.RecordBatch, **names: str) -> pa.RecordBatch:
    return rows.rename_columns([names.get(name, name) for name in rows.schema.names])
