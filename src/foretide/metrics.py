"""How well a run went: the metrics of SPEC P8 and some more, as pure functions over recorded series."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from foretide.errors import ConfigError
from foretide.records import Floats

__all__ = [
    "hypervolume",
    "mean_absolute_percentage_error",
    "pareto_front",
    "processed_ratio",
    "replica_changes",
    "saved_resources",
    "throughput_degradation",
]


def saved_resources(replicas: npt.ArrayLike, overestimated: float, duration_s: Floats | None = None) -> float:
    r"""Return the part of an overestimated number of replicas that was not used: mean of :math:`1 - r/r_{over}` (P8).

    `replicas` is the total of all operators in each stretch; stretches are weighted by their duration if it is given.
    Negative when more ran than the overestimate.

    >>> saved_resources([8, 16], overestimated=32)
    0.625
    """
    if not overestimated > 0:
        raise ConfigError("overestimated", expected="more than 0 replicas", got=overestimated)
    return float(1.0 - np.average(_series("replicas", replicas), weights=duration_s) / overestimated)


def throughput_degradation(received: npt.ArrayLike, sent: npt.ArrayLike) -> float:
    r"""Return the mean of :math:`|in - out|/in` over the intervals in which something came in (P8).

    >>> throughput_degradation([100, 200, 0], [90, 220, 10])
    0.1
    """
    came, left = _pair("received", received, "sent", sent)
    return _mean_relative_error(came, left)


def processed_ratio(received: npt.ArrayLike, processed: npt.ArrayLike) -> float:
    """Return events processed ÷ events received over a whole run (P8); 1 when nothing came.

    >>> processed_ratio([100, 100], [90, 100])
    0.95
    """
    came, done = _pair("received", received, "processed", processed)
    return float(done.sum() / came.sum()) if came.sum() else 1.0


def mean_absolute_percentage_error(actual: npt.ArrayLike, expected: npt.ArrayLike) -> float:
    r"""Return the mean of :math:`|y - \hat y|/y`: P8's error of the input forecast and of the replica count.

    Intervals whose actual value is 0 have no percentage and are left out; NaN if that leaves none.

    >>> mean_absolute_percentage_error([100, 0, 50], [110, 3, 45])
    0.1
    """
    truth, guess = _pair("actual", actual, "expected", expected)
    return _mean_relative_error(truth, guess)


def replica_changes(replicas: npt.ArrayLike) -> int:
    """Return how often an operator got another number of replicas; rows are intervals, columns operators.

    >>> replica_changes([[1, 2], [1, 3], [2, 2]])
    3
    """
    rows = np.asarray(replicas)
    return int(np.count_nonzero(np.diff(rows, axis=0)))


def pareto_front(points: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return which rows no other row beats by being at most as large in every column and smaller in at least one.

    Less is better in every column; negate those of which more is better. NaN, for not known, counts as the worst.

    >>> pareto_front([[0.4, 100.0], [0.5, 90.0], [0.5, 100.0]]).tolist()
    [True, True, False]
    """
    rows = np.asarray(points, dtype=np.float64)
    if rows.ndim != 2:
        raise ConfigError("points", expected="a table, a row for each candidate", got=f"shape {rows.shape}")
    rows = np.nan_to_num(rows, nan=np.inf, posinf=np.inf, neginf=-np.inf)
    no_worse = (rows[:, None, :] <= rows[None, :, :]).all(axis=2)
    better = (rows[:, None, :] < rows[None, :, :]).any(axis=2)
    return np.asarray(~(no_worse & better).any(axis=0))


def hypervolume(points: npt.ArrayLike, reference: tuple[float, float]) -> float:
    """Return the area that points in two columns cover: all that is worse than one of them and better than `reference`.

    Less is better in both columns. Exact: from the best in the first column on, each point adds a rectangle below those
    before it.

    >>> hypervolume([[1.0, 3.0], [2.0, 1.0], [3.0, 2.0]], reference=(4.0, 4.0))
    7.0
    """
    rows = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    area, lowest = 0.0, reference[1]
    for first, second in rows[np.lexsort((rows[:, 1], rows[:, 0]))].tolist():
        if first < reference[0] and second < lowest:
            area += (reference[0] - first) * (lowest - second)
            lowest = second
    return float(area)


def _mean_relative_error(truth: Floats, guess: Floats) -> float:
    some = truth > 0
    return float(np.mean(np.abs(truth - guess)[some] / truth[some])) if some.any() else float("nan")


def _series(name: str, values: npt.ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if not array.size:
        raise ConfigError(name, expected="at least one value", got="none")
    return array


def _pair(name: str, values: npt.ArrayLike, other_name: str, other: npt.ArrayLike) -> tuple[Floats, Floats]:
    one, two = _series(name, values), _series(other_name, other)
    if one.shape != two.shape:
        raise ConfigError(other_name, expected=f"as many values as {name} ({one.size})", got=f"{two.size}")
    return one, two
