"""What a live stage did, second by second, in the form of batches: for monitor, report and dashboard."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Any

from foretide.spark.batches.failures import FailureWatch
from foretide.spark.settings import EngineSettings
from foretide.spark.tasks.statistics import BatchStatistics, StageTotals

__all__ = ["LiveAccounts"]


class LiveAccounts:
    """Adds up what tasks report, and closes the account of a second as the statistics of a batch.

    Parameters
    ----------
    stage : str
        The stage.
    settings : EngineSettings
        How many batches are kept, and how many events may fail.
    """

    def __init__(self, stage: str, settings: EngineSettings) -> None:
        self._stage, self._number = stage, 0
        self.batches: deque[BatchStatistics] = deque(maxlen=settings.kept_batches)
        self.totals = StageTotals()
        self.watch = FailureWatch(settings)
        #: How many events that failed are counted, but not kept.
        self.letters_left_out = 0
        self._began_at_s = time.time()
        self._reports: list[Mapping[str, Any]] = []

    @property
    def is_closed(self) -> bool:
        """Whether all that was reported is in the statistics."""
        return not self._reports

    def add(self, report: Mapping[str, Any]) -> None:
        """Take in what a task reports."""
        if report["transactions"]:
            self._reports.append(report)

    def close(self, slots: int, strands: int, replicas: Mapping[str, int], version: int) -> None:
        """Close the account: what was reported since the last time is a batch.

        Parameters
        ----------
        slots, strands : int
            Tasks that stayed meanwhile, and strands that they had.
        replicas : mapping of str to int
            The same by operator.
        version : int
            The plan in force.

        Raises
        ------
        OperatorError
            When too many of an operator's last events failed.
        """
        now_s, reports = time.time(), self._reports
        began_at_s, self._began_at_s, self._reports = self._began_at_s, now_s, []
        if not reports:
            return
        rows: dict[str, int] = defaultdict(int)
        for report in reports:
            for source, count in report["rows"].items():
                rows[source] += count
        batch = BatchStatistics(self._stage, self._number, version, slots, dict(rows), began_at_s)
        batch.replicas = replicas
        transactions, took_s = (sum(report[name] for report in reports) for name in ("transactions", "took_s"))
        batch.turns, batch.turn_s = max(1, round(transactions / strands)), took_s / transactions
        batch.take(reports, now_s)
        for report in reports:
            batch.latency.add_bins(*report["latency"])
            self.letters_left_out += report["letters_left_out"]
        self._number += 1
        self.batches.append(batch)
        self.totals += StageTotals.of(batch)
        self.watch.look(reports, rows)
