"""The cheapest timetable of all, by dynamic programming: the yardstick of CBA (SPEC B2, B3)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from foretide.errors import PlanError
from foretide.plan.base import Situation
from foretide.plan.cost import Costs, as_columns, operator_costs
from foretide.plan.epochs import EpochNeeds
from foretide.plan.knobs import UTILISATION, Knob
from foretide.plan.timetable import TimetablePlanner
from foretide.records import Floats, Ints, Term

__all__ = ["Optimal", "optimal_timetable"]

# Table cells worked on at once: 4 million take 32 MB, whatever the number of operators.
_CELLS = 4_000_000
# Sums of the same prices in another order differ by this much at most; such timetables cost the same.
_TIE = 1e-12


def optimal_timetable(
    needs: npt.ArrayLike,
    costs: Costs,
    maximum: npt.ArrayLike | None = None,
    initial: npt.ArrayLike | None = None,
) -> Ints:
    r"""Return the timetable of least cost that never falls below the needs.

    The exact minimum of Eq. 5-8 of [BGElasor]_, which the paper leaves to a heuristic. With :math:`W_t(c)` the least
    cost from epoch t on when it has c instances, :math:`W_t(c) = p_o c + \min_{c'} (step(c, c') + W_{t+1}(c'))`. The
    price of a step grows linearly on both sides of c, so a running minimum from the left and one from the right
    answer it for all c at once, in time epochs × counts. More instances than the largest need or the initial number
    never pay, so no more are tried.

    Parameters
    ----------
    needs : array of int of shape (epochs,) or (epochs, operators)
        The fewest instances in each epoch.
    costs : Costs
        The prices.
    maximum : int or array over operators, optional
        The most instances allowed.
    initial : int or array over operators, optional
        Instances before the first epoch; without it, any number is free to begin with.

    Returns
    -------
    array of int
        In the shape of `needs`. Of timetables that cost the same, the one with fewer instances first.

    Raises
    ------
    PlanError
        If a need is above `maximum`.

    Examples
    --------
    >>> optimal_timetable([3, 1, 3, 1, 1], Costs(running=8, start=5, stop=5, reroute=0))
    array([3, 3, 3, 1, 1])
    """
    columns = as_columns(needs)
    operators = columns.shape[1]
    peak = columns.max(axis=0)
    before = None if initial is None else np.broadcast_to(as_columns(np.atleast_1d(initial)).ravel(), operators)
    top = peak if before is None else np.maximum(peak, before)
    if maximum is not None:
        _check_maximum(peak, np.broadcast_to(maximum, operators))
        top = np.minimum(top, maximum)
    timetable = np.empty_like(columns)
    block = max(1, _CELLS // (columns.shape[0] * (int(top.max()) + 1)))
    for first in range(0, operators, block):
        part = slice(first, first + block)
        timetable[:, part] = _solve(columns[:, part], costs, top[part], None if before is None else before[part])
    return timetable.reshape(np.shape(needs))


def _check_maximum(peak: Ints, maximum: Ints) -> None:
    above = np.flatnonzero(peak > maximum)
    if above.size:
        column = above[0]
        raise PlanError(
            f"optimal timetable, operator in column {column}: expected needs of at most {maximum[column]} instances, "
            f"got {peak[column]}; clip the needs to the maximum first, or raise it"
        )


def _solve(needs: Ints, costs: Costs, top: Ints, before: Ints | None) -> Ints:
    """Return the best timetables: least costs backwards, then the choices forwards."""
    counts = np.arange(int(top.max()) + 1)
    ahead = _least_costs(needs, costs, top, counts)
    timetable = np.empty_like(needs)
    for epoch, least in enumerate(ahead):
        total = least if before is None else least + _step_costs(before, counts, costs)
        best = total.min(axis=1, keepdims=True)
        before = np.argmax(total <= best * (1 + _TIE), axis=1)
        timetable[epoch] = before
    return timetable


def _least_costs(needs: Ints, costs: Costs, top: Ints, counts: Ints) -> Floats:
    """Return W by epoch, operator and count; infinite where the count is not allowed."""
    epochs, operators = needs.shape
    least = np.full((epochs, operators, counts.size), np.inf)
    for epoch in range(epochs - 1, -1, -1):
        cost = np.broadcast_to(costs.running * counts, (operators, counts.size))
        if epoch + 1 < epochs:
            cost = cost + _after_best_step(least[epoch + 1], counts, costs)
        allowed = (counts >= needs[epoch][:, None]) & (counts <= top[:, None])
        np.copyto(least[epoch], cost, where=allowed)
    return least


def _after_best_step(least: Floats, counts: Ints, costs: Costs) -> Floats:
    """Return for every count the least cost after the best step from it: up, down, or none."""
    up, down = costs.start * counts, costs.stop * counts
    upwards = np.minimum.accumulate((least + up)[:, ::-1], axis=1)[:, ::-1] - up
    downwards = np.minimum.accumulate(least - down, axis=1) + down
    best: Floats = np.minimum(least, np.minimum(upwards, downwards) + costs.reroute)
    return best


def _step_costs(before: Ints, counts: Ints, costs: Costs) -> Floats:
    """Return the price of the step from each operator's present count (rows) to every count (columns)."""
    change = counts - before[:, None]
    price = np.where(change > 0, costs.start, -costs.stop) * change + costs.reroute * (change != 0)
    return np.asarray(price, dtype=np.float64)


class Optimal(TimetablePlanner):
    """Follow the cheapest timetable over the forecast horizon, found exactly.

    Minimises the cost of [BGElasor]_ from what runs now to the end of the horizon.

    >>> Optimal(horizon=6).intervals_ahead
    6
    """

    name: ClassVar[str] = "optimal"
    summary: ClassVar[str] = "the cheapest timetable over the forecast horizon, found exactly"
    spec: ClassVar[tuple[str, ...]] = ("B2", "B3")
    knobs: ClassVar[tuple[Knob, ...]] = (UTILISATION,)

    def timetable(self, situation: Situation, ahead: EpochNeeds) -> tuple[Ints, tuple[Term, ...]]:
        """Return the cheapest timetable, with its cost."""
        now = situation.replicas
        timetable = optimal_timetable(ahead.needs, self.costs, situation.topology.maximum_replicas, now)
        cost = operator_costs(timetable, self.costs, now)
        first = timetable[0].astype(np.float64)
        return timetable, (
            Term("n*", "replicas of the cheapest timetable, next epoch", "B2: argmin W(n)", first),
            Term("W(n*)", "cost of the cheapest timetable", "B2 Eq. 5-8, from what runs now", cost),
        )
