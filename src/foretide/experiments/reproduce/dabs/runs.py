"""The runs behind DABS's figures 12 to 17: one topology, one stream, one strategy, one seed."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from foretide.clock import ManualClock
from foretide.control import ControlLoop, LoopSettings, Parts
from foretide.experiments.reproduce.contract import Scope
from foretide.experiments.reproduce.dabs.streams import OBSERVED, dabs_topology, stream
from foretide.experiments.reproduce.sim_runs import RunOutcome, first_part, recorded
from foretide.forecast import Basic
from foretide.plan import Planner, make_planner
from foretide.plan.planners.rlearning import RLearning
from foretide.sim import Cpu, Keys, Restart, SimulatedSystem, SimulationSettings, simulate
from foretide.topology import Topology
from foretide.traces import RateTrace

__all__ = ["STRATEGIES", "DabsJob", "experiment_settings", "learned"]

#: The strategies, in the order of the figures.
STRATEGIES = ("static", "incremental", "rlearning", "autoscale-plus")
# The paper's monitoring frequency and processing timeout.
_TD_S, _TIMEOUT_S = 10.0, 30.0
_LOOP = LoopSettings(td_s=_TD_S, sample_s=1.0, history=100)
# Nine machines of two cores; what tasks reserve of them is not printed: a core each.
_CORES = 18
_DOWNTIME_S = 5.5
_RESTART = Restart(downtime_s=_DOWNTIME_S)
_WEIGHT, _BETA = 0.3, 0.8
_EPISODES = 25
# Seeds of episodes, apart from those of runs.
_FIRST_EPISODE = 1000
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
    downtime_s: float = _DOWNTIME_S
    loses: bool = True

    @classmethod
    def for_scope(cls, scope: Scope, topology: str, kind: str, strategy: str, pause: bool) -> tuple[DabsJob, ...]:
        """Return the runs of a strategy, one per seed; with `pause`, monitoring pauses after a change."""
        return tuple(cls(topology, kind, strategy, seed, pause, scope.first_s) for seed in scope.numbers)

    @property
    def label(self) -> str:
        """Strategy, topology, stream and seed."""
        pause = " with pause" if self.pause else ""
        keeps = "" if self.loses else ", keeping events"
        restart = f", restart of {self.downtime_s:g} s{keeps}"
        return f"{self.strategy}{pause} on {self.topology}, {self.stream} stream, seed {self.seed}{restart}"

    @property
    def cost(self) -> float:
        """Seconds that it takes."""
        return 6.0 if self.strategy == "rlearning" else 3.0

    def run(self) -> RunOutcome:
        """Simulate it."""
        report = simulate(
            dabs_topology(self.topology),
            first_part(stream(self.stream), self.first_s),
            planner=_planner(self.strategy, self.topology, self.stream),
            loop=_LOOP.model_copy(update={"settle_s": self.downtime_s if self.pause else 0.0}),
            settings=experiment_settings(self.topology, Restart(downtime_s=self.downtime_s, loses=self.loses)),
            seed=self.seed,
            warm_up_s=0.0,
            warm_start=False,
        )
        return recorded(report, _STEP_S)


def experiment_settings(topology: str, restart: Restart = _RESTART) -> SimulationSettings:
    """Return how a topology of the experiments runs: its costs by value, its cores, what a change costs."""
    return SimulationSettings(
        queue="replica",
        arrivals="poisson",
        service="lognormal",
        service_cv=0.2,
        keys=None if topology == "insensitive" else Keys(skew=1.5, sensitive=(OBSERVED,)),
        timeout_s=_TIMEOUT_S,
        cpu=Cpu(cores=_CORES),
        restart=restart,
    )


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
    return learned(dabs_topology(topology), stream(kind), experiment_settings(topology), _EPISODES)


def learned(topology: Topology, trace: RateTrace, settings: SimulationSettings, episodes: int) -> RLearning:
    """Return the learner with a knowledge base from the test stream itself, as in the paper, that learns no more.

    It learns in the simulator, with everything that the experiment has: what values cost, what a change loses. Each
    episode is the stream once, with other randomness than that of the runs.
    """
    learner = RLearning(seed=1)
    for episode in range(episodes):
        clock = ManualClock()
        system = SimulatedSystem(topology, trace, clock=clock, settings=settings, seed=_FIRST_EPISODE + episode)
        parts = Parts(metrics=system, actuator=system, planner=learner, forecaster=Basic(), clock=clock)
        ControlLoop(topology, parts, _LOOP).run(cycles=int(trace.duration_s / _LOOP.td_s))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "knowledge.npz"
        learner.save(file)
        return RLearning(learn=False, knowledge_file=file)
