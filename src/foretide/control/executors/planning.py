"""Plans of executors: the planner that looks ahead to when they come, and what it expects to need soon."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from foretide.control.executors.demand import slots_expected
from foretide.control.executors.look_ahead import LookAhead
from foretide.control.settings import ControlSettings
from foretide.plan import Guarded, make_planner, standard_guards
from foretide.plan.guards import Guard
from foretide.plan.registry import find_planner
from foretide.records import Forecast, Plan

__all__ = ["executor_planner", "executors_expected"]

# The part of their time that executors may be busy under planners that know nothing of batches.
_UTILISATION = 0.8


def executor_planner(
    control: ControlSettings,
    outlook: Callable[[], Mapping[str, Forecast]],
    lead_s: Callable[[], float] | None,
    more: Sequence[Guard] = (),
) -> Guarded:
    """Return the planner, what looks ahead to the coming of executors, and then all guards.

    Parameters
    ----------
    control : ControlSettings
        Planner and guards.
    outlook : callable
        Returns the forecasts by source.
    lead_s : callable, optional
        Returns the seconds until an executor works that is asked for now; None where none can be had.
    more : sequence of Guard
        Guards behind all others.
    """
    kind, wanted = find_planner(control.planner), control.guards
    given = {**control.promised(control.planner), **control.planners.get(control.planner, {})}
    if kind.needs_forecast and not kind.by_stage and wanted.utilisation_target is None:
        wanted = wanted.model_copy(update={"utilisation_target": _UTILISATION})
    planner = make_planner(control.planner, **given)
    ahead = () if lead_s is None else (LookAhead(planner, outlook, lead_s),)
    return Guarded(planner, (*ahead, *standard_guards(wanted), *more))


def executors_expected(control: ControlSettings, plan: Plan, outlook: Mapping[str, Forecast], horizon_s: float) -> int:
    """Return how many executors may be needed within a horizon, such as until a stop and a start have paid."""
    by_stage = find_planner(control.planner).by_stage
    utilisation = control.guards.utilisation_target or (1.0 if by_stage else _UTILISATION)
    return slots_expected(int(plan.replicas.sum()), plan.demand, outlook, control.loop.td_s, horizon_s, utilisation)
