"""The simple sensitive topology of DABS-Storm (SPEC D6): what an event costs depends on its value.

As in [DABS]_, figure 9b: the same structure as the insensitive one, with an operator whose time follows from the value
it reads. It takes one event at a time, so that each is timed, and OSG (SPEC D4) distributes events by what they will
cost.

    foretide run dabs-sensitive --set values=zipf
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from foretide import Topology, flow
from foretide.apps.base import App
from foretide.apps.dabs_insensitive import compute, finalize
from foretide.apps.values import VALUES, DabsOptions, cost_s, mean_cost_s

__all__ = ["APP", "work"]


def work(row: Mapping[str, Any], work_s: float) -> dict[str, Any]:
    """Square a value, which takes longer the higher it is."""
    time.sleep(cost_s(row["value"], work_s))
    return {**row, "square": row["value"] ** 2}


def declare(options: DabsOptions) -> Topology:
    """Return the topology: work, finalize."""
    work_s = options.work_ms / 1000
    return options.sink(
        options.source(flow("dabs-sensitive"), "values")
        .operator(
            "work",
            partial(work, work_s=work_s),
            grouping="osg:value",
            execution_s=0.0001 + mean_cost_s(options.values, work_s),
            selectivity=1.0,
            replicas=(1, 12),
        )
        .operator("finalize", finalize, mode="arrow", execution_s=0.000005, selectivity=1.0, replicas=(1, 2))
    )


APP = App(
    name="dabs-sensitive",
    summary=f"work on values below {VALUES} that costs more the higher a value is, distributed by OSG",
    spec=("D6", "D4"),
    columns=("id", "value", "square", "parity"),
    options=DabsOptions,
    declare=declare,
    compute=compute,
)
