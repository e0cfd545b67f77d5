"""Guards: rules that every plan keeps, whichever planner made it.

May import `plan`.
"""

from foretide.plan.guards.base import Guard, Guarded
from foretide.plan.guards.bounds import Bounds
from foretide.plan.guards.catch_up import CatchUp
from foretide.plan.guards.cooldown import Cooldown
from foretide.plan.guards.delayed_scale_in import DelayedScaleIn
from foretide.plan.guards.slot_budget import SlotBudget, share_slots
from foretide.plan.guards.standard import GuardSettings, standard_guards
from foretide.plan.guards.utilisation import UtilisationTarget

__all__ = [
    "Bounds",
    "CatchUp",
    "Cooldown",
    "DelayedScaleIn",
    "Guard",
    "GuardSettings",
    "Guarded",
    "SlotBudget",
    "UtilisationTarget",
    "share_slots",
    "standard_guards",
]
