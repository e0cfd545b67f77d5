"""Counting the events that a stage drops, since too many wait, or they are too old (SPEC P7) or late."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

from foretide.compile.queues import QueueLimits
from foretide.compile.stages import Stage
from foretide.spark.batches.failures import FAILURE_LOGGER

__all__ = ["Drop", "DropWatch", "too_old_of"]


Limit: TypeAlias = Literal["queue_bound", "timeout_s", "watermark_s"]


@dataclass(frozen=True)
class Drop:
    """Events of one queue that were dropped for one reason.

    Parameters
    ----------
    queue : str
        The source, or the queued edge, such as ``parse -> count``; for late events their operator.
    limit : {"queue_bound", "timeout_s", "watermark_s"}
        The setting by which they were dropped.
    value : float, optional
        What it says; None where a batch of an earlier start, which had the limit, runs again.
    count : int
        How many.
    ends : tuple of str
        The operators and sinks that did not get them.

    Examples
    --------
    >>> print(Drop("a -> b", "timeout_s", 30, 900, ("b",)))
    queue 'a -> b': 900 events dropped, older than 30 s when they were taken; give b more replicas, or raise timeout_s
    """

    queue: str
    limit: Limit
    value: float | None
    count: int
    ends: tuple[str, ...]

    @property
    def kind(self) -> tuple[str, str]:
        """What tells one kind of drop from another."""
        return self.queue, self.limit

    def __str__(self) -> str:
        events = f"{self.count:,} event{'s' if self.count != 1 else ''} dropped"
        if self.limit == "watermark_s":
            why = f"late by more than {self.value:g} s after the latest event of an earlier batch"
            return f"operator {self.queue!r}: {events}, {why}; raise watermark_s if they should count"
        remedy = f"give {', '.join(self.ends)} more replicas, or raise {self.limit}"
        return f"queue {self.queue!r}: {events}, {self._why}; {remedy}"

    @property
    def _why(self) -> str:
        if self.value is None:
            return "by a limit that held when their batch was planned"
        if self.limit == "queue_bound":
            return f"the oldest, since more than {self.value:,} waited"
        return f"older than {self.value:g} s when they were taken"

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


class DropWatch:
    """Adds up what the batches of a stage drop, and warns of the first drop of each kind.

    Parameters
    ----------
    stage : Stage
        The stage.
    limits : mapping of str to QueueLimits
        What its queues may hold, by input.
    """

    def __init__(self, stage: Stage, limits: Mapping[str, QueueLimits]) -> None:
        self._limits = limits
        self._queues = {plan.name: (str(plan.edge), (plan.edge.end,)) for plan in stage.inputs} | {
            source.id: (source.id, tuple(plan.edge.end for plan in stage.edges if plan.edge.start == source.id))
            for source in stage.sources
        }
        self._behind_s = {operator.id: operator.options.get("watermark_s") for operator in stage.keyed}
        #: All drops since the start, by kind.
        self.drops: dict[tuple[str, str], Drop] = {}

    def look(
        self, over_bound: Mapping[str, int], too_old: Mapping[str, int], results: Iterable[Mapping[str, Any]] = ()
    ) -> dict[str, int]:
        """Take note of what a batch dropped, by input, and of late events in the results of its tasks.

        Return what was dropped of each input, before any operator had it.
        """
        late = [(id, report["late"]) for result in results for id, report in result["states"].items()]
        found = [
            *(self._drop(name, "queue_bound", count) for name, count in over_bound.items() if count),
            *(self._drop(name, "timeout_s", count) for name, count in too_old.items() if count),
            *(Drop(id, "watermark_s", self._behind_s[id], count, (id,)) for id, count in late if count),
        ]
        for drop in found:
            known = self.drops.get(drop.kind)
            if known is None:
                FAILURE_LOGGER.warning("%s", drop)
            self.drops[drop.kind] = drop if known is None else replace(drop, count=known.count + drop.count)
        names = {name: over_bound.get(name, 0) + too_old.get(name, 0) for name in (*over_bound, *too_old)}
        return {name: count for name, count in names.items() if count}

    def _drop(self, name: str, limit: Literal["queue_bound", "timeout_s"], count: int) -> Drop:
        queue, ends = self._queues[name]
        return Drop(queue, limit, getattr(self._limits[name], limit), count, ends)


def too_old_of(results: Iterable[Mapping[str, Any]], read_by_spark: Mapping[str, int]) -> dict[str, int]:
    """Return how many rows of a batch were left out for their age, by input, as tasks and Spark's readers tell."""
    found = dict(read_by_spark)
    for result in results:
        for name, count in result["too_old"].items():
            found[name] = found.get(name, 0) + count
    return found
