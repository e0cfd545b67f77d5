"""The queries of Nexmark as plain batch computations over all events, to compare with."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
from generator import Nexmark

__all__ = ["Batch"]

WINDOW = pd.Timedelta(10, "s")


class Batch:
    """The results of all queries over the first events; rows of what is final only when time has passed its end."""

    def __init__(self, nexmark: Nexmark, events: int) -> None:
        ids = pa.record_batch({"id": list(range(events))})
        self.persons, self.auctions, self.bids = (
            make(ids).to_pandas() for make in (nexmark.persons, nexmark.auctions, nexmark.bids)
        )
        self.now = self.bids["date_time"].max()

    def winning(self) -> pd.DataFrame:
        bids = self.bids.rename(columns={"date_time": "at"}).merge(self.auctions, left_on="auction", right_on="id")
        bids = bids[(bids["date_time"] <= bids["at"]) & (bids["at"] <= bids["expires"])]
        first = bids.sort_values(["price", "at"], ascending=[False, True])
        best = first.groupby("auction").head(1)
        return best[best["expires"] < self.now]

    def q0(self) -> pd.DataFrame:
        return self.bids

    def q1(self) -> pd.DataFrame:
        return self.bids.assign(price=self.bids["price"] * 0.908)

    def q2(self) -> pd.DataFrame:
        return self.bids.loc[self.bids["auction"] % 123 == 0, ["auction", "price"]]

    def q3(self) -> pd.DataFrame:
        auctions = self.auctions.loc[self.auctions["category"] == 10, ["id", "seller"]]
        found = auctions.rename(columns={"id": "auction"}).merge(self.persons, left_on="seller", right_on="id")
        return found.loc[found["state"].isin(["OR", "ID", "CA"]), ["auction", "name", "city", "state"]]

    def q4(self) -> pd.DataFrame:
        return self.winning().groupby("category")["price"].mean().reset_index()

    def q5(self) -> pd.DataFrame:
        last = self.bids["date_time"].dt.floor("2s")
        starts = [self.bids[["auction"]].assign(start=last - pd.Timedelta(2 * back, "s")) for back in range(5)]
        counts = pd.concat(starts).groupby(["start", "auction"]).size().rename("bids").reset_index()
        most = counts.groupby("start")["bids"].transform("max")
        return self._over(counts[counts["bids"] == most])

    def q6(self) -> pd.DataFrame:
        last = self.winning().sort_values(["expires", "auction"]).groupby("seller").tail(10)
        return last.groupby("seller")["price"].mean().reset_index()

    def q7(self) -> pd.DataFrame:
        bids = self.bids.assign(start=self.bids["date_time"].dt.floor("10s")).sort_values("date_time", kind="stable")
        found = bids.loc[bids.groupby("start")["price"].idxmax()]
        return self._over(found)[["start", "auction", "bidder", "price", "date_time"]]

    def q8(self) -> pd.DataFrame:
        sold = self.auctions.assign(start=self.auctions["date_time"].dt.floor("10s"))[["seller", "start"]]
        came = self.persons.assign(start=self.persons["date_time"].dt.floor("10s"))
        found = came.merge(sold, left_on=["id", "start"], right_on=["seller", "start"])
        return found[["id", "name", "start"]].drop_duplicates()

    def q9(self) -> pd.DataFrame:
        return self.winning()[["auction", "seller", "category", "expires", "bidder", "price", "at"]]

    def q11(self) -> pd.DataFrame:
        bids = self.bids.sort_values(["bidder", "date_time"])
        begins = bids.groupby("bidder")["date_time"].diff().gt(WINDOW)
        sessions = bids.groupby(["bidder", begins.cumsum().rename("session")])["date_time"]
        found = sessions.agg(start="min", end="max", bids="size").reset_index().drop(columns="session")
        found["end"] += WINDOW
        return found[found["end"] <= self.now]

    def _over(self, windows: pd.DataFrame) -> pd.DataFrame:
        return windows[windows["start"] + WINDOW <= self.now]
