"""Operators that take a declared time.

The papers' operators took a fraction of a millisecond per event. The same work on columns of many events takes a
hundredth of that, and one replica would do for any load. An operator that is paced waits for the rest of the time, so
that a run needs the replicas that the papers' runs did.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pydantic import Field

from foretide.apps.base import AppOptions
from foretide.topology import Stream

__all__ = ["Paced", "PacedOptions"]

ArrowFunction = Callable[[pa.RecordBatch], pa.RecordBatch]

# What the operators take by themselves, approximately.
_UNPACED_S = 0.000005


@dataclass(frozen=True)
class Paced:
    """A function that takes `event_s` seconds for each event, or longer if it must.

    It waits once for the time of a whole piece of the stream.

    >>> Paced(lambda batch: batch, event_s=0.0001)(pa.RecordBatch.from_pydict({"id": [1, 2]})).num_rows
    2
    """

    function: ArrowFunction
    event_s: float

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return what the function returns, when its time is up."""
        started_s = time.perf_counter()
        result = self.function(batch)
        left_s = self.event_s * batch.num_rows - (time.perf_counter() - started_s)
        time.sleep(max(0.0, left_s))
        return result


class PacedOptions(AppOptions):
    """Options of applications whose operators can be paced."""

    paced: bool = Field(
        default=True,
        description="Whether an event takes as long as in the paper, by waiting; otherwise as briefly as it can.",
    )

    def attach(self, stream: Stream, id: str, function: ArrowFunction, event_s: float) -> Stream:
        """Attach an operator that takes `event_s` for an event, if it is to be paced."""
        timed = Paced(function, event_s) if self.paced else function
        execution_s = event_s if self.paced else _UNPACED_S
        return stream.operator(id, timed, mode="arrow", execution_s=execution_s, selectivity=1.0, replicas=(1, 8))
