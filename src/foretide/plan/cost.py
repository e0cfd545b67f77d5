"""What a timetable of replicas costs: instances that run, start, stop, and re-routings (SPEC B2)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from foretide.errors import PlanError
from foretide.records import Floats, Ints

__all__ = ["Costs", "as_columns", "operator_costs", "timetable_cost", "with_initial"]


class Costs(BaseModel):
    """The four prices of the cost model, in one unit of the user's choice; only their ratios matter.

    The defaults are those of the evaluation of [BGElasor]_.

    >>> Costs(reroute=2500).running
    8000.0
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    running: float = Field(
        default=8000.0, gt=0, allow_inf_nan=False, description="Price of one instance for one epoch (p_o)."
    )
    start: float = Field(default=5000.0, ge=0, allow_inf_nan=False, description="Price of starting one instance (p_u).")
    stop: float = Field(default=5000.0, ge=0, allow_inf_nan=False, description="Price of stopping one instance (p_d).")
    reroute: float = Field(
        default=100.0,
        ge=0,
        allow_inf_nan=False,
        description="Price of one change of an operator's instances, however many start or stop at once (p_r).",
    )


def timetable_cost(timetable: npt.ArrayLike, costs: Costs, initial: npt.ArrayLike | None = None) -> float:
    r"""Return what a timetable costs, summed over its operators.

    Eq. 5-8 of [BGElasor]_: :math:`W(n) = p_o\sum_t n_t + \sum_t (p_u\,up_t + p_d\,down_t + p_r\,[n_t \ne n_{t+1}])`,
    over the steps from each epoch to the next.

    Parameters
    ----------
    timetable : array of int of shape (epochs,) or (epochs, operators)
        Instances in each epoch.
    costs : Costs
        The prices.
    initial : int or array over operators, optional
        Instances that run before the first epoch. Given, the step into the first epoch is paid for as well;
        departure: the paper's sums begin with the first epoch.

    Examples
    --------
    >>> timetable_cost([1, 2, 2], Costs(running=10, start=3, stop=2, reroute=1))
    54.0
    >>> timetable_cost([1, 2, 2], Costs(running=10, start=3, stop=2, reroute=1), initial=3)
    59.0
    """
    return float(operator_costs(timetable, costs, initial).sum())


def operator_costs(timetable: npt.ArrayLike, costs: Costs, initial: npt.ArrayLike | None = None) -> Floats:
    """Return the cost of every operator's timetable, as in `timetable_cost`.

    >>> operator_costs([[1, 4], [2, 4]], Costs(running=10, start=3, stop=2, reroute=1))
    array([34., 80.])
    """
    columns = as_columns(timetable)
    steps = np.diff(with_initial(columns, initial), axis=0)
    ups, downs = np.maximum(steps, 0).sum(axis=0), np.maximum(-steps, 0).sum(axis=0)
    reroutings = np.count_nonzero(steps, axis=0)
    running = costs.running * columns.sum(axis=0)
    total: Floats = running + costs.start * ups + costs.stop * downs + costs.reroute * reroutings
    return total


def as_columns(table: npt.ArrayLike) -> Ints:
    """Return a copy of `table` with one column per operator, checked to hold whole numbers of at least 0.

    >>> as_columns([1, 2, 2]).shape
    (3, 1)
    """
    given = np.asarray(table)
    fits = given.ndim in (1, 2) and given.size and np.issubdtype(given.dtype, np.number)
    if not fits or not (np.isfinite(given).all() and (given >= 0).all() and (given == np.floor(given)).all()):
        raise PlanError(
            "timetable: expected whole numbers of at least 0, of shape (epochs,) or (epochs, operators), got "
            f"shape {given.shape} of {given.dtype}; round needs up before planning with them"
        )
    columns: Ints = given.reshape(given.shape[0], -1).astype(np.int64)
    return columns


def with_initial(columns: Ints, initial: npt.ArrayLike | None) -> Ints:
    """Return the columns under a row of what runs before them; if that is not known, no step leads into them.

    >>> with_initial(as_columns([1, 2]), 4).ravel()
    array([4, 1, 2])
    """
    before = (
        columns[:1] if initial is None else np.broadcast_to(as_columns(np.atleast_1d(initial)).T, (1, columns.shape[1]))
    )
    return np.vstack([before, columns])
