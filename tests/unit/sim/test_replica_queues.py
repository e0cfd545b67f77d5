"""Queues of replicas: every grouping at work, changed while it runs, learning from what replicas do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from foretide.clock import ManualClock
from foretide.errors import ConfigError
from foretide.grouping import GROUPINGS
from foretide.records import Measurement, Plan
from foretide.sim import Failure, Keys, SimulatedSystem, SimulationSettings, Totals, Workers
from foretide.topology import GroupingSpec, Topology, flow
from foretide.traces import RateTrace


def single(
    grouping: GroupingSpec | str, replicas: tuple[int, int, int] = (1, 4, 3), execution_s: float = 0.01
) -> Topology:
    job = flow("single")
    job.source("in").operator("O1", execution_s=execution_s, replicas=replicas, grouping=grouping)
    return job.build()


class Bench:
    """A system with its clock."""

    def __init__(self, topology: Topology, rates: Sequence[float], seed: int = 0, **settings: Any) -> None:
        self.clock, self.topology = ManualClock(), topology
        trace = RateTrace("given", bin_s=1.0, rates=np.array(rates))
        chosen = SimulationSettings(queue="replica", **settings)
        self.system = SimulatedSystem(topology, trace, clock=self.clock, settings=chosen, seed=seed)

    def run(self, seconds: float) -> Sequence[Measurement]:
        self.clock.sleep_s(seconds)
        return self.system.collect()

    def plan(self, *replicas: int) -> None:
        self.system.apply(Plan(layout=self.topology.layout, planner="test", made_at_s=0.0, replicas=np.array(replicas)))

    def shares(self, seconds: float) -> list[float]:
        """Return the part of each replica in what is finished within so many seconds."""
        before = self.system.processed_by_replica("O1")
        self.run(seconds)
        done = self.system.processed_by_replica("O1") - before
        return (done / done.sum()).tolist()


def test_shuffle_by_hand() -> None:
    """Events at .25, .5, .75, 1, services of .6 s: replica 0 gets the first and third, replica 1 the others."""
    bench = Bench(single("shuffle", (2, 2, 2), execution_s=0.6), [4.0])
    steps = bench.run(2.0)
    # Departures at .85 and 1.45 from replica 0, at 1.1 and 1.7 from replica 1.
    assert [step.processed[0] for step in steps] == [1, 3]
    assert [step.queued[0] for step in steps] == [1, 0]
    assert [step.latency_s for step in steps] == pytest.approx([0.6, (0.6 + 0.7 + 0.7) / 3])


@pytest.mark.parametrize("name", GROUPINGS)
@pytest.mark.parametrize("keys", [None, Keys(count=100, skew=1.0)])
def test_every_grouping_runs(name: str, keys: Keys | None) -> None:
    fields = ":k" if name in ("fields", "direct", "partial-key", "osg") else ""
    bench = Bench(single(name + fields), [100.0] * 4, keys=keys)
    bench.run(2.0)
    bench.plan(4)
    bench.run(1.0)
    bench.plan(2)
    bench.run(60.0)
    copies = 3 * 200 + 4 * 100 + 2 * 100 if name == "all" else 400
    assert bench.system.totals == Totals(received=400, processed=400, queued=0, dropped=0, timed_out=0)
    assert bench.system.processed_by_replica("O1").sum() == copies


def test_p2_a_replica_that_is_switched_off_drains_its_queue() -> None:
    bench = Bench(single("shuffle", (1, 2, 2), execution_s=0.1), [40.0, 5.0])
    bench.run(1.0)
    before = bench.system.processed_by_replica("O1")
    assert before.tolist() == pytest.approx([10, 10], abs=1)
    bench.plan(1)
    bench.run(5.0)
    assert bench.system.processed_by_replica("O1").tolist() == [25, 20], "each its half of 40, the first all of 5"


def test_fields_keep_a_value_at_a_replica() -> None:
    bench = Bench(single("fields:k"), [100.0] * 5, keys=Keys(count=1))
    bench.run(6.0)
    assert np.count_nonzero(bench.system.processed_by_replica("O1")) == 1


def test_i1_ratios_follow_at_once() -> None:
    """1:1:1, then 7:3:2, then the third replica bypassed, as in the paper's experiment."""
    bench = Bench(single(GroupingSpec("dynamic"), execution_s=0.001), [500.0] * 60)
    assert bench.shares(10.0) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0], abs=0.01)
    bench.system.regroup("in.out-O1", {"weights": [7, 3, 2]})
    assert bench.shares(10.0) == pytest.approx([7 / 12, 3 / 12, 2 / 12, 0], abs=0.01)
    bench.system.regroup("in.out-O1", {"weights": [7, 3, 0]})
    assert bench.shares(10.0) == pytest.approx([0.7, 0.3, 0, 0], abs=0.01)
    bench.system.regroup("in.out-O1", "shuffle")
    assert bench.shares(10.0) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0], abs=0.01)


def test_weights_apply_while_there_are_as_many_replicas() -> None:
    weighted = GroupingSpec("dynamic", options={"weights": [1, 1, 2]})
    assert Bench(single(weighted), [200.0] * 9).shares(9.0) == pytest.approx([0.25, 0.25, 0.5, 0], abs=0.01)
    even = Bench(single(weighted, (1, 4, 2)), [100.0] * 9)
    assert even.shares(9.0) == pytest.approx([0.5, 0.5, 0, 0], abs=0.01)


def test_p3_load_aware_spares_a_replica_that_did_more() -> None:
    bench = Bench(single("load-aware"), [30.0] * 20)
    assert bench.shares(20.0) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0], abs=0.05)


def test_p7_the_bound_is_each_queue_s() -> None:
    """One replica of two is dead: its queue fills up, the other's does not."""
    dead = Workers(hosts=2, failures=(Failure(host=1, factor=None),))
    bench = Bench(single("shuffle", (2, 2, 2)), [40.0] * 3, workers=dead, queue_bound=5)
    bench.run(4.0)
    totals = bench.system.totals
    assert bench.system.processed_by_replica("O1").tolist() == [60, 0]
    assert (totals.queued, totals.dropped) == (5, 55)


def test_d4_osg_beats_shuffle_when_values_differ() -> None:
    def mean_s(grouping: str) -> float:
        keys = Keys(count=512, skew=1.5)
        bench = Bench(single(grouping, (4, 4, 4), execution_s=0.001), [3400.0] * 30, keys=keys, step_s=0.25)
        bench.run(5.0)
        bench.system.take_latency()
        bench.run(25.0)
        return bench.system.take_latency().mean_s

    assert mean_s("shuffle") > 1.05 * mean_s("osg:k")


def test_d4_osg_loses_nothing_when_values_cost_alike() -> None:
    means_s = []
    for grouping in ("shuffle", "osg:k"):
        keys = Keys(count=512, skew=1.5, cost_ratio=1.0)
        bench = Bench(single(grouping, (4, 4, 4), execution_s=0.001), [3400.0] * 20, keys=keys)
        bench.run(20.0)
        means_s.append(bench.system.latency.mean_s)
    assert means_s[1] <= 1.01 * means_s[0]


@pytest.mark.parametrize(
    ("edge", "configuration", "setting"),
    [
        ("in-O1", {}, "simulation.regroup.edge"),
        ("in.out-O1", {"weights": [1, 2]}, "grouping.dynamic.weights"),
        ("in.out-O1", {"ratio": [1, 2]}, "grouping.dynamic.ratio"),
        ("in.out-O1", "random", "grouping"),
    ],
)
def test_a_grouping_that_makes_no_sense_is_refused(edge: str, configuration: Any, setting: str) -> None:
    bench = Bench(single("dynamic"), [10.0])
    with pytest.raises(ConfigError) as caught:
        bench.system.regroup(edge, configuration)
    assert caught.value.setting == setting


def test_edges_have_groupings_only_where_replicas_have_queues() -> None:
    trace = RateTrace("given", bin_s=1.0, rates=np.array([1.0]))
    system = SimulatedSystem(single("dynamic"), trace, clock=ManualClock())
    for ask in (lambda: system.regroup("in.out-O1", {}), lambda: system.processed_by_replica("O1")):
        with pytest.raises(ConfigError) as caught:
            ask()
        assert caught.value.setting == "simulation.queue"
