"""Planners: from what was measured and forecast to how many replicas every operator gets.

May import `topology`, `records` and the small modules.
"""

from foretide.plan.base import Planner, Situation
from foretide.plan.cost import Costs
from foretide.plan.guards import Guard, Guarded, GuardSettings, standard_guards
from foretide.plan.knowledge import Knowledge
from foretide.plan.load import required_replicas
from foretide.plan.planners.autoscale import Autoscale
from foretide.plan.planners.autoscale_plus import AutoscalePlus
from foretide.plan.planners.cba import Cba
from foretide.plan.planners.ds2 import Ds2
from foretide.plan.planners.flink import Flink
from foretide.plan.planners.foretide import Foretide
from foretide.plan.planners.incremental import Incremental
from foretide.plan.planners.keda import Keda
from foretide.plan.planners.optimal import Optimal
from foretide.plan.planners.pasps import PaSps
from foretide.plan.planners.presps import Presps
from foretide.plan.planners.rlearning import RLearning
from foretide.plan.planners.spea import Spea
from foretide.plan.planners.srea import Srea
from foretide.plan.planners.static import Static
from foretide.plan.planners.threshold import Threshold
from foretide.plan.registry import PLANNERS, find_planner, make_planner

__all__ = [
    "PLANNERS",
    "Autoscale",
    "AutoscalePlus",
    "Cba",
    "Costs",
    "Ds2",
    "Flink",
    "Foretide",
    "Guard",
    "GuardSettings",
    "Guarded",
    "Incremental",
    "Keda",
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
