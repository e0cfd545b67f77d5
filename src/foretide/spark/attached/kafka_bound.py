"""Kafka's partitions as a bound: Spark's own source reads each of them with one task."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from pydantic import PrivateAttr

from foretide.plan.base import Situation
from foretide.plan.guards import Guard
from foretide.records import Plan

__all__ = ["KafkaBound"]


class KafkaBound(Guard):
    """Plan no more executors than the partitions of the topics that are read can keep busy.

    It holds for queries that read Kafka by Spark's own source and do not shuffle. A stage of Foretide's own may have
    more tasks than partitions, since its tasks read ranges of offsets, so it needs no such bound.

    Parameters
    ----------
    partitions : callable
        Tells how many partitions are read; 0 while that is not known, or not Kafka.
    cores : int
        Task slots of an executor; 0 where that is not known, and then there is no bound.
    """

    name: ClassVar[str] = "kafka-partitions"
    summary: ClassVar[str] = "the bound of Kafka's partitions"

    _partitions: Callable[[], int] = PrivateAttr()
    _cores: int = PrivateAttr()

    def __init__(self, partitions: Callable[[], int], cores: int) -> None:
        super().__init__()
        self._partitions, self._cores = partitions, cores

    def most(self) -> float:
        """Return the most executors that have something to read; infinity where there is no bound."""
        partitions = self._partitions()
        return math.ceil(partitions / self._cores) if partitions and self._cores else math.inf

    def apply(self, plan: Plan, situation: Situation) -> Plan:
        """Cut to the executors that have something to read, though never below the minimum."""
        most = self.most()
        if math.isinf(most):
            return plan
        cut = np.clip(plan.counts, None, np.maximum(most, situation.topology.minimum_replicas))
        note = f"{self._partitions()} Kafka partitions keep {most:g} executors busy, with {self._cores} slots each"
        return self.revise(plan, cut, "Kafka's partitions: r ≤ ⌈partitions / cores⌉", note)
