"""A query of the user's own: what came for it, and how long its batches take."""

from __future__ import annotations

import math
from dataclasses import dataclass

from foretide.sim.attached.curve import ArrivalCurve

__all__ = ["QueryModel"]


@dataclass(frozen=True)
class QueryModel:
    """What is known about a query.

    A batch first takes `start_s`, in which executors have nothing to do, and then the work of its rows.

    Parameters
    ----------
    name : str
        Which one.
    curve : ArrivalCurve
        The rows that come.
    start_s : float
        Seconds that a batch takes before and beside its work.
    row_s : float
        The work of one row, in seconds of a task slot.
    gap_s : float
        Seconds from the end of a batch to the start of the next.
    trigger_s : float
        Seconds between the starts of two batches, at least.
    tasks : int
        Tasks of a batch, each the work of one slot at a time; 0 where work can be split at will.
    limit : float
        Rows of a batch, at most.
    batch_s : float
        The work of a batch besides that of its rows, in seconds of a task slot.
    cold_s : float
        How much more work the first batch is for each executor that has just come: it loads and compiles what the
        query needs, and starts Python.
    """

    name: str
    curve: ArrivalCurve
    start_s: float
    row_s: float
    gap_s: float = 0.05
    trigger_s: float = 0.0
    tasks: int = 0
    limit: float = math.inf
    batch_s: float = 0.0
    cold_s: float = 0.0

    def side_by_side(self, slots: float) -> float:
        """Return how many slots the tasks of a batch keep busy on average, if they may have so many.

        Eight tasks on three slots take three rounds, as on two and two thirds.

        >>> query = QueryModel("q", ArrivalCurve.of([(0.0, 0)]), 0.0, 0.0, tasks=8)
        >>> query.side_by_side(4.0), query.side_by_side(12.0), round(query.side_by_side(3.0), 2)
        (4.0, 8.0, 2.67)
        """
        if not self.tasks or slots <= 0:
            return slots
        if slots < 1:
            return slots
        return self.tasks / math.ceil(self.tasks / math.floor(slots))
