"""The complex sensitive topology of DABS-Storm (SPEC D6): opinions by city and by age.

As in [DABS]_, figure 10. A dispatcher drops irrelevant topics and gives each branch the attributes it needs. One branch
finds the city that a code stands for, at a cost that depends on the code, and groups opinions by city; the other finds
the age band and groups by that. Both describe subgroups, which a persister stores. A description counts the events of
one piece of the stream: readers of the store add them up.

    foretide run dabs-complex --set values=zipf
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from foretide import Topology, flow
from foretide.apps.base import App, Rows, store_field
from foretide.apps.values import DabsOptions, Law, cost_s, draw_values, mean_cost_s
from foretide.topology import Stream
from foretide.traces import Payload
from foretide.traces.hashing import draw, pick
from foretide.traces.parts import choose, numbered

__all__ = ["APP", "UNIFORM", "ZIPF", "Options", "add_age_band", "dispatch", "find_city", "group_by", "persist"]

_TOPICS = ("energy", "health", "housing", "schools", "traffic", "weather", "gossip", "lottery")
#: The topics that the dispatcher drops.
IRRELEVANT = ("gossip", "lottery")
_OPINIONS = ("against", "unsure", "for")
_CITIES = ("Alba", "Brenn", "Corva", "Dunmar", "Esk", "Falun", "Grana", "Hvide")
_YOUNGEST, _AGES, _BAND = 16, 70, 10
# Measured over generated opinions: descriptions per event, where pieces hold some hundreds of events.
_GROUPS_SHARE = 0.1


class Options(DabsOptions):
    """Options of the complex topology."""

    store: str = store_field("out/dabs-complex.db")

    @property
    def payload(self) -> str:
        """Opinions, with cities distributed as set."""
        return f"{__name__}:{self.values.upper()}"


def _opinions(ids: NDArray[np.int64], seed: int, law: Law) -> list[pa.Array]:
    return [
        numbered("user", pick(draw(ids, seed, 1), 10_000)),
        pa.array(_YOUNGEST + pick(draw(ids, seed, 2), _AGES)),
        pa.array(draw_values(ids, seed, law, lane=3)),
        choose(_TOPICS, pick(draw(ids, seed, 4), len(_TOPICS))),
        choose(_OPINIONS, pick(draw(ids, seed, 5), len(_OPINIONS))),
    ]


def _uniform(ids: NDArray[np.int64], seed: int) -> list[pa.Array]:
    return _opinions(ids, seed, "uniform")


def _zipf(ids: NDArray[np.int64], seed: int) -> list[pa.Array]:
    return _opinions(ids, seed, "zipf")


_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("user", pa.string()),
        ("age", pa.int64()),
        ("code", pa.int64()),
        ("topic", pa.string()),
        ("opinion", pa.string()),
    ]
)

#: An opinion: who holds it, how old, a code for where, on what, and which.
UNIFORM = Payload("uniform opinions", _SCHEMA, _uniform)
ZIPF = Payload("zipf opinions", _SCHEMA, _zipf)


def dispatch(batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
    """Drop irrelevant topics; give each branch what it needs of the others."""
    relevant = batch.filter(pc.invert(pc.is_in(batch["topic"], pa.array(IRRELEVANT))))
    return {
        "city": relevant.select(["code", "opinion", "event_time"]),
        "age": relevant.select(["age", "opinion", "event_time"]),
    }


def find_city(row: Mapping[str, Any], work_s: float) -> dict[str, Any]:
    """Find the city that a code stands for, which takes longer the higher the code is."""
    time.sleep(cost_s(row["code"], work_s))
    return {"city": _city(row["code"]), "opinion": row["opinion"]}


def add_age_band(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Add the age band: ten years, by the first of them."""
    band = pc.multiply(pc.divide(batch["age"], _BAND), _BAND).cast(pa.string())
    return batch.append_column("age_band", band)


def group_by(batch: pa.RecordBatch, column: str) -> pa.Table:
    """Describe the subgroups of a piece of the stream: how many hold an opinion there."""
    groups = pa.Table.from_batches([batch]).group_by([column, "opinion"])
    counted = groups.aggregate([([], "count_all"), ("event_time", "max")])
    named = counted.rename_columns(["subgroup", "opinion", "count", "event_time"])
    return named.append_column("kind", pa.repeat(column, named.num_rows))


def persist(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return descriptions as they are stored."""
    return batch.select(["kind", "subgroup", "opinion", "count", "event_time"])


def declare(options: Options) -> Topology:
    """Return the topology: dispatch, city and age branches, persist."""
    job = flow("dabs-complex")
    relevant = round(1 - len(IRRELEVANT) / len(_TOPICS), 3)
    parts = options.source(job, "opinions").operator(
        "dispatch",
        dispatch,
        mode="arrow",
        outputs=("city", "age"),
        execution_s=0.00001,
        selectivity=relevant,
        replicas=(1, 2),
    )
    branches = [_cities(parts["city"], options), _ages(parts["age"])]
    last = job.operator(
        "persist", persist, inputs=branches, mode="arrow", execution_s=0.00001, selectivity=1.0, replicas=(1, 2)
    )
    return options.sink(last)


def _cities(stream: Stream, options: Options) -> Stream:
    work_s = options.work_ms / 1000
    located = stream.operator(
        "find_city",
        partial(find_city, work_s=work_s),
        grouping="osg:code",
        execution_s=0.0001 + mean_cost_s(options.values, work_s),
        selectivity=1.0,
        replicas=(1, 12),
    )
    return _grouped(located, "analyze_cities", "city")


def _ages(stream: Stream) -> Stream:
    banded = stream.operator(
        "find_age_band", add_age_band, mode="arrow", execution_s=0.00001, selectivity=1.0, replicas=(1, 2)
    )
    return _grouped(banded, "analyze_ages", "age_band")


def _grouped(stream: Stream, id: str, column: str) -> Stream:
    return stream.operator(
        id,
        partial(group_by, column=column),
        mode="arrow",
        execution_s=0.00001,
        selectivity=_GROUPS_SHARE,
        replicas=(1, 2),
    )


def compute(events: pa.Table, options: Options) -> Rows:
    """Count opinion by opinion."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for row in events.to_pylist():
        if row["topic"] not in IRRELEVANT:
            counts["city", _city(row["code"]), row["opinion"]] += 1
            counts["age_band", str(row["age"] - row["age"] % _BAND), row["opinion"]] += 1
    return [(*group, count) for group, count in counts.items()]


def settle(rows: Rows) -> Rows:
    """Add up the descriptions of each subgroup."""
    counts: Counter[tuple[Any, ...]] = Counter()
    for *group, count in rows:
        counts[tuple(group)] += count
    return [(*group, count) for group, count in counts.items()]


def _city(code: int) -> str:
    return _CITIES[code % len(_CITIES)]


APP = App(
    name="dabs-complex",
    summary="opinions dispatched to branches by city and by age, whose subgroups are stored",
    spec=("D6", "D4"),
    columns=("kind", "subgroup", "opinion", "count"),
    options=Options,
    declare=declare,
    compute=compute,
    settle=settle,
)
