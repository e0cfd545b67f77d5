"""Load-aware grouping: the replica of lowest utilisation first."""

from __future__ import annotations

__all__ = ["LoadAware", "utilisation"]

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretide.errors import ConfigError
from foretide.grouping import _kernels
from foretide.grouping._checks import as_keys, check_bits, check_numbers, check_positive, check_replicas, check_task
from foretide.grouping.base import Assignment, TableGrouping

# An interval that no batch fills: at a barrier, U only compares replicas.
_NO_END_S = 1e15


def utilisation(processed: ArrayLike, execution_s: float, td_s: float) -> NDArray[np.float64]:
    r"""Return the utilisation of each replica in an interval.

    Eq. (1) of [PASPS]_, :math:`U_{i,j}(t) = \mu_{i,j}(t) \cdot et_i / td`, with `processed` for
    :math:`\mu_{i,j}`, `execution_s` for :math:`et_i`, `td_s` for :math:`td`. Departure: cut to [0, 1], the range
    the paper gives, which measurements can leave.

    >>> utilisation([150, 300, 900], execution_s=0.05, td_s=30.0).tolist()
    [0.25, 0.5, 1.0]
    """
    counts = np.atleast_1d(np.asarray(processed, dtype=np.float64))
    check_numbers("grouping.load-aware.processed", counts, counts.size)
    execution_s = check_positive("grouping.load-aware.execution_s", execution_s)
    return np.minimum(1.0, counts * execution_s / check_positive("grouping.load-aware.td_s", td_s))


class LoadAware(TableGrouping):
    """Send each tuple to the replica of lowest utilisation, or in turn once all are full.

    Algorithm 1 of [PASPS]_: the first replica of lowest utilisation gets the tuple and its utilisation rises by
    et/td; when the lowest utilisation is 1 (1 - 1e-12 or more, as sums of floats miss 1), round robin decides.
    Departures: a utilisation never exceeds 1; and where speeds are given, a tuple raises the utilisation of a replica
    by et/(td·speed), so that shares follow speeds. Without them all is as in the paper.

    Parameters
    ----------
    replicas : int
        How many active replicas there are.
    execution_s : float
        et, the mean execution time of one tuple.
    td_s : float
        td, the length of an interval.
    utilisations : sequence of float, optional
        The utilisation of each replica in the last interval, in [0, 1]; 0 by default.
    speeds : sequence of float, optional
        How fast each replica is, against that of `execution_s`; 1 by default.

    Examples
    --------
    >>> grouping = LoadAware(2, execution_s=3.0, td_s=30.0, utilisations=[0.5, 0.25])
    >>> grouping.assign(np.arange(5)).replicas.tolist()
    [1, 1, 1, 0, 1]
    >>> LoadAware(2, speeds=[1.0, 3.0]).assign(np.arange(8)).replicas.tolist()
    [0, 1, 1, 1, 0, 1, 1, 1]
    """

    name = "load-aware"
    spec = ("P3",)
    splits_keys = True
    summary = "the replica of lowest utilisation, round robin once all are full"

    def __init__(
        self,
        replicas: int,
        *,
        execution_s: float = 1e-3,
        td_s: float = 30.0,
        utilisations: Sequence[float] | NDArray[np.float64] | None = None,
        speeds: Sequence[float] | NDArray[np.float64] | None = None,
    ) -> None:
        super().__init__(replicas)
        self._execution_s = check_positive("grouping.load-aware.execution_s", execution_s)
        self._td_s = check_positive("grouping.load-aware.td_s", td_s)
        self._turn = 0
        given = np.zeros(self.replicas) if utilisations is None else utilisations
        self._utilisations = _check_utilisations(given, self.replicas)
        self._speeds = _check_speeds(np.ones(self.replicas) if speeds is None else speeds, self.replicas)
        self._steps = self._execution_s / self._td_s / self._speeds

    @property
    def speeds(self) -> tuple[float, ...]:
        """How fast each replica is."""
        return tuple(self._speeds.tolist())

    @property
    def utilisations(self) -> tuple[float, ...]:
        """The utilisation of each replica, the tuples sent since then included."""
        return tuple(self._utilisations.tolist())

    def assign(self, keys: NDArray[np.int64]) -> Assignment:
        """Send the tuples by Algorithm 1."""
        out = np.empty(len(as_keys(keys)), dtype=np.int32)
        self._turn = self._run(self._utilisations, self._steps, out)
        return Assignment(None, out)

    def at_barrier(self, sender: int) -> Self:
        """Return a grouping for a batch: no replica has work left, so tuples are divided by the replicas' speeds.

        Utilisations of earlier batches are over, and none is ever full, since all of the batch has to be done. Each
        sender begins part of a tuple ahead at other replicas: as many senders as there are replicas divide their tuples
        as exactly as one sender would.

        >>> [LoadAware(3).at_barrier(sender).assign(np.arange(4)).replicas.tolist() for sender in (0, 1)]
        [[0, 1, 2, 0], [1, 2, 0, 1]]
        """
        fresh = self._like(self.replicas, td_s=_NO_END_S, speeds=self._speeds)
        fresh._utilisations = fresh._steps * ((np.arange(self.replicas) - sender) % self.replicas) / self.replicas
        return fresh

    def _like(self, replicas: int, **settings: Any) -> Self:
        return type(self)(replicas, **{"execution_s": self._execution_s, "td_s": self._td_s, **settings})

    def _run(self, utilisations: NDArray[np.float64], steps: NDArray[np.float64], out: NDArray[np.int32]) -> int:
        return int(_kernels.load_aware(utilisations, steps, self._turn, out))

    def with_utilisation(
        self, utilisations: Sequence[float] | NDArray[np.float64], *, execution_s: float | None = None
    ) -> Self:
        """Return this grouping with newly measured utilisations, as each interval yields them.

        Parameters
        ----------
        utilisations : sequence of float
            One per replica, in [0, 1]; see `utilisation`.
        execution_s : float, optional
            A new mean execution time; the old one by default.
        """
        execution_s = self._execution_s if execution_s is None else execution_s
        fresh = self._like(self.replicas, execution_s=execution_s, utilisations=utilisations, speeds=self._speeds)
        fresh._turn = self._turn
        return fresh

    def table(self, m: int, tuples: float | None = None) -> NDArray[np.int32]:
        """Return the allocation that Algorithm 1 makes for the next 2^m tuples, leaving the grouping as it is.

        With `tuples`, the table stands for an interval in which that many arrive: each of the 2^m identifiers then
        raises a utilisation by et/td · tuples/2^m, so that the shares are those of the whole interval.

        >>> LoadAware(2, execution_s=0.01, td_s=1.0, utilisations=[0.5, 0.0]).table(2, tuples=100).tolist()
        [1, 1, 0, 1]
        """
        size = 1 << check_bits(m)
        weight = 1.0 if tuples is None else check_positive("grouping.load-aware.tuples", tuples) / size
        out = np.empty(size, dtype=np.int32)
        self._run(self._utilisations.copy(), weight * self._steps, out)
        return out

    def rescale(self, replicas: int) -> Self:
        """Return a grouping over `replicas` that knows the survivors; new replicas are idle, and of speed 1."""
        kept = min(self.replicas, check_replicas(replicas))
        speeds = np.ones(replicas)
        speeds[:kept] = self._speeds[:kept]
        fresh = self._like(replicas, speeds=speeds)
        fresh._utilisations[:kept] = self._utilisations[:kept]
        fresh._turn = self._turn % fresh.replicas
        return fresh

    def state(self) -> dict[str, Any]:
        """Return the settings, the utilisations, the speeds and whose turn it is."""
        return self._described(
            execution_s=self._execution_s,
            td_s=self._td_s,
            utilisations=self._utilisations.tolist(),
            speeds=self._speeds.tolist(),
            turn=self._turn,
        )

    @classmethod
    def _restore(cls, state: Mapping[str, Any]) -> Self:
        settings = {name: state[name] for name in ("execution_s", "td_s", "utilisations", "speeds")}
        fresh = cls(state["replicas"], **settings)
        fresh._turn = check_task("grouping.load-aware.turn", state["turn"], fresh.replicas)
        return fresh


def _check_utilisations(values: Sequence[float] | NDArray[np.float64], replicas: int) -> NDArray[np.float64]:
    setting = "grouping.load-aware.utilisations"
    numbers = check_numbers(setting, values, replicas)
    if (numbers > 1.0).any():
        remedy = "compute them with utilisation(), which cuts them"
        raise ConfigError(setting, expected="numbers from 0 to 1", got=numbers.tolist(), remedy=remedy)
    return numbers


def _check_speeds(values: Sequence[float] | NDArray[np.float64], replicas: int) -> NDArray[np.float64]:
    setting = "grouping.load-aware.speeds"
    numbers = check_numbers(setting, values, replicas)
    if (numbers <= 0.0).any():
        remedy = "for a replica that is to get nothing use the grouping 'dynamic' with weight 0"
        raise ConfigError(setting, expected="numbers above 0", got=numbers.tolist(), remedy=remedy)
    return numbers
