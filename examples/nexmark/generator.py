"""Persons, auctions and bids by the rules of Nexmark, made from the numbers of events.

What an event is, and every one of its columns, depends on its number and on a seed alone: any replica makes the same
from the same numbers, whichever way they are divided. Only the columns that are asked for are made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from foretide.traces.hashing import draw
from foretide.traces.parts import choose, join

__all__ = ["Nexmark"]

Numbers = NDArray[np.int64]
TIME = pa.timestamp("us", tz="UTC")

# Of 50 events the first is a person, three are auctions, and the others bids.
PERSONS, AUCTIONS, CYCLE = 1, 3, 50
FIRST_ID = 1000
CATEGORIES, FIRST_CATEGORY = 5, 10
# Persons and auctions that events refer to: the latest ones, and a few that are still to come.
ACTIVE_PERSONS, OPEN_AUCTIONS, LEAD = 1000, 100, 10
# One in so many is for anyone, the others are for the first person or auction of the latest hundred, which is hot.
ANY_SELLER, ANY_BIDDER, ANY_AUCTION, HOT_EVERY = 4, 4, 2, 100
# Bytes that events have on average; their last column fills up what the others leave.
PERSON_BYTES, AUCTION_BYTES, BID_BYTES = 200, 500, 100
BEGIN_US = 1_436_918_400_000_000  # 2015-07-15, UTC

FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
    *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
)
# Texts are pieces of this one: letters, and a space in every thirteenth place or so.
_random = np.random.default_rng(2002)
_LETTERS = _random.integers(ord("a"), ord("z") + 1, 1 << 16).astype(np.uint8)
_WORDS = np.where(_random.integers(0, 13, _LETTERS.size) == 0, np.uint8(ord(" ")), _LETTERS)


@dataclass(frozen=True)
class Nexmark:
    """The events of one run.

    Parameters
    ----------
    seed : int
        Other seeds give other events.
    events_per_s : int
        How many events a second of `date_time` has; this time goes by their numbers, whenever they come.

    Examples
    --------
    >>> ids = pa.record_batch({"id": list(range(50))})
    >>> bids = Nexmark().bids(ids, "auction", "price")
    >>> bids.schema.names, bids.num_rows
    (['auction', 'price'], 46)
    """

    seed: int = 0
    events_per_s: int = 10_000

    def persons(self, events: pa.RecordBatch, *columns: str) -> pa.RecordBatch:
        """Return these columns of the persons among events: see `PERSON`; all of them, unless some are named."""
        return self._made(events, PERSON, columns, 0, PERSONS)

    def auctions(self, events: pa.RecordBatch, *columns: str) -> pa.RecordBatch:
        """Return these columns of the auctions among events: see `AUCTION`."""
        return self._made(events, AUCTION, columns, PERSONS, PERSONS + AUCTIONS)

    def bids(self, events: pa.RecordBatch, *columns: str) -> pa.RecordBatch:
        """Return these columns of the bids among events: see `BID`."""
        return self._made(events, BID, columns, PERSONS + AUCTIONS, CYCLE)

    def _made(
        self, events: pa.RecordBatch, known: Mapping[str, Column], columns: tuple[str, ...], first: int, end: int
    ) -> pa.RecordBatch:
        place = events["id"].to_numpy() % CYCLE
        rows = events.filter(pa.array((place >= first) & (place < end)))
        numbers, made = rows["id"].to_numpy(), {}
        for name in columns or known:
            found = known[name](self, numbers)
            made[name] = found if isinstance(found, pa.Array) else pa.array(found)
        if "event_time" in rows.schema.names:  # when they were due, for the latency of what becomes of them
            made["event_time"] = rows["event_time"]
        return pa.RecordBatch.from_pydict(made)

    def time_ms(self, numbers: Numbers) -> Numbers:
        """Return the instants of events, in milliseconds since the first one."""
        return numbers * 1000 // self.events_per_s

    def uniform(self, numbers: Numbers, lane: int) -> NDArray[np.float64]:
        """Return a number from 0 up to 1 for each event."""
        return (draw(numbers, self.seed, lane) >> np.uint64(11)) * 2.0**-53

    def below(self, numbers: Numbers, lane: int, limit: int | Numbers) -> Numbers:
        """Return a whole number from 0 up to a limit for each event."""
        return (self.uniform(numbers, lane) * limit).astype(np.int64)


Column = Callable[[Nexmark, Numbers], "Numbers | pa.Array"]


# Numbers of persons and auctions count from 0 here.
def last_person(numbers: Numbers) -> Numbers:
    return numbers // CYCLE * PERSONS + np.minimum(numbers % CYCLE, PERSONS - 1)


def last_auction(numbers: Numbers) -> Numbers:
    """Return the latest auction; before the first one of all that is -1."""
    return numbers // CYCLE * AUCTIONS + np.clip(numbers % CYCLE - PERSONS, -1, AUCTIONS - 1)


def person_id(nexmark: Nexmark, numbers: Numbers) -> Numbers:
    return last_person(numbers) + FIRST_ID


def auction_id(nexmark: Nexmark, numbers: Numbers) -> Numbers:
    return last_auction(numbers) + FIRST_ID


def a_person(nexmark: Nexmark, numbers: Numbers, lane: int, any_of: int, hot: int) -> Numbers:
    """Return persons: one in `any_of` is any active one, the others are the hot one."""
    known = last_person(numbers) + 1
    active = np.minimum(known, ACTIVE_PERSONS)
    anyone = known - active + nexmark.below(numbers, lane, active + LEAD)
    latest = (known - 1) // HOT_EVERY * HOT_EVERY + hot
    return np.where(nexmark.below(numbers, lane + 1, any_of) > 0, latest, anyone) + FIRST_ID


def an_auction(nexmark: Nexmark, numbers: Numbers, lane: int) -> Numbers:
    latest = last_auction(numbers)
    oldest = np.maximum(latest - OPEN_AUCTIONS, 0)
    any_one = oldest + nexmark.below(numbers, lane, latest - oldest + 1 + LEAD)
    hot = latest // HOT_EVERY * HOT_EVERY
    return np.where(nexmark.below(numbers, lane + 1, ANY_AUCTION) > 0, hot, any_one) + FIRST_ID


def price(nexmark: Nexmark, numbers: Numbers, lane: int) -> Numbers:
    return np.rint(10.0 ** (nexmark.uniform(numbers, lane) * 6.0) * 100.0).astype(np.int64)


def instant(nexmark: Nexmark, numbers: Numbers) -> pa.Array:
    return pa.array(BEGIN_US + nexmark.time_ms(numbers) * 1000).cast(TIME)


def expires(nexmark: Nexmark, numbers: Numbers) -> pa.Array:
    """Return when auctions close: on average when as many as may be open have come after them."""
    now = nexmark.time_ms(numbers)
    horizon = nexmark.time_ms(numbers + OPEN_AUCTIONS * CYCLE // AUCTIONS) - now
    closed = now + 1 + nexmark.below(numbers, 9, np.maximum(2 * horizon, 1))
    return pa.array(BEGIN_US + closed * 1000).cast(TIME)


def reserve(nexmark: Nexmark, numbers: Numbers) -> Numbers:
    return price(nexmark, numbers, 4) + price(nexmark, numbers, 5)


def category(nexmark: Nexmark, numbers: Numbers) -> Numbers:
    return FIRST_CATEGORY + nexmark.below(numbers, 8, CATEGORIES)


def chosen(nexmark: Nexmark, numbers: Numbers, lane: int, values: tuple[str, ...]) -> pa.Array:
    return choose(values, nexmark.below(numbers, lane, len(values)))


def text(nexmark: Nexmark, numbers: Numbers, lane: int, most: int) -> pa.Array:
    """Return a text of 3 to `most` letters and spaces, less the spaces around it."""
    return pc.utf8_trim_whitespace(pieces(nexmark, numbers, lane, 3 + nexmark.below(numbers, lane, most - 3), _WORDS))


def filling(nexmark: Nexmark, numbers: Numbers, lane: int, bytes_left: int) -> pa.Array:
    """Return a text that is up to a fifth shorter or longer than what is left."""
    shortest, spread = round(0.8 * bytes_left), round(0.4 * bytes_left)
    return pieces(nexmark, numbers, lane, shortest + nexmark.below(numbers, lane, spread), _LETTERS)


def pieces(nexmark: Nexmark, numbers: Numbers, lane: int, lengths: Numbers, of: NDArray[np.uint8]) -> pa.Array:
    ends = np.cumsum(lengths)
    starts = nexmark.below(numbers, lane + 1, of.size - lengths)
    letters = of[np.arange(ends[-1] if ends.size else 0) + np.repeat(starts - ends + lengths, lengths)]
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(letters))


def name(nexmark: Nexmark, numbers: Numbers) -> pa.Array:
    return join(chosen(nexmark, numbers, 0, FIRST_NAMES), chosen(nexmark, numbers, 1, LAST_NAMES))


def email(nexmark: Nexmark, numbers: Numbers) -> pa.Array:
    at = join(text(nexmark, numbers, 8, 7), text(nexmark, numbers, 10, 5), separator="@")
    return join(at, pa.repeat(".com", len(numbers)), separator="")


def credit_card(nexmark: Nexmark, numbers: Numbers) -> pa.Array:
    groups = [pa.array(nexmark.below(numbers, lane, 10_000)).cast(pa.string()) for lane in range(4, 8)]
    return join(*(pc.utf8_lpad(group, 4, "0") for group in groups))


# Each number that an event draws has a lane of its own among those of its kind; texts, persons and auctions take two.
PERSON: Mapping[str, Column] = {
    "id": person_id,
    "name": name,
    "email": email,
    "credit_card": credit_card,
    "city": partial(chosen, lane=2, values=CITIES),
    "state": partial(chosen, lane=3, values=STATES),
    "date_time": instant,
    "extra": partial(filling, lane=12, bytes_left=PERSON_BYTES - 70),
}
AUCTION: Mapping[str, Column] = {
    "id": auction_id,
    "item_name": partial(text, lane=0, most=20),
    "description": partial(text, lane=2, most=100),
    "initial_bid": partial(price, lane=4),
    "reserve": reserve,
    "date_time": instant,
    "expires": expires,
    "seller": partial(a_person, lane=6, any_of=ANY_SELLER, hot=0),
    "category": category,
    "extra": partial(filling, lane=10, bytes_left=AUCTION_BYTES - 110),
}
BID: Mapping[str, Column] = {
    "auction": partial(an_auction, lane=0),
    # Not the person who is hot as a seller.
    "bidder": partial(a_person, lane=2, any_of=ANY_BIDDER, hot=1),
    "price": partial(price, lane=4),
    "date_time": instant,
    "extra": partial(filling, lane=6, bytes_left=BID_BYTES - 32),
}
