"""The learner of DABS's figures learns where the experiment runs (SPEC D5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from foretide.experiments.reproduce.dabs.runs import experiment_settings, learned
from foretide.records import Ints
from foretide.sim import Cpu, Keys, Restart, SimulationSettings
from foretide.topology import GroupingSpec, Topology, flow
from foretide.traces import RateTrace

STREAM = RateTrace("steps", bin_s=30.0, rates=[60.0, 190.0] * 4)


def single() -> Topology:
    job = flow("single")
    job.source("in").operator("worker", execution_s=0.02, replicas=(1, 6), grouping=GroupingSpec("osg", ("value",)))
    return job.build()


def best_steps(settings: SimulationSettings) -> Ints:
    """Return the step that the learner takes at each degree and input rate; 0 where it never was."""
    knowledge = learned(single(), STREAM, settings, episodes=6).knowledge
    assert knowledge is not None
    known = knowledge.visits.any(axis=-1)
    tried = np.where(knowledge.visits > 0, knowledge.value, -np.inf)
    return np.where(known, tried.argmax(axis=-1) - 1, 0)


def with_costs(ratio: float, **more: Any) -> SimulationSettings:
    return SimulationSettings(queue="replica", arrivals="poisson", keys=Keys(skew=1.5, cost_ratio=ratio), **more)


def test_d5_another_cost_of_values_gives_another_policy() -> None:
    """The mean cost is the same: what differs is that some values take 64 times as long as others."""
    even, uneven = best_steps(with_costs(1)), best_steps(with_costs(64))
    assert not np.array_equal(even, uneven)
    assert np.array_equal(uneven, best_steps(with_costs(64)))


def test_d5_another_cost_of_a_change_gives_another_policy() -> None:
    losing = best_steps(with_costs(1, restart=Restart(downtime_s=5.5)))
    assert not np.array_equal(best_steps(with_costs(1)), losing)


def test_d5_the_learner_of_the_figures_has_their_costs_cores_and_restarts() -> None:
    settings = {topology: experiment_settings(topology) for topology in ("insensitive", "sensitive")}
    assert settings["insensitive"].keys is None
    assert settings["sensitive"].keys is not None
    assert {(each.cpu, each.restart) for each in settings.values()} == {(Cpu(cores=18), Restart(downtime_s=5.5))}
