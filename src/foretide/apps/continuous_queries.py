"""Continuous queries (SPEC I7): which of the vehicles that pass are too fast, and whose are they.

As in [IDRNN]_: a source emits plates with speeds, an operator looks speeding ones up in a table of owners, and what is
found there is logged. The table is generated once per worker. Departure: the paper's operator walks through its table;
this one looks up by hash and then waits for as long as such a walk is assumed to take.

    foretide run continuous-queries
"""

from __future__ import annotations

import time
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field

from foretide import Topology, flow
from foretide.apps.base import App, AppOptions, Rows, rate_field, store_field, trace_field
from foretide.traces import Payload
from foretide.traces.hashing import draw, pick
from foretide.traces.parts import choose, numbered

__all__ = ["APP", "PASSAGES", "Options", "log_lines", "make_owners", "plate", "query"]

_LETTERS = "ABCDEFGHKLMNPRSTUVWXYZ"
_PLATES = len(_LETTERS) ** 2 * 100
# Three plates in four are registered.
_REGISTERED = _PLATES * 3 // 4
_NAMES = ("Ada", "Bo", "Cem", "Dana", "Eli", "Fay", "Gus", "Hana", "Ivo", "Juno", "Kai", "Lea", "Mio", "Nils", "Ola")
_STEP = 7_919  # coprime to the number of plates, so that registered ones are spread over all
_SLOWEST_KMH, _SPEEDS = 60, 100


class Options(AppOptions):
    """Options of continuous queries."""

    PAYLOAD: ClassVar[str] = f"{__name__}:PASSAGES"

    trace: str = trace_field("pasps_dns")
    rate_scale: float = rate_field(0.05)
    store: str = store_field("out/continuous-queries.db")
    limit_kmh: int = Field(default=120, ge=0, le=400, description="The speed limit.")
    scan_ms: float = Field(
        default=2.0, ge=0, le=1000, description="Milliseconds that the table takes for a speeding vehicle."
    )


def _passages(ids: NDArray[np.int64], seed: int) -> list[pa.Array]:
    speeds = _SLOWEST_KMH + pick(draw(ids, seed, 1), _SPEEDS)
    return [choose(_all_plates(), pick(draw(ids, seed, 0), _PLATES)), pa.array(speeds)]


#: A vehicle passes: its plate, and its speed in kilometres per hour, 60 to 159.
PASSAGES = Payload(
    "passages", pa.schema([("id", pa.int64()), ("plate", pa.string()), ("speed_kmh", pa.int64())]), _passages
)


def plate(number: int) -> str:
    """Return the plate with this number.

    >>> plate(0), plate(123)
    ('AA-00', 'AB-23')
    """
    letters, digits = divmod(number, 100)
    first, second = divmod(letters, len(_LETTERS))
    return f"{_LETTERS[first]}{_LETTERS[second]}-{digits:02}"


@cache
def _all_plates() -> tuple[str, ...]:
    return tuple(plate(number) for number in range(_PLATES))


@cache
def make_owners() -> pa.Table:
    """Return the table of owners: plate, name and licence; generated once per worker.

    >>> make_owners().slice(1, 1).to_pylist()
    [{'plate': 'DR-19', 'owner': 'Bo', 'licence': 'L-1'}]
    """
    numbers = np.arange(_REGISTERED, dtype=np.int64)
    plates = choose(_all_plates(), numbers * _STEP % _PLATES)
    owners = choose(_NAMES, numbers % len(_NAMES))
    return pa.table({"plate": plates, "owner": owners, "licence": numbered("L-", numbers)})


def query(batch: pa.RecordBatch, limit_kmh: int, scan_s: float = 0.0) -> pa.RecordBatch:
    """Return the speeding vehicles whose owner is known, with that owner; waits for all lookups at once."""
    owners = make_owners()
    fast = batch.filter(pc.greater(batch["speed_kmh"], limit_kmh))
    time.sleep(scan_s * fast.num_rows)
    places = pc.index_in(fast["plate"], owners["plate"])
    known, found = fast.filter(places.is_valid()), owners.take(places.drop_null())
    for name in ("owner", "licence"):
        known = known.append_column(name, found[name].combine_chunks())
    return known


def log_lines(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a line for each vehicle found."""
    speed = batch["speed_kmh"].cast(pa.string())
    line = pc.binary_join_element_wise(batch["plate"], speed, batch["owner"], batch["licence"], " ")
    return batch.select(["id", "event_time"]).append_column("line", line)


def declare(options: Options) -> Topology:
    """Return the topology: query, log."""
    job = flow("continuous-queries")
    scan_s = options.scan_ms / 1000
    share = max(0, _SLOWEST_KMH + _SPEEDS - 1 - max(options.limit_kmh, _SLOWEST_KMH - 1)) / _SPEEDS
    return options.sink(
        options.source(job, "passages")
        .operator(
            "query",
            partial(query, limit_kmh=options.limit_kmh, scan_s=scan_s),
            mode="arrow",
            grouping="dynamic",
            execution_s=0.00001 + share * scan_s,
            selectivity=share * _REGISTERED / _PLATES,
            replicas=(1, 10),
        )
        .operator("log", log_lines, mode="arrow", grouping="global", execution_s=0.00001, selectivity=1.0, replicas=1)
    )


def compute(events: pa.Table, options: Options) -> Rows:
    """Look every vehicle up by itself."""
    owners = {plate(number * _STEP % _PLATES): number for number in range(_REGISTERED)}
    return [
        (row["id"], _line(row, owners[row["plate"]]))
        for row in events.to_pylist()
        if row["speed_kmh"] > options.limit_kmh and row["plate"] in owners
    ]


def _line(row: dict[str, Any], number: int) -> str:
    return f"{row['plate']} {row['speed_kmh']} {_NAMES[number % len(_NAMES)]} L-{number}"


APP = App(
    name="continuous-queries",
    summary="speeding vehicles looked up in a table of owners, and logged",
    spec=("I7",),
    columns=("id", "line"),
    options=Options,
    declare=declare,
    compute=compute,
)
