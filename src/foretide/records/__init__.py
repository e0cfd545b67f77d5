"""The immutable records that travel through the control loop: Measurement, Window, Forecast, Plan, Action.

Figures of many operators are columns (numpy arrays in the order of a `Layout`), so that a cycle over ten thousand
operators is a handful of array operations (ADR 0001). Every record knows its instant and the ids of the records it came
from, so a replica count can be followed back to the measurements behind it. Instants are seconds on the clock of
the loop, durations are seconds, amounts are events unless a name says otherwise.
"""

from foretide.records.columns import Floats, Ints, Layout
from foretide.records.forecast import Forecast
from foretide.records.measured import CpuUse, Measurement, Window
from foretide.records.plan import Action, ActionStatus, Plan, Term

__all__ = [
    "Action",
    "ActionStatus",
    "CpuUse",
    "Floats",
    "Forecast",
    "Ints",
    "Layout",
    "Measurement",
    "Plan",
    "Term",
    "Window",
]
