"""The parts of the rule of Flink's autoscaler: capacity, alignment, averages, delayed scale-down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from foretide.records import Floats, Window

__all__ = [
    "Alignment",
    "DelayedScaleDown",
    "MetricsWindow",
    "Rates",
    "align",
    "scalability",
    "target_capacity",
]

Alignment: TypeAlias = Literal["balanced", "evenly-spread", "off"]

# Two instants closer than this are the same: measurements carry rounding of clocks and durations.
_SAME_INSTANT_S = 1e-6
# What is this close to a hundredth is on it.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Rates:
    """What a metrics window says, by operator, in events per second.

    `target` is what comes in when all operators keep up, `catch_up` what clears the backlog in time, `input` what was
    processed, `true` what a busy replica processes.
    """

    target: Floats
    catch_up: Floats
    input: Floats
    true: Floats


def target_capacity(
    target: Floats, catch_up: Floats, utilisation: float, *, restart_s: float = 0.0, catch_up_s: float = 0.0
) -> Floats:
    r"""Return the rate that an operator must be able to process to be busy for the part `utilisation` of the time.

    :math:`C = \lambda_c + \lambda_t\,t_{restart}/t_{catch-up} + \lambda_t/u`: what waits, what comes while the job
    restarts, and what comes then. A utilisation is cut to 0 and 1; nothing is enough for 0.

    >>> target_capacity(np.array([700.0]), np.array([350.0]), 0.7, restart_s=1.0, catch_up_s=2.0)
    array([1700.])
    """
    part = min(max(utilisation, 0.0), 1.0)
    if part == 0:
        return np.full_like(target, np.inf)
    restart = target * (restart_s / catch_up_s) if catch_up_s > 0 else 0.0
    capacity: Floats = catch_up + restart + target / part
    return capacity


def align(present: int, target: int, groups: int, highest: int, mode: Alignment) -> int:
    """Return `target`, or a count near it that spreads key groups or partitions better.

    Searched upwards, for more replicas to the `highest`, for fewer to the `present` ones: a count that divides the
    groups, or, if balanced, one that leaves fewer of them to a replica. Without one, `target` stays.

    >>> align(16, 24, 128, 128, "balanced"), align(16, 24, 128, 128, "evenly-spread"), align(16, 24, 128, 128, "off")
    (26, 32, 24)
    """
    if mode == "off" or target == present:
        return target
    end = min(highest, groups) if target > present else min(present, highest, groups)
    for count in range(target, end + 1):
        if groups % count == 0 or (mode == "balanced" and groups // count < groups // target):
            return count
    return target


def scalability(observed: Sequence[tuple[float, float]], *, fewest: int, lowest: float) -> float:
    r"""Return how much of a linear speed-up more replicas really bring, from past replicas and their true rates.

    The least squares fit of :math:`R_i = \alpha\,\beta\,P_i`, :math:`\alpha = \sum P_iR_i/(\beta\sum P_i^2)`, where
    :math:`\beta` is the rate of one replica in the observation with the fewest replicas, the latest of them. Between
    `lowest` and 1, rounded up to hundredths; 1 while there are fewer than `fewest` observations.

    >>> scalability([(4, 160), (2, 96), (8, 240)], fewest=3, lowest=0.5)
    0.69
    """
    if not observed or len(observed) < fewest or any(math.isnan(rate) for _, rate in observed):
        return 1.0
    replicas, rate = min(reversed(observed), key=lambda pair: pair[0])
    squares = sum(count * count for count, _ in observed)
    alpha = sum(count * true for count, true in observed) / (squares * rate / replicas) if rate > 0 else 1.0
    return math.ceil(max(lowest, min(1.0, alpha)) * 100 - _ROUNDING) / 100


@dataclass(frozen=True, eq=False)
class _Row:
    """One interval of a metrics window."""

    ended_at_s: float
    duration_s: float
    arrived: Floats
    processed: Floats
    execution_s: Floats
    share: Floats


class MetricsWindow:
    """The intervals measured since the last change, over which rates are averages."""

    def __init__(self, since_s: float) -> None:
        #: What ended before this belongs to another time, before a change or while it settled.
        self.since_s = since_s
        self._rows: list[_Row] = []

    def restart(self, since_s: float) -> None:
        """Forget everything, and take nothing from before `since_s`."""
        self.since_s, self._rows = since_s, []

    def add(self, window: Window, length_s: float) -> None:
        """Take an interval if it began late enough; forget what is older than `length_s`."""
        if window.ended_at_s - window.duration_s < self.since_s - _SAME_INSTANT_S:
            return
        row = _Row(
            window.ended_at_s, window.duration_s, window.arrived, window.processed, window.execution_s, window.share
        )
        oldest_s = window.ended_at_s - length_s + _SAME_INSTANT_S
        self._rows = [*(old for old in self._rows if old.ended_at_s > oldest_s), row]

    @property
    def covered_s(self) -> float:
        """The time from the beginning of the first interval to the end of the last."""
        return self._rows[-1].ended_at_s - self._rows[0].ended_at_s + self._rows[0].duration_s if self._rows else 0.0

    def is_full(self, length_s: float) -> bool:
        """Whether there is an interval, and all of them cover `length_s`."""
        return bool(self._rows) and self.covered_s >= length_s - _SAME_INSTANT_S

    @property
    def arrival_rate(self) -> Floats:
        """Events per second that came from each source."""
        return self._rate("arrived")

    @property
    def input_rate(self) -> Floats:
        """Events per second that each operator processed."""
        return self._rate("processed")

    @property
    def share(self) -> Floats:
        """The mean share of each edge."""
        mean: Floats = np.mean([row.share for row in self._rows], axis=0)
        return mean

    @property
    def execution_s(self) -> Floats:
        """Busy time per event; the last one known where nothing was processed."""
        busy = np.sum([row.processed * row.execution_s for row in self._rows], axis=0)
        events = np.sum([row.processed for row in self._rows], axis=0)
        time_s: Floats = np.divide(busy, events, out=np.array(self._rows[-1].execution_s), where=events > 0)
        return time_s

    def _rate(self, name: str) -> Floats:
        time_s = sum(row.duration_s for row in self._rows)
        rate: Floats = np.sum([getattr(row, name) for row in self._rows], axis=0) / time_s
        return rate


class DelayedScaleDown:
    """Scale-downs that wait until they were wanted for an interval; then the most of what was wanted counts."""

    def __init__(self, operators: int) -> None:
        self._first_s: Floats = np.full(operators, np.inf)
        self._wanted: list[tuple[float, Floats, npt.NDArray[np.bool_]]] = []

    def cancel(self, operators: npt.NDArray[np.bool_]) -> None:
        """Forget what these operators wanted, since they want fewer replicas no more."""
        self._first_s = np.where(operators, np.inf, self._first_s)
        self._wanted = [(at_s, np.where(operators, np.nan, counts), flags) for at_s, counts, flags in self._wanted]

    def clear(self) -> None:
        """Forget everything, since something was scaled."""
        self._first_s, self._wanted = np.full_like(self._first_s, np.inf), []

    def want(
        self,
        now_s: float,
        counts: Floats,
        outside: npt.NDArray[np.bool_],
        fewer: npt.NDArray[np.bool_],
        interval_s: float,
    ) -> tuple[Floats, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Note what operators that are to have `fewer` replicas want; return the due ones' counts, flags and columns.

        An operator is due when its first wish is `interval_s` old. Its count is then the most that it wanted within
        the interval, and `outside` what was said of that wish, the latest of equal ones.
        """
        self._first_s = np.where(fewer, np.minimum(self._first_s, now_s), self._first_s)
        start_s = now_s - interval_s
        self._wanted = [entry for entry in self._wanted if entry[0] >= start_s - _SAME_INSTANT_S]
        self._wanted.append((now_s, np.where(fewer, counts, np.nan), outside))
        due = fewer & (self._first_s <= start_s + _SAME_INSTANT_S)
        table = np.array([np.nan_to_num(wished, nan=-np.inf) for _, wished, _ in reversed(self._wanted)])
        flags = np.array([said for _, _, said in reversed(self._wanted)])
        best = table.argmax(axis=0)
        columns = np.arange(best.size)
        return table[best, columns], flags[best, columns], due
