"""The simple insensitive topology of DABS-Storm (SPEC D6): work that costs the same for every value.

As in [DABS]_, figure 9a: a source, an operator whose time does not depend on the value it reads, and one that ends the
computation. The operator waits as long as its work is assumed to take, so that replicas matter even with few cores.

    foretide run dabs-insensitive --set trace=dabs_erratic
"""

from __future__ import annotations

import time
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from foretide import Topology, flow
from foretide.apps.base import App, Rows
from foretide.apps.values import VALUES, DabsOptions

__all__ = ["APP", "compute", "finalize", "work"]


def work(batch: pa.RecordBatch, work_s: float) -> pa.RecordBatch:
    """Square every value, taking the same time for each; it waits once for a whole piece."""
    time.sleep(work_s * batch.num_rows)
    return batch.append_column("square", pc.multiply(batch["value"], batch["value"]))


def finalize(batch: pa.RecordBatch) -> pa.RecordBatch:
    """End the computation: mark every event as even or odd."""
    even = pc.equal(pc.bit_wise_and(batch["square"], 1), 0)
    return batch.append_column("parity", pc.if_else(even, "even", "odd"))


def declare(options: DabsOptions) -> Topology:
    """Return the topology: work, finalize."""
    work_s = options.work_ms / 1000
    return options.sink(
        options.source(flow("dabs-insensitive"), "values")
        .operator(
            "work",
            partial(work, work_s=work_s),
            mode="arrow",
            execution_s=0.000005 + work_s,
            selectivity=1.0,
            replicas=(1, 12),
        )
        .operator("finalize", finalize, mode="arrow", execution_s=0.000005, selectivity=1.0, replicas=(1, 2))
    )


def compute(events: pa.Table, options: DabsOptions) -> Rows:
    """Square every value by itself."""
    return [
        (row["id"], row["value"], row["value"] ** 2, "odd" if row["value"] % 2 else "even")
        for row in events.to_pylist()
    ]


APP = App(
    name="dabs-insensitive",
    summary=f"work on values below {VALUES} that costs the same for each",
    spec=("D6",),
    columns=("id", "value", "square", "parity"),
    options=DabsOptions,
    declare=declare,
    compute=compute,
)
