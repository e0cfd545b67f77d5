"""The runs behind the PA-SPS tables: one trace, one policy, one seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from foretide.experiments.reproduce.contract import Scope
from foretide.experiments.reproduce.pasps.assumptions import ASSUMPTIONS, Assumption
from foretide.experiments.reproduce.pasps.complex_application import COMPLEX_BASE_S, COMPLEX_R_OVER, complex_application
from foretide.experiments.reproduce.pasps.policies import PspsByForecast, RepeatInterval, fixed
from foretide.experiments.reproduce.sim_runs import RunOutcome, first_part, read_again, recorded
from foretide.plan import make_planner
from foretide.sim import Restart, simulate
from foretide.sim.pasps_setup import PaSpsSetup, pasps_setup
from foretide.traces import load_trace

__all__ = ["DABS_WEIGHT", "DURATION_S", "FORECASTERS", "SETUP_NOTES", "PaspsJob"]

#: The tables' names for the forecasters, and their names here.
FORECASTERS: Mapping[str, str] = MappingProxyType(
    {"ANN": "ann", "FFT": "fft", "LR": "lr", "RF": "rf", "Basic": RepeatInterval.name}
)
#: The experiments last 1200 s.
DURATION_S = 1200.0
#: λ of DABS with which its published saved resources come out.
DABS_WEIGHT = 0.7
# Seconds that a run takes, roughly: the simulation itself, and training a forecaster forty times.
_SIMULATION_COST_S, _TRAINING_COST_S = 2.0, {"ann": 6.0, "rf": 4.0}
_STEP_S, _WARM_UP_S = 5.0, 30.0

SETUP_NOTES = (
    "Simulated tuple by tuple, four operators in a row, one queue per operator without a bound. Execution times of "
    ".178/.290/.232/.253 ms (× .75 for DNS, × .95 for logs) and a base latency of 153 ms are calibrated, the paper "
    "prints neither; pool 30, one replica each at the start, `r_over` as the paper has it.",
    "td = 30 s, samples of 5 s, history of 12, horizon of 6: the authors' public configuration. The run is 1200 s, "
    "its cold start included.",
    "A seed varies arrivals (Poisson) and the reading of the trace off its published plot (±.3 % of full scale).",
)


@dataclass(frozen=True)
class PaspsJob:
    """One run of the PA-SPS experiments.

    Parameters
    ----------
    trace : str
        The name of the trace.
    policy : str
        ``pasps``, ``psps``, ``dabs`` or ``static``.
    option : str
        The forecaster of ``pasps``, λ of ``dabs``, the replicas of ``static``; for ``psps``, ``basic`` takes the last
        sample in place of the last six.
    seed : int
        Which of the runs.
    td_s : float
        The interval.
    application : {"chain", "complex"}
        What runs.
    first_s : float
        How much of the trace.
    assumption : str
        The name of an assumption to run it under; none, as the page says.
    """

    trace: str
    policy: str
    option: str
    seed: int
    td_s: float = 30.0
    application: str = "chain"
    first_s: float = DURATION_S
    assumption: str = ""

    @classmethod
    def for_scope(cls, scope: Scope, trace: str, policy: str, option: str = "", **more: Any) -> tuple[PaspsJob, ...]:
        """Return the runs of a policy, one per seed."""
        first_s = min(DURATION_S, scope.first_s or DURATION_S)
        return tuple(cls(trace, policy, option, seed, first_s=first_s, **more) for seed in scope.numbers)

    @property
    def label(self) -> str:
        """Policy, trace, interval and seed."""
        name = f"{self.policy}:{self.option}" if self.option else self.policy
        under = f", {ASSUMPTIONS[self.assumption].title}" if self.assumption else ""
        application = f" ({self.application})" if self.application != "chain" else ""
        return f"{name}{application} on {self.trace}, td {self.td_s:g} s, seed {self.seed}{under}"

    @property
    def cost(self) -> float:
        """Seconds that it takes."""
        training_s = _TRAINING_COST_S.get(self.option, 0.0) * 30.0 / self.td_s
        return (_SIMULATION_COST_S + training_s) * self.first_s / DURATION_S

    def run(self) -> RunOutcome:
        """Simulate it."""
        setup = self._setup()
        trace = read_again(first_part(setup.trace, self.first_s), self.seed)
        under = ASSUMPTIONS.get(self.assumption, Assumption(""))
        changes: dict[str, Any] = dict(under.settings)
        if self.policy == "dabs":
            changes["restart"] = Restart()
        if self.application == "complex":
            changes["base_latency_s"] = COMPLEX_BASE_S
        topology = setup.topology
        if self.policy == "static":
            topology = fixed(topology, int(self.option))
        report = simulate(
            topology,
            trace,
            **self._policy(setup),
            loop=setup.loop(self.td_s),
            settings=setup.settings(arrivals="poisson", **changes),
            seed=self.seed,
            warm_up_s=_WARM_UP_S if under.warm else 0.0,
            warm_start=under.warm,
            r_over=setup.r_over,
        )
        return recorded(report, _STEP_S)

    def _setup(self) -> PaSpsSetup:
        trace = load_trace(self.trace)
        if self.application == "complex":
            topology = complex_application(trace.peak_rate)
            return replace(pasps_setup(trace), topology=topology, r_over=COMPLEX_R_OVER)
        return pasps_setup(trace)

    def _policy(self, setup: PaSpsSetup) -> dict[str, Any]:
        if self.policy == "static":
            return {"planner": make_planner("static", replicas=int(self.option))}
        if self.policy == "dabs":
            return {"planner": make_planner("autoscale-plus", weight=float(self.option))}
        if self.policy == "psps":
            model = setup.forecaster("basic") if self.option == "basic" else RepeatInterval(window=setup.history)
            return {"planner": PspsByForecast(), "forecaster": model}
        if self.option == RepeatInterval.name:
            return {"planner": make_planner("pasps"), "forecaster": RepeatInterval(window=setup.history)}
        return {"planner": make_planner("pasps"), "forecaster": setup.forecaster(self.option)}
