"""The simulator: a topology in simulated time, tuple by tuple, behind the ports of the control loop.

May import `control`, `compile` and what lies below them; never Spark.
"""

from foretide.sim.load import Arrivals, Service
from foretide.sim.outcome import SimulationReport
from foretide.sim.run import simulate
from foretide.sim.settings import Cpu, Failure, Keys, MicroBatch, Restart, SimulationSettings, Workers
from foretide.sim.stress import Stress
from foretide.sim.system import SimulatedSystem, Totals

__all__ = [
    "Arrivals",
    "Cpu",
    "Failure",
    "Keys",
    "MicroBatch",
    "Restart",
    "Service",
    "SimulatedSystem",
    "SimulationReport",
    "SimulationSettings",
    "Stress",
    "Totals",
    "Workers",
    "simulate",
]
