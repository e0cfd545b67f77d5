"""The slots that stages hold, added up over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from foretide.compile.stages import Stage
from foretide.records import BatchRun

__all__ = ["HeldSlots"]


class HeldSlots:
    """Adds up slots times seconds: a stage holds the slots of a batch until its next one begins.

    Parameters
    ----------
    stages : sequence of Stage
        The stages that have operators, in the order of `SharedSlots`.
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages
        # The slots of each stage, and up to when they are accounted for.
        self._held: dict[str, tuple[float, float]] = {}

    def add(self, batches: Iterable[BatchRun], idle: Iterable[str], planned: Mapping[str, int], now_s: float) -> float:
        """Return the slot-seconds since the last call, up to the last batch that ended, or to now in an idle stage.

        Parameters
        ----------
        batches : iterable of BatchRun
            Those that ended since the last call.
        idle : iterable of str
            Stages in which no batch is under way.
        planned : mapping of str to int
            Replicas by operator, which a stage holds before its first batch.
        now_s : float
            The present.
        """
        total, runs, resting = 0.0, list(batches), set(idle)
        for place, stage in enumerate(self._stages):
            slots, until_s = self._held.get(stage.id, (float(stage.slots(planned)), now_s))
            for run in (one for one in runs if one.stage == place):
                total += slots * max(0.0, run.began_at_s - until_s) + run.slots * run.duration_s
                slots, until_s = run.slots, run.ended_at_s
            if stage.id in resting:
                total += slots * max(0.0, now_s - until_s)
                until_s = max(until_s, now_s)
            self._held[stage.id] = (slots, until_s)
        return total
