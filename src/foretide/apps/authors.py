"""The store of authors that Twitter applications look users up in.

It is a SQLite database, one in the memory of each worker, and as slow as configured: a store in the network
answers after some milliseconds, during which a replica waits.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from foretide.traces.hashing import draw, pick

__all__ = ["UNKNOWN", "USERS", "AuthorLookup", "AuthorStore", "author"]

#: As many users as there are among generated tweets: ``user0`` and so on.
USERS = 50_000

#: The record of a user whom the store does not have.
UNKNOWN = ("??", "unknown", 0)

_COUNTRIES = ("BR", "CL", "CN", "DE", "FR", "IN", "JP", "MX", "NG", "US")
_ROLES = ("reader",) * 12 + ("journalist", "expert", "shop", "robot")
_SEED = 20_160_919
_COLUMNS = "user, country, role, followers"
_FOUND = pa.schema([("country", pa.string()), ("role", pa.string()), ("followers", pa.int64())])


class AuthorStore:
    """Authors by user name.

    Parameters
    ----------
    users : int
        How many it knows.

    Examples
    --------
    >>> store = AuthorStore(users=10)
    >>> [known, unknown] = store.look_up(["user7", "nobody"])
    >>> known == author(7), unknown
    (True, ('??', 'unknown', 0))
    """

    def __init__(self, users: int = USERS) -> None:
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.execute(f"CREATE TABLE authors ({_COLUMNS}, PRIMARY KEY (user)) WITHOUT ROWID")
        self._database.executemany("INSERT INTO authors VALUES (?, ?, ?, ?)", _rows(users))

    def look_up(self, users: Iterable[str]) -> list[tuple[str, str, int]]:
        """Return country, role and followers of each user."""
        query = "SELECT country, role, followers FROM authors WHERE user = ?"
        return [self._database.execute(query, (user,)).fetchone() or UNKNOWN for user in users]


@dataclass(frozen=True)
class AuthorLookup:
    """An operator that adds country, role and followers of the user.

    Parameters
    ----------
    wait_s : float
        How long each lookup takes, besides the query itself. A whole piece of the stream is waited for in one sleep,
        since a sleep is never as short as a single lookup.
    """

    wait_s: float = 0.0

    def warm_up(self) -> None:
        """Open the store, which takes a while, before the first event needs it."""
        _opened()

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with the columns added."""
        found = _opened().look_up(batch["user"].to_pylist())
        time.sleep(self.wait_s * batch.num_rows)
        columns = zip(*found, strict=True) if found else ((), (), ())
        for field, column in zip(_FOUND, columns, strict=True):
            batch = batch.append_column(field, pa.array(column, field.type))
        return batch


@cache
def _opened() -> AuthorStore:
    """Return the store of this worker."""
    return AuthorStore()


def author(number: int) -> tuple[str, str, int]:
    """Return country, role and followers of the user with this number."""
    countries, roles, followers = _columns(USERS)
    return countries[number], roles[number], followers[number]


def _rows(users: int) -> Iterable[tuple[str, str, str, int]]:
    names = (f"user{number}" for number in range(users))
    return zip(names, *_columns(users), strict=True)


@cache
def _columns(users: int) -> tuple[list[str], list[str], list[int]]:
    ids = np.arange(users, dtype=np.int64)
    countries = [_COUNTRIES[place] for place in pick(draw(ids, _SEED, 0), len(_COUNTRIES))]
    roles = [_ROLES[place] for place in pick(draw(ids, _SEED, 1), len(_ROLES))]
    # Few have many: the number of followers is uniform on a logarithmic scale, up to about a million.
    exponents = pick(draw(ids, _SEED, 2), 1 << 20) / (1 << 20)
    return countries, roles, np.floor(2.0 ** (20 * exponents)).astype(np.int64).tolist()
