"""The control loop: monitor, analyse, plan, execute (SPEC P7), policies by name, and the score of a run.

May import `health`, `plan`, `forecast`, `store`, `compile` and what lies below them; never Spark.
"""

from foretide.control.decision import Decision, Explanation, Failure
from foretide.control.fluid import FluidSystem
from foretide.control.loop import ControlLoop, Parts
from foretide.control.monitor import Monitor
from foretide.control.naming import measurement_of
from foretide.control.ports import Actuator, MetricSource
from foretide.control.settings import ControlSettings, LoopSettings, load_settings
from foretide.control.signals.stage import Signal

__all__ = [
    "Actuator",
    "ControlLoop",
    "ControlSettings",
    "Decision",
    "Explanation",
    "Failure",
    "FluidSystem",
    "LoopSettings",
    "MetricSource",
    "Monitor",
    "Parts",
    "Signal",
    "load_settings",
    "measurement_of",
]
