"""The immutable records that travel through the control loop, as columns over operators (ADR 0001).

Every record knows its instant and the ids it came from. Instants and durations are in seconds, amounts in events,
unless a name says otherwise. May import `errors` only.
"""

from foretide.records.columns import Floats, Ints, Layout
from foretide.records.cpu import OUTSIDE, CpuUse, mean_cpu, placed
from foretide.records.forecast import Forecast
from foretide.records.measured import BatchRun, Measurement, Window
from foretide.records.plan import Action, ActionStatus, Plan, Term
from foretide.records.sharing import Hiring, SharedSlots

__all__ = [
    "OUTSIDE",
    "Action",
    "ActionStatus",
    "BatchRun",
    "CpuUse",
    "Floats",
    "Forecast",
    "Hiring",
    "Ints",
    "Layout",
    "Measurement",
    "Plan",
    "SharedSlots",
    "Term",
    "Window",
    "mean_cpu",
    "placed",
]
