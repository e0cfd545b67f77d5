"""How a simulated run went: its metrics, its course, and every decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from foretide.control.course import RunCourse
from foretide.control.decision import Decision
from foretide.control.score import RunScore
from foretide.plan.promise import PromiseScore
from foretide.sim.options import SimulationOptions
from foretide.topology import Topology

__all__ = ["SimulationReport"]


@dataclass(frozen=True, eq=False, kw_only=True)
class SimulationReport:
    """Everything about one simulated run.

    Parameters
    ----------
    topology : Topology
        What ran.
    trace : str
        The name of the input.
    options : SimulationOptions
        How it was steered and what went wrong.
    metrics : RunScore
        How it went: the metrics of SPEC P8 from the end of the warm-up on, `processed` over the whole run.
    course : RunCourse
        Its course, with the true execution times and shares.
    decisions : tuple of Decision
        What was decided in each cycle, and why; empty if they were not kept.
    totals : mapping of str to float
        Events of the whole run: received, processed, queued, dropped, timed_out.
    stand_ins : int
        Cycles in which the forecaster failed and the last value stood in.
    slo : PromiseScore, optional
        How well a promise was kept; None where nothing was promised.
    """

    topology: Topology
    trace: str
    options: SimulationOptions
    metrics: RunScore
    course: RunCourse
    decisions: tuple[Decision, ...]
    totals: dict[str, float]
    stand_ins: int = 0
    slo: PromiseScore | None = None

    @property
    def r_over(self) -> float:
        """The replicas that saved resources are measured against."""
        return self.metrics.r_over

    def row(self) -> dict[str, Any]:
        """Return the run as one flat row: what it was, and its metrics."""
        options = self.options
        return {
            "trace": self.trace,
            "policy": options.policy_name,
            "forecaster": options.forecaster_name,
            "td": options.control.td_s,
            "seed": options.seed,
            "stress": options.stress is not None,
            **self.metrics.to_data(),
            "slo": None if self.slo is None else self.slo.to_data(),
        }
