"""Payments that do not fit their card: an operator that keeps state by key, and scales like any other.

foretide run examples/fraud.py --path run --minutes 1     # run it; replicas follow the load, no state moves
foretide state run fraud --limit 5                        # what is known of each card
foretide state run fraud --key 17                         # of one of them
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from foretide import flow

CARDS = 50_000


def pay(events: pd.DataFrame) -> pd.DataFrame:
    """Make a payment of each event: some cards pay often, and one payment in 500 is far too high."""
    random = np.random.default_rng(int(events["id"].iloc[0]))
    card = random.zipf(1.3, len(events)) % CARDS
    usual = 5.0 + card % 90
    factor = np.where(random.random(len(events)) < 0.002, 40.0, random.gamma(4.0, 0.25, len(events)))
    return events.assign(card=card, amount=usual * factor)[["card", "amount", "event_time"]]


# Called with all payments that a task has, and with one row of state for each of their cards, indexed by card; a card
# that is new has nulls. It returns what it found, and the states as they are from now on.
def fraud(payments: pd.DataFrame, state: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Report payments of more than ten times the mean that their card had so far."""
    state = state.fillna(0.0)
    mean = payments["card"].map(state["total"] / state["n"].clip(lower=1.0))
    found = payments[(mean > 0) & (payments["amount"] > 10 * mean)]
    paid = payments.groupby("card")["amount"]
    return found, pd.DataFrame({"n": state["n"] + paid.size(), "total": state["total"] + paid.sum()})


job = flow("payments")
(
    job.source("events", "trace", trace="pasps_dns", payload="ids", speed=20, rate_scale=0.02)
    .operator("pay", pay, mode="pandas", schema="card long, amount double", replicas=(1, 4))
    # The key is the grouping: all payments of a card meet in one task.
    .operator(
        "fraud",
        fraud,
        mode="pandas",
        key="card",
        state="n long, total double",
        schema="card long, amount double",
        # A card that nobody uses for a day is forgotten.
        ttl_s=24 * 3600,
        replicas=(1, 8),
    )
    .sink("found", "memory")
)
topology = job.build()
