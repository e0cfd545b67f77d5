"""The runs behind DABS's figures 12 to 17: one topology, one stream, one strategy, one seed."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from foretide.clock import ManualClock
from foretide.control import ControlLoop, FluidSystem, LoopSettings, Parts
from foretide.experiments.reproduce.contract import Scope
from foretide.experiments.reproduce.dabs.streams import OBSERVED, dabs_topology, stream
from foretide.experiments.reproduce.sim_runs import RunOutcome, first_part, recorded
from foretide.forecast import Basic
from foretide.plan import Planner, make_planner
from foretide.plan.planners.rlearning import RLearning
from foretide.sim import Keys, Restart, SimulationSettings, simulate

__all__ = ["STRATEGIES", "DabsJob"]

#: The strategies, in the order of the figures.
STRATEGIES = ("static", "incremental", "rlearning", "autoscale-plus")
# The paper's monitoring frequency and processing timeout.
_TD_S, _TIMEOUT_S = 10.0, 30.0
_DOWNTIME_S = 5.5
_WEIGHT, _BETA = 0.3, 0.8
_EPISODES = 25
_STEP_S = 5.0


@dataclass(frozen=True)
class DabsJob:
    """One run of the DABS experiments."""

    topology: str
    stream: str
    strategy: str
    seed: int
    pause: bool
    first_s: float | None = None

    @classmethod
    def for_scope(cls, scope: Scope, topology: str, kind: str, strategy: str, pause: bool) -> tuple[DabsJob, ...]:
        """Return the runs of a strategy, one per seed; with `pause`, monitoring pauses after a change."""
        return tuple(cls(topology, kind, strategy, seed, pause, scope.first_s) for seed in scope.numbers)

    @property
    def label(self) -> str:
        """Strategy, topology, stream and seed."""
        pause = " with pause" if self.pause else ""
        return f"{self.strategy}{pause} on {self.topology}, {self.stream} stream, seed {self.seed}"

    @property
    def cost(self) -> float:
        """Seconds that it takes."""
        return 6.0 if self.strategy == "rlearning" else 3.0

    def run(self) -> RunOutcome:
        """Simulate it."""
        topology, trace = dabs_topology(self.topology), first_part(stream(self.stream), self.first_s)
        keys = None if self.topology == "insensitive" else Keys(skew=1.5, sensitive=(OBSERVED,))
        report = simulate(
            topology,
            trace,
            planner=_planner(self.strategy, self.topology, self.stream),
            loop=LoopSettings(td_s=_TD_S, sample_s=1.0, history=100, settle_s=_DOWNTIME_S if self.pause else 0.0),
            settings=SimulationSettings(
                queue="replica",
                arrivals="poisson",
                service="lognormal",
                service_cv=0.2,
                keys=keys,
                timeout_s=_TIMEOUT_S,
                restart=Restart(downtime_s=_DOWNTIME_S),
            ),
            seed=self.seed,
            warm_up_s=0.0,
            warm_start=False,
        )
        return recorded(report, _STEP_S)


def _planner(strategy: str, topology: str, kind: str) -> Planner:
    if strategy == "static":
        return make_planner("static", replicas=1)
    if strategy == "rlearning":
        return _trained(topology, kind)
    if strategy == "autoscale-plus":
        return make_planner(strategy, weight=_WEIGHT, beta=_BETA)
    return make_planner(strategy)


@lru_cache(maxsize=8)
def _trained(topology: str, kind: str) -> Planner:
    """Return the learner with a knowledge base from the test stream itself, as in the paper, that learns no more."""
    learner = RLearning(seed=1)
    for _ in range(_EPISODES):
        _episode(learner, topology, kind)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "knowledge.npz"
        learner.save(file)
        return RLearning(learn=False, knowledge_file=file)


def _episode(learner: RLearning, topology: str, kind: str) -> None:
    """Let it learn from the stream once; events as a fluid, changes without a restart."""
    built, trace, clock = dabs_topology(topology), stream(kind), ManualClock()
    system = FluidSystem(built, np.repeat(trace.rates, round(trace.bin_s)).tolist(), clock=clock)
    parts = Parts(metrics=system, actuator=system, planner=learner, forecaster=Basic(), clock=clock)
    loop = ControlLoop(built, parts, LoopSettings(td_s=_TD_S, sample_s=1.0, history=10))
    loop.run(cycles=int(trace.duration_s / _TD_S))
