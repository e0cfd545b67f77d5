"""Logs (SPEC P9): lines of a distributed system are traced to their templates, scored, classified and stored.

[PASPS]_ takes its lines from a public set of logs of distributed systems. Here they are generated from templates with
two numbers each. The parser knows none of these: it finds a line's template by masking its numbers, and the scorer
gives points for severity, for a template that means trouble, and for an unusual number.

    foretide run logs
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

__all__ = ["APP", "LINES", "MASK", "Options", "classify", "make_record", "parse", "score"]

#: The placeholder of a number in a template.
MASK = "<*>"

# Most frequent first.
_TEMPLATES = (
    "INFO request # served in # ms",
    "INFO replica # of the shard is in step after # ms",
    "INFO client # opened session #",
    "INFO checkpoint # holds # bytes",
    "INFO node # joined a ring of #",
    "WARN queue of node # holds # events",
    "WARN request # is tried again, attempt #",
    "WARN clock of node # is off by # ms",
    "ERROR request # failed after # attempts",
    "ERROR node # is lost and # shards move",
    "ERROR disk # of node # cannot be read",
)
_PARTS = tuple(tuple(template.split("#")) for template in _TEMPLATES)
_NUMBERS = 1_000
_HIGH = 950
_LEVELS = {"INFO": 0, "WARN": 2, "ERROR": 4}
_TROUBLE = ("lost", "cannot")
_ANOMALY, _WARNING = 5, 2
_LINE = r"^(?P<level>INFO|WARN|ERROR) .*?(?P<value>[0-9]+)[^0-9]*$"
# Those of Twitter detection times .95: with these a model of the topology reproduces the paper's table.
_TIMES_S = {"parse": 0.0001691, "score": 0.0002755, "classify": 0.0002204, "store": 0.00024035}


class Options(PacedOptions):
    """Options of Logs."""

    PAYLOAD: ClassVar[str] = f"{__name__}:LINES"

    trace: str = trace_field("pasps_logs")
    rate_scale: float = rate_field(0.02)
    store: str = store_field("out/logs.db")


def _lines(ids: NDArray[np.int64], seed: int) -> list[pa.Array]:
    which = zipf(draw(ids, seed, 0), len(_TEMPLATES))
    first, second = (pa.array(pick(draw(ids, seed, lane), _NUMBERS)).cast(pa.string()) for lane in (1, 2))
    before, between, after = (choose(texts, which) for texts in zip(*_PARTS, strict=True))
    return [join(before, first, between, second, after, separator="")]


#: A line of a log: its level, and a text with numbers in it.
LINES = Payload("log lines", pa.schema([("id", pa.int64()), ("text", pa.string())]), _lines)


def parse(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return level, template and last number of every line.

    Raises
    ------
    ValueError
        When a line has no level or no number; the engine then makes it a dead letter and continues with the others.
    """
    text = batch["text"]
    parts = pc.extract_regex(text, pattern=_LINE)
    if parts.null_count:
        raise ValueError(f"not a line of the log: {text.filter(parts.is_null())[0].as_py()!r}")
    level, value = parts.flatten()
    columns = {"level": level, "template": pc.replace_substring_regex(text, "[0-9]+", MASK)}
    kept = batch.select(["id", "event_time"])
    for name, column in {**columns, "value": value.cast(pa.int64())}.items():
        kept = kept.append_column(name, column)
    return kept


def score(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Add the points of every line."""
    place = pc.index_in(batch["level"], pa.array(_LEVELS, pa.string()))
    severity = pa.array(_LEVELS.values(), pa.int64()).take(place)
    trouble = pc.match_substring_regex(batch["template"], "|".join(_TROUBLE)).cast(pa.int64())
    high = pc.greater_equal(batch["value"], _HIGH).cast(pa.int64())
    return batch.append_column("score", pc.add(severity, pc.add(trouble, high)))


def classify(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Add the class of every line: anomaly, warning or normal."""
    rest = pc.if_else(pc.greater_equal(batch["score"], _WARNING), "warning", "normal")
    return batch.append_column("class", pc.if_else(pc.greater_equal(batch["score"], _ANOMALY), "anomaly", rest))


def make_record(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return what the database keeps."""
    return batch.select(["id", "template", "score", "class", "event_time"])


def declare(options: Options) -> Topology:
    """Return the topology: parse, score, classify, store."""
    job = flow("logs")
    stream = options.source(job, "lines")
    for id, function in {"parse": parse, "score": score, "classify": classify, "store": make_record}.items():
        stream = options.attach(stream, id, function, _TIMES_S[id])
    return options.sink(stream)


def compute(events: pa.Table, options: Options) -> Rows:
    """Judge every line by itself."""
    return [(row["id"], *_judged(row["text"])) for row in events.to_pylist()]


def _judged(line: str) -> tuple[Any, ...]:
    template = re.sub("[0-9]+", MASK, line)
    points = _LEVELS[line.split(" ")[0]] + any(word in template for word in _TROUBLE)
    points += int(re.findall("[0-9]+", line)[-1]) >= _HIGH
    found = "anomaly" if points >= _ANOMALY else "warning" if points >= _WARNING else "normal"
    return template, points, found


APP = App(
    name="logs",
    summary="log lines traced to templates, scored, classified as normal, warning or anomaly, and stored",
    spec=("P9",),
    columns=("id", "template", "score", "class"),
    options=Options,
    declare=declare,
    compute=compute,
)
