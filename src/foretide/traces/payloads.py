"""What the events of a replayed trace carry.

A payload is a function of event ids and a seed alone: event 17 is the same row whoever generates it, in whatever
chunk. Recorded rates come without their events; payloads stand in for them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from foretide.errors import ConfigError
from foretide.traces.hashing import draw, pick
from foretide.traces.parts import choose, join, numbered, zipf
from foretide.traces.vocabulary import DOMAINS, WORDS

__all__ = ["Payload", "known_payloads", "payload"]

Ids = NDArray[np.int64]

_USERS = 50_000


@dataclass(frozen=True)
class Payload:
    """A kind of event: its columns, and how to make them.

    Parameters
    ----------
    name : str
        What it is called.
    schema : pyarrow.Schema
        The columns; the first is ``id``.
    columns : callable
        From ids and a seed to the columns after ``id``.
    """

    name: str
    schema: pa.Schema
    columns: Callable[[Ids, int], list[pa.Array]]

    def __call__(self, ids: Ids, seed: int = 0) -> pa.RecordBatch:
        """Return the events with these ids."""
        ids = np.ascontiguousarray(ids, dtype=np.int64)
        return pa.RecordBatch.from_arrays([pa.array(ids), *self.columns(ids, seed)], schema=self.schema)


def payload(name: str) -> Payload:
    """Return a payload by its name, or a user's payload by ``module:name``.

    Every process that generates events looks the payload up, so the module must be importable by Spark's driver and
    workers.

    >>> batch = payload("words")(np.arange(2), seed=1)
    >>> batch.schema.names, batch.num_rows
    (['id', 'key', 'text'], 2)
    """
    if ":" in name:
        return _imported(name)
    if name not in _PAYLOADS:
        raise ConfigError("payload", expected=f"one of {', '.join(known_payloads())}", got=name)
    return _PAYLOADS[name]


def _imported(name: str) -> Payload:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError("payload", expected="module:name of a Payload", got=f"{name!r}: {error}") from error
    if not isinstance(found, Payload):
        raise ConfigError("payload", expected=f"a Payload called {name!r}", got=type(found).__name__)
    return found


def known_payloads() -> tuple[str, ...]:
    """Return the names of the payloads.

    >>> known_payloads()
    ('dns', 'ids', 'logs', 'tweets', 'words')
    """
    return tuple(sorted(_PAYLOADS))


def _nothing(ids: Ids, seed: int) -> list[pa.Array]:
    return []


def _words(ids: Ids, seed: int) -> list[pa.Array]:
    key = choose(WORDS, zipf(draw(ids, seed, 0), len(WORDS)))
    return [key, _sentences(ids, seed, fewest=3, most=6)]


def _tweets(ids: Ids, seed: int) -> list[pa.Array]:
    users = numbered("user", pick(draw(ids, seed, 0), _USERS))
    return [users, _sentences(ids, seed, fewest=8, most=14)]


def _dns(ids: Ids, seed: int) -> list[pa.Array]:
    names = choose(DOMAINS, zipf(draw(ids, seed, 1), len(DOMAINS)))
    kinds = choose(("A", "A", "AAAA", "MX", "TXT", "PTR"), pick(draw(ids, seed, 2), 6))
    # One answer in sixteen reports a name that does not exist.
    codes = choose(("NOERROR",) * 15 + ("NXDOMAIN",), pick(draw(ids, seed, 3), 16))
    return [join(_addresses(ids, seed), names, kinds, codes)]


def _logs(ids: Ids, seed: int) -> list[pa.Array]:
    methods = choose(("GET", "GET", "GET", "POST"), pick(draw(ids, seed, 1), 4))
    paths = join(choose(WORDS, zipf(draw(ids, seed, 2), len(WORDS))), separator="", prefix="/")
    codes = choose(("200",) * 12 + ("304", "404", "404", "500"), pick(draw(ids, seed, 3), 16))
    sizes = pa.array(pick(draw(ids, seed, 4), 65_536)).cast(pa.string())
    return [join(_addresses(ids, seed), methods, paths, codes, sizes)]


def _sentences(ids: Ids, seed: int, *, fewest: int, most: int) -> pa.Array:
    counts = fewest + pick(draw(ids, seed, 1), most - fewest + 1)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    # Lane 2 is the event's first word, lane 3 its second, and so on.
    lanes = 2 + np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    places = zipf(draw(np.repeat(ids, counts), seed, lanes), len(WORDS))
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), choose(WORDS, places))
    return pc.binary_join(lists, " ")


def _addresses(ids: Ids, seed: int) -> pa.Array:
    bits = draw(ids, seed, 0)
    parts = [pick(bits << np.uint64(8 * part), 256) for part in range(2)]
    return join(*(pa.array(part).cast(pa.string()) for part in parts), separator=".", prefix="10.0.")


def _schema(names: Sequence[str]) -> pa.Schema:
    return pa.schema([pa.field("id", pa.int64()), *(pa.field(name, pa.string()) for name in names)])


_PAYLOADS: dict[str, Payload] = {
    "ids": Payload("ids", _schema([]), _nothing),
    "words": Payload("words", _schema(["key", "text"]), _words),
    "tweets": Payload("tweets", _schema(["user", "text"]), _tweets),
    "dns": Payload("dns", _schema(["text"]), _dns),
    "logs": Payload("logs", _schema(["text"]), _logs),
}
