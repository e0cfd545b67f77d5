"""Planners: from what was measured and forecast to how many replicas every operator gets."""

from foretide.plan.autoscale import Autoscale
from foretide.plan.autoscale_plus import AutoscalePlus
from foretide.plan.base import Planner, Situation
from foretide.plan.cba import Cba
from foretide.plan.cost import Costs
from foretide.plan.ds2 import Ds2
from foretide.plan.foretide import Foretide
from foretide.plan.guards import Guard, Guarded, GuardSettings, standard_guards
from foretide.plan.incremental import Incremental
from foretide.plan.knowledge import Knowledge
from foretide.plan.load import required_replicas
from foretide.plan.optimal import Optimal
from foretide.plan.pasps import PaSps
from foretide.plan.presps import Presps
from foretide.plan.registry import PLANNERS, find_planner, make_planner
from foretide.plan.rlearning import RLearning
from foretide.plan.spea import Spea
from foretide.plan.srea import Srea
from foretide.plan.static import Static
from foretide.plan.threshold import Threshold

__all__ = [
    "PLANNERS",
    "Autoscale",
    "AutoscalePlus",
    "Cba",
    "Costs",
    "Ds2",
    "Foretide",
    "Guard",
    "GuardSettings",
    "Guarded",
    "Incremental",
    "Knowledge",
    "Optimal",
    "PaSps",
    "Planner",
    "Presps",
    "RLearning",
    "Situation",
    "Spea",
    "Srea",
    "Static",
    "Threshold",
    "find_planner",
    "make_planner",
    "required_replicas",
    "standard_guards",
]
