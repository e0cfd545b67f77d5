"""The events of Nexmark: the published proportions, and the same whichever way their numbers are divided."""

from __future__ import annotations

import generator
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from generator import Nexmark

KINDS = {"persons": generator.PERSON, "auctions": generator.AUCTION, "bids": generator.BID}
EVENTS = 200_000


def ids(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(numbers, pa.int64())})


def every(kind: str, **settings: int) -> pd.DataFrame:
    columns = [name for name in KINDS[kind] if name not in ("extra", "description")]
    return getattr(Nexmark(seed=3, **settings), kind)(ids(*range(EVENTS)), *columns).to_pandas()


@pytest.mark.parametrize("kind", KINDS)
def test_an_event_depends_on_its_number_and_the_seed_alone(kind: str) -> None:
    make = getattr(Nexmark(seed=5), kind)
    whole = pa.Table.from_batches([make(ids(*range(1000)))])
    assert whole.schema.names == list(KINDS[kind])
    parts = [make(ids(*range(first, min(first + 37, 1000)))) for first in range(0, 1000, 37)]
    assert pa.Table.from_batches(parts).equals(whole)
    assert pa.Table.from_batches([make(ids(*range(999, -1, -1)))]).take(list(range(len(whole)))[::-1]).equals(whole)
    for name in whole.schema.names:  # each column alone is the same, too
        assert make(ids(*range(1000)), name)[name].equals(whole[name].combine_chunks())
    other = pa.Table.from_batches([getattr(Nexmark(seed=6), kind)(ids(*range(1000)))])
    same = {name for name in whole.schema.names if other[name].equals(whole[name])}
    assert same == {"id", "date_time"} & set(KINDS[kind])


def test_of_50_events_one_is_a_person_three_are_auctions_and_the_others_bids() -> None:
    nexmark = Nexmark()
    assert [getattr(nexmark, kind)(ids(*range(50))).num_rows for kind in KINDS] == [1, 3, 46]
    assert nexmark.persons(ids(0, 50, 100), "id")["id"].to_pylist() == [1000, 1001, 1002]
    assert nexmark.auctions(ids(1, 2, 3, 51), "id")["id"].to_pylist() == [1000, 1001, 1002, 1003]
    assert nexmark.bids(ids(), "price").num_rows == nexmark.bids(ids(0, 1)).num_rows == 0


def test_time_goes_by_the_numbers_of_events_and_the_time_they_were_due_travels_along() -> None:
    due = pa.array([7, 8, 9], pa.timestamp("us", tz="UTC"))
    rows = pa.record_batch({"id": [10_004, 1, 10_049], "event_time": due})
    made = Nexmark(events_per_s=1000).bids(rows, "date_time")
    begin = pd.Timestamp("2015-07-15", tz="UTC")
    assert made["date_time"].to_pylist() == [begin + pd.Timedelta(ms, "ms") for ms in (10_004, 10_049)]
    assert made["event_time"].cast(pa.int64()).to_pylist() == [7, 9]


def test_half_the_bids_and_three_quarters_of_bidders_and_sellers_are_hot() -> None:
    bids, auctions = every("bids"), every("auctions")
    number = np.flatnonzero(np.arange(EVENTS) % 50 >= 4)
    hot_auction = (number // 50 * 3 + 2) // 100 * 100 + 1000
    assert (bids["auction"] == hot_auction).mean() == pytest.approx(0.5, abs=0.02)
    assert (bids["bidder"] == number // 50 // 100 * 100 + 1001).mean() == pytest.approx(0.75, abs=0.01)
    seller = auctions.index // 3 // 100 * 100 + 1000
    assert (auctions["seller"] == seller).mean() == pytest.approx(0.75, abs=0.02)
    # All others are spread over what is open and active, up to ten that are still to come.
    ahead = bids["auction"] - (number // 50 * 3 + 2 + 1000)
    assert (ahead.min(), ahead.max()) == (-100, 10) and (ahead > 0).mean() == pytest.approx(0.5 * 10 / 111, abs=0.01)
    late = number >= 100_000
    ahead = bids["bidder"][late] - (number[late] // 50 + 1000)
    assert (ahead.min(), ahead.max()) == (-999, 10)


def test_prices_are_even_in_their_logarithm() -> None:
    prices = every("bids")["price"]
    assert prices.min() >= 100 and prices.max() <= 100_000_000
    counts = np.histogram(np.log10(prices), bins=6, range=(2, 8))[0]
    assert counts / len(prices) == pytest.approx(np.full(6, 1 / 6), abs=0.01)


def test_auctions_have_a_category_a_reserve_and_a_length() -> None:
    auctions = every("auctions", events_per_s=100)
    assert auctions["category"].value_counts(normalize=True).sort_index().to_dict() == pytest.approx(
        dict.fromkeys(range(10, 15), 0.2), abs=0.02
    )
    assert (auctions["reserve"] > auctions["initial_bid"]).all()
    length = (auctions["expires"] - auctions["date_time"]) / pd.Timedelta(1, "s")
    # A hundred auctions come in 1,666 events, which take 16.66 s.
    assert length.mean() == pytest.approx(16.66, rel=0.02) and 0 < length.min() and length.max() <= 33.33


def test_persons_have_the_published_names_and_texts_their_lengths() -> None:
    persons = every("persons")
    assert persons["state"].value_counts(normalize=True).to_dict() == pytest.approx(
        dict.fromkeys(generator.STATES, 1 / 6), abs=0.02
    )
    assert set(persons["city"]) == set(generator.CITIES)
    assert persons["name"].str.fullmatch(r"[A-Z][a-z]+ [A-Z][a-z]+").all() and persons["name"].nunique() == 99
    assert persons["credit_card"].str.fullmatch(r"\d{4}( \d{4}){3}").all()
    assert persons["email"].str.fullmatch(r"[a-z ]{0,6}@[a-z ]{0,4}\.com").all()
    sizes = {kind: _bytes(getattr(Nexmark(), kind)(ids(*range(20_000)))) for kind in KINDS}
    assert sizes == pytest.approx({"persons": 200, "auctions": 500, "bids": 100}, rel=0.03)


def _bytes(rows: pa.RecordBatch) -> float:
    """Return the mean size: eight bytes for a number or an instant, one for a letter."""
    columns = (rows[name] for name in rows.schema.names)
    sizes = (sum(map(len, each.to_pylist())) if each.type == pa.string() else 8 * len(each) for each in columns)
    return sum(sizes) / rows.num_rows
