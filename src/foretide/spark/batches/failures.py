"""Noticing on which events the operators of a stage fail, and stopping it where too many do."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from foretide.spark.errors import OperatorError
from foretide.spark.settings import EngineSettings
from foretide.transport.dead_letters import DeadLetter, Failure, add_failures, failures_of

__all__ = ["FAILURE_LOGGER", "FailureWatch"]

#: Warns of the first failure of each kind, by records that carry the `Failure` as ``failure``, and of the first drop.
FAILURE_LOGGER = logging.getLogger(__name__)


class FailureWatch:
    """Looks at the failures of each batch of a stage before the batch is committed.

    Parameters
    ----------
    settings : EngineSettings
        How many events may fail.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._share, self._window = settings.failed_share, settings.failed_window
        self._recent: dict[str, deque[tuple[int, int]]] = {}
        #: All failures since the start, by kind.
        self.failures: dict[tuple[str, str, str], Failure] = {}

    def look(
        self, results: Iterable[Mapping[str, Any]], rows: Mapping[str, int], letters: Iterable[DeadLetter] = ()
    ) -> None:
        """Take note of what the tasks of a batch report, and warn of every kind of failure that is new.

        Parameters
        ----------
        results : iterable of mapping
            What tasks report.
        rows : mapping of str to int
            The rows that the batch read, by input; values that a source cannot read are among them.
        letters : iterable of DeadLetter
            Such values, where Spark's tasks have read them.

        Raises
        ------
        OperatorError
            When too many of an operator's last events failed. The batch must not be committed then: run again by
            a mended function, it loses nothing and gives nothing twice.
        """
        results = tuple(results)
        reported = [Failure(**plain) for result in results for plain in result["failures"]]
        found = add_failures({}, [*reported, *failures_of(letters)])
        for kind, failure in found.items():
            if kind not in self.failures:
                FAILURE_LOGGER.warning("%s", failure, extra={"failure": failure})
        self.failures = add_failures(self.failures, found.values())
        for operator, count in {**rows, **_taken(results)}.items():
            self._judge(operator, count, [failure for failure in found.values() if failure.operator == operator])

    def _judge(self, operator: str, taken: int, failures: Sequence[Failure]) -> None:
        recent = self._recent.setdefault(operator, deque())
        recent.append((taken, sum(failure.count for failure in failures)))
        while sum(count for count, _ in recent) - recent[0][0] >= self._window:
            recent.popleft()
        events, failed = (sum(column) for column in zip(*recent, strict=True))
        if failures and events >= self._window and failed > self._share * events:
            raise _too_many(max(failures, key=lambda failure: failure.count), events, failed, self._share)


def _taken(results: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for result in results:
        for operator, (rows_in, *_) in result["operators"].items():
            total[operator] = total.get(operator, 0) + rows_in
    return total


def _too_many(failure: Failure, events: int, failed: int, share: float) -> OperatorError:
    return OperatorError(
        failure.operator,
        expected=f"to fail on at most {share:.0%} of the last {events:,} events",
        got=f"{failed:,} failures ({failed / events:.0%}), such as {failure.cause} on the event {failure.event}",
        remedy="mend it and start again in the same directory: this batch was not committed, so none of its events is "
        "lost; failed_share=1 (foretide run --max-failed 1) lets it go on",
    )
