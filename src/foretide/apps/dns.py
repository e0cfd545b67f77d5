"""DNS (SPEC P9): queries are parsed, measured, classified and stored.

[PASPS]_ takes queries from a public set in which some clients smuggle data through names. Queries of both kinds are
generated here: plain names, and now and then a long one of random letters and digits. The classifier adds up the
signs of a tunnel.

    foretide run dns
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from foretide import Topology, flow
from foretide.apps.base import App, Rows, rate_field, store_field, trace_field
from foretide.apps.pacing import PacedOptions
from foretide.traces import Payload
from foretide.traces.hashing import draw, pick
from foretide.traces.parts import choose, join, zipf
from foretide.traces.vocabulary import DOMAINS

__all__ = ["APP", "QUERIES", "Options", "classify", "make_record", "measure", "parse"]

_TUNNELS = ("drop.example", "relay.example")
_KINDS = ("A", "A", "A", "AAAA", "MX", "TXT")
_LINE = r"^(?P<client>[0-9.]+) (?P<name>\S+) (?P<type>[A-Z]+) (?P<code>[A-Z]+)$"
_LONG, _MANY_DIGITS = 30, 6
_TUNNEL, _SUSPICIOUS = 4, 2
# Three quarters of those of Twitter detection: with these a model of the topology reproduces the paper's table.
_TIMES_S = {"parse": 0.0001335, "feature": 0.0002175, "classify": 0.000174, "store": 0.00018975}


class Options(PacedOptions):
    """Options of DNS."""

    PAYLOAD: ClassVar[str] = f"{__name__}:QUERIES"

    trace: str = trace_field("pasps_dns")
    rate_scale: float = rate_field(0.05)
    store: str = store_field("out/dns.db")


def _queries(ids: NDArray[np.int64], seed: int) -> list[pa.Array]:
    bits = draw(ids, seed, 0)
    clients = join(*(_numbers(bits << np.uint64(8 * part), 256) for part in range(2)), separator=".", prefix="10.0.")
    plain = choose(DOMAINS, zipf(draw(ids, seed, 1), len(DOMAINS)))
    secret = pa.array([f"{bits:016x}" for bits in draw(ids, seed, 2).tolist()], pa.string())
    hidden = join(secret, choose(_TUNNELS, pick(draw(ids, seed, 3), len(_TUNNELS))), separator=".data.")
    # One query in ten goes through a tunnel, and one in sixteen asks for a name that does not exist.
    names = pc.if_else(pa.array(pick(draw(ids, seed, 4), 10) == 0), hidden, plain)
    kinds = choose(_KINDS, pick(draw(ids, seed, 5), len(_KINDS)))
    codes = choose(("NOERROR",) * 15 + ("NXDOMAIN",), pick(draw(ids, seed, 6), 16))
    return [join(clients, names, kinds, codes)]


def _numbers(bits: NDArray[np.uint64], choices: int) -> pa.Array:
    return pa.array(pick(bits, choices)).cast(pa.string())


#: A query and its answer: the client's address, the name, the type of record, and the code of the answer.
QUERIES = Payload("queries", pa.schema([("id", pa.int64()), ("text", pa.string())]), _queries)


def parse(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return client, name, type and code of every query.

    Raises
    ------
    ValueError
        When a line is not a query; the engine then makes it a dead letter and continues with the others.
    """
    parts = pc.extract_regex(batch["text"], pattern=_LINE)
    if parts.null_count:
        raise ValueError(f"not a query: {batch['text'].filter(parts.is_null())[0].as_py()!r}")
    kept = batch.select(["id", "event_time"])
    for field, column in zip(parts.type, parts.flatten(), strict=True):
        kept = kept.append_column(field.name, column)
    return kept


def measure(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Add the features of a name: its length, its labels, its digits."""
    name = batch["name"]
    features = {
        "length": pc.utf8_length(name),
        "labels": pc.add(pc.count_substring(name, "."), 1),
        "digits": pc.count_substring_regex(name, "[0-9]"),
    }
    for feature, column in features.items():
        batch = batch.append_column(feature, column.cast(pa.int64()))
    return batch


def classify(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Add the score of a query and its class: tunnel, suspicious or normal."""
    points = (
        pc.multiply(pc.greater(batch["length"], _LONG).cast(pa.int64()), 2),
        pc.multiply(pc.greater(batch["digits"], _MANY_DIGITS).cast(pa.int64()), 2),
        pc.equal(batch["type"], "TXT").cast(pa.int64()),
        pc.equal(batch["code"], "NXDOMAIN").cast(pa.int64()),
    )
    score = pc.add(pc.add(points[0], points[1]), pc.add(points[2], points[3]))
    rest = pc.if_else(pc.greater_equal(score, _SUSPICIOUS), "suspicious", "normal")
    found = pc.if_else(pc.greater_equal(score, _TUNNEL), "tunnel", rest)
    return batch.append_column("score", score).append_column("class", found)


def make_record(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return what the database keeps."""
    return batch.select(["id", "client", "name", "score", "class", "event_time"])


def declare(options: Options) -> Topology:
    """Return the topology: parse, feature, classify, store."""
    job = flow("dns")
    stream = options.source(job, "queries")
    for id, function in {"parse": parse, "feature": measure, "classify": classify, "store": make_record}.items():
        stream = options.attach(stream, id, function, _TIMES_S[id])
    return options.sink(stream)


def compute(events: pa.Table, options: Options) -> Rows:
    """Judge every query by itself."""
    return [(row["id"], *_judged(row["text"])) for row in events.to_pylist()]


def _judged(line: str) -> tuple[Any, ...]:
    client, name, kind, code = line.split(" ")
    score = 2 * (len(name) > _LONG) + 2 * (len(re.findall("[0-9]", name)) > _MANY_DIGITS)
    score += (kind == "TXT") + (code == "NXDOMAIN")
    found = "tunnel" if score >= _TUNNEL else "suspicious" if score >= _SUSPICIOUS else "normal"
    return client, name, score, found


APP = App(
    name="dns",
    summary="DNS queries parsed, measured, classified as normal, suspicious or tunnel, and stored",
    spec=("P9",),
    columns=("id", "client", "name", "score", "class"),
    options=Options,
    declare=declare,
    compute=compute,
)
