"""The streams and topologies of DABS: progressive and erratic; simple and complex, sensitive to values or not (D6)."""

from __future__ import annotations

from typing import Any

import numpy as np

from foretide.topology import GroupingSpec, Topology, flow
from foretide.traces import RateTrace

__all__ = ["OBSERVED", "STREAMS", "TOPOLOGIES", "dabs_topology", "stream"]

STREAMS = ("progressive", "erratic")
TOPOLOGIES = ("insensitive", "sensitive", "complex")
#: The operator whose degree the figures show.
OBSERVED = "worker"

_BIN_S = 10.0
# Events per second at points of time in seconds; the paper draws both streams without numbers.
_PROGRESSIVE = ((0, 100), (120, 100), (360, 1000), (660, 1000), (900, 150), (1020, 150))
_ERRATIC = (
    *((0, 100), (119, 100), (120, 900), (169, 900), (170, 150), (299, 150), (300, 1100), (349, 1100)),
    *((350, 100), (479, 100), (480, 600), (509, 600), (510, 150), (629, 150), (630, 1000), (839, 1000)),
    *((840, 150), (1020, 150)),
)
_EXECUTION_S = 0.006
_POOL = 30


def stream(kind: str) -> RateTrace:
    """Return the rate of a stream.

    Progressive: a large increase, a plateau, and a decrease. Erratic: sudden peaks, the last of which stays.

    >>> stream("progressive").peak_rate, stream("erratic").duration_s
    (1000.0, 1020.0)
    """
    points = np.array({"progressive": _PROGRESSIVE, "erratic": _ERRATIC}[kind], dtype=np.float64)
    middles = np.arange(_BIN_S / 2, points[-1, 0], _BIN_S)
    return RateTrace(kind, _BIN_S, np.interp(middles, points[:, 0], points[:, 1]))


def dabs_topology(kind: str) -> Topology:
    """Return a topology of figures 9 and 10; `OBSERVED` is its insensitive or sensitive bolt.

    >>> [operator.id for operator in dabs_topology("complex").operators]
    ['dispatch', 'worker', 'city', 'age_lookup', 'age', 'persist']
    """
    if kind == "complex":
        return _complex()
    grouping = GroupingSpec("osg", ("value",)) if kind == "sensitive" else GroupingSpec("shuffle")
    job = flow(f"dabs_{kind}")
    worked = job.source("in").operator(OBSERVED, execution_s=_EXECUTION_S, replicas=(1, _POOL), grouping=grouping)
    worked.operator("finalize", execution_s=_EXECUTION_S / 20, replicas=(1, _POOL)).sink("out")
    return job.build()


def _complex() -> Topology:
    """Return the opinions: a dispatcher that filters, a branch by city, a branch by age, and a persister."""
    osg = GroupingSpec("osg", ("value",))

    def sized(factor: float) -> dict[str, Any]:
        return {"execution_s": _EXECUTION_S * factor, "replicas": (1, _POOL)}

    job = flow("dabs_complex")
    kept = job.source("opinions").operator(
        "dispatch", outputs=("city", "age"), selectivity={"city": 0.8, "age": 0.8}, **sized(0.2)
    )
    city = kept["city"].operator(OBSERVED, grouping=osg, **sized(1.0))
    city = city.operator("city", selectivity=0.5, **sized(0.4))
    age = kept["age"].operator("age_lookup", **sized(0.3))
    age = age.operator("age", selectivity=0.5, **sized(0.4))
    job.operator("persist", inputs=[city, age], **sized(0.2)).sink("store")
    return job.build()
