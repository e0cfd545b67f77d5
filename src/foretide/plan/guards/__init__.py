"""Guards: rules that every plan keeps, whichever planner made it.

May import `plan`.
"""

from foretide.plan.guards.base import Guard, Guarded, was_overridden
from foretide.plan.guards.bounds import Bounds
from foretide.plan.guards.calendar import Blackout, CalendarMinimum
from foretide.plan.guards.catch_up import CatchUp
from foretide.plan.guards.cooldown import Cooldown
from foretide.plan.guards.delayed_scale_in import DelayedScaleIn
from foretide.plan.guards.effectiveness import Effectiveness
from foretide.plan.guards.hourly_budget import HourlyBudget
from foretide.plan.guards.slot_budget import SlotBudget, share_slots
from foretide.plan.guards.standard import GuardSettings, standard_guards
from foretide.plan.guards.step_limit import StepLimit
from foretide.plan.guards.utilisation import UtilisationTarget
from foretide.plan.guards.windows import CalendarWindow

__all__ = [
    "Blackout",
    "Bounds",
    "CalendarMinimum",
    "CalendarWindow",
    "CatchUp",
    "Cooldown",
    "DelayedScaleIn",
    "Effectiveness",
    "Guard",
    "GuardSettings",
    "Guarded",
    "HourlyBudget",
    "SlotBudget",
    "StepLimit",
    "UtilisationTarget",
    "share_slots",
    "standard_guards",
    "was_overridden",
]
