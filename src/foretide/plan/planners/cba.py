"""CBA: a timetable of low cost in three steps (SPEC B3, Algorithm 1)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from foretide.plan.base import Situation
from foretide.plan.cost import Costs, as_columns, operator_costs, with_initial
from foretide.plan.epochs import EpochNeeds
from foretide.plan.knobs import UTILISATION, Knob
from foretide.plan.planners.optimal import optimal_timetable
from foretide.plan.timetable import TimetablePlanner
from foretide.records import Ints, Term

__all__ = ["Cba", "cancel_restarts", "capacity_timetable", "cba_timetable", "merge_actions"]


def cba_timetable(needs: npt.ArrayLike, costs: Costs, initial: npt.ArrayLike | None = None) -> Ints:
    """Return the timetable of the Cost-Balance-Algorithm: its three steps, one after the other.

    Algorithm 1 of [BGElasor]_. It never falls below the needs, and never costs more than its first step.

    Parameters
    ----------
    needs : array of int of shape (epochs,) or (epochs, operators)
        The fewest instances in each epoch.
    costs : Costs
        The prices.
    initial : int or array over operators, optional
        Instances before the first epoch; without it, the first epoch's need is taken to run already.

    Examples
    --------
    >>> cba_timetable([3, 1, 3, 1, 1], Costs())
    array([3, 3, 3, 1, 1])
    """
    merged = merge_actions(capacity_timetable(needs), costs, initial)
    return cancel_restarts(merged, costs, initial)


def capacity_timetable(needs: npt.ArrayLike) -> Ints:
    """Return step 1: just what every epoch needs; ups act before the epoch that needs them, downs after.

    >>> capacity_timetable([2, 3, 1])
    array([2, 3, 1])
    """
    return as_columns(needs).reshape(np.shape(needs))


def merge_actions(timetable: npt.ArrayLike, costs: Costs, initial: npt.ArrayLike | None = None) -> Ints:
    r"""Return step 2: actions moved onto neighbouring ones where the re-routing saved is worth it.

    Going backwards, an up of u instances moves one epoch earlier onto another up when :math:`p_r > u\,p_o`: running
    them one epoch longer costs less than the re-routing saved. Going forwards, a down of d instances moves one epoch
    later onto another down when :math:`p_r > d\,p_o`.

    Departures: the paper prints the comparison of the reducing case the other way round, which would move actions
    exactly where that costs more; and it prints no check for an action to merge with, without which no re-routing is
    saved (ADR 0004).

    >>> merge_actions([1, 2, 3, 3], Costs(running=8, reroute=10))
    array([1, 3, 3, 3])
    """
    rows = with_initial(as_columns(timetable), initial)
    for row in range(len(rows) - 1, 1, -1):
        up, earlier = rows[row] - rows[row - 1], rows[row - 1] - rows[row - 2]
        moves = (up > 0) & (earlier > 0) & (costs.reroute > costs.running * up)
        rows[row - 1] = np.where(moves, rows[row], rows[row - 1])
    for row in range(1, len(rows) - 1):
        down, later = rows[row - 1] - rows[row], rows[row] - rows[row + 1]
        moves = (down > 0) & (later > 0) & (costs.reroute > costs.running * down)
        rows[row] = np.where(moves, rows[row - 1], rows[row])
    return rows[1:].reshape(np.shape(timetable))


def cancel_restarts(timetable: npt.ArrayLike, costs: Costs, initial: npt.ArrayLike | None = None) -> Ints:
    r"""Return step 3: downs and the ups that follow them cancelled where idling in between is cheaper.

    For a down of d instances with an up of u as the next action :math:`\Delta T` epochs later, m = min(d, u) of both
    are cancelled when :math:`(p_d + p_u)m + p_r > p_o\,m\,\Delta T`; repeated until nothing changes. As in
    the paper one re-routing is counted as saved, though two are where d = u.

    >>> cancel_restarts([3, 1, 3], Costs(running=8, start=5, stop=5, reroute=0))
    array([3, 3, 3])
    """
    rows = with_initial(as_columns(timetable), initial)
    while _cancel_once(rows, costs):
        pass
    return rows[1:].reshape(np.shape(timetable))


def _cancel_once(rows: Ints, costs: Costs) -> bool:
    """Go over all pairs of a down and the up after it, for all operators at once; return whether any was cancelled."""
    numbers = np.arange(len(rows))[:, None]
    # The last action so far where it was a down: its row and its size, else size 0.
    since, down = np.zeros(rows.shape[1], dtype=np.int64), np.zeros(rows.shape[1], dtype=np.int64)
    changed = False
    for row in range(1, len(rows)):
        step = rows[row] - rows[row - 1]
        both = np.minimum(down, np.maximum(step, 0))
        worth = (costs.stop + costs.start) * both + costs.reroute > costs.running * both * (row - since)
        cancelled = np.where(worth, both, 0)
        if cancelled.any():
            rows += np.where((numbers >= since) & (numbers < row), cancelled, 0)
            changed = True
        remaining = step - cancelled
        down = np.where(remaining < 0, -remaining, np.where(remaining > 0, 0, down - cancelled))
        since = np.where(remaining < 0, row, since)
    return changed


class Cba(TimetablePlanner):
    """Follow the timetable of the Cost-Balance-Algorithm over the forecast horizon, planned from what runs now.

    >>> Cba(horizon=6, costs={"reroute": 500}).costs.reroute
    500.0
    """

    name: ClassVar[str] = "cba"
    summary: ClassVar[str] = "a timetable that balances running, starting, stopping, re-routing (BGElasor's CBA)"
    spec: ClassVar[tuple[str, ...]] = ("B2", "B3")
    knobs: ClassVar[tuple[Knob, ...]] = (UTILISATION,)

    def timetable(self, situation: Situation, ahead: EpochNeeds) -> tuple[Ints, tuple[Term, ...]]:
        """Return the timetable after the three steps, with what each made of the next epoch, and costs."""
        # What runs above an operator's maximum has to stop in any case, so no action may wait for it.
        running = np.minimum(situation.replicas, situation.topology.maximum_replicas)
        capacity = capacity_timetable(ahead.needs)
        merged = merge_actions(capacity, self.costs, running)
        timetable = cancel_restarts(merged, self.costs, running)
        return timetable, (
            _next_epoch(1, "n = need", capacity),
            _next_epoch(2, "actions merged", merged),
            _next_epoch(3, "restarts cancelled", timetable),
            *self._cost_terms(situation, ahead, timetable),
        )

    def _cost_terms(self, situation: Situation, ahead: EpochNeeds, timetable: Ints) -> tuple[Term, ...]:
        now, bound = situation.replicas, situation.topology.maximum_replicas
        cost = operator_costs(timetable, self.costs, now)
        best = operator_costs(optimal_timetable(ahead.needs, self.costs, bound, now), self.costs, now)
        # An optimum of 0 means no instance at all, and then CBA has none either.
        total = float(cost.sum() / best.sum() - 1 if best.sum() > 0 else 0.0)
        return (
            Term("W(n)", "cost of the timetable", "B2 Eq. 5-8, from what runs now", cost),
            Term("W(n*)", "cost of the cheapest timetable", "B2: min W(n)", best),
            Term("gap", "gap to the optimum, all operators", "W(n)/W(n*) - 1", total),
        )


def _next_epoch(step: int, what: str, timetable: Ints) -> Term:
    symbol = "n" + "⁽¹⁾⁽²⁾⁽³⁾"[3 * step - 3 : 3 * step]
    first = timetable[0].astype(np.float64)
    return Term(symbol, f"replicas of the next epoch after step {step}", f"B3 step {step}: {what}", first)
