"""Batches by hand: what they take, how long they last, when their events leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from topologies import line, step

from foretide.clock import ManualClock
from foretide.errors import TopologyError
from foretide.records import Measurement, Plan
from foretide.sim import Keys, MicroBatch, Restart, SimulatedSystem, SimulationSettings, Totals
from foretide.sim.stages import stages_of
from foretide.topology import Topology, flow
from foretide.traces import RateTrace


class Bench:
    """A system with its clock."""

    def __init__(self, topology: Topology, rates: Sequence[float], batch: MicroBatch, **settings: Any) -> None:
        self.clock, self.topology = ManualClock(), topology
        trace = RateTrace("given", bin_s=1.0, rates=np.array(rates))
        chosen = SimulationSettings(micro_batch=batch, **settings)
        self.system = SimulatedSystem(topology, trace, clock=self.clock, settings=chosen)

    def run(self, seconds: float) -> Sequence[Measurement]:
        self.clock.sleep_s(seconds)
        return self.system.collect()

    def plan(self, *replicas: int) -> None:
        self.system.apply(Plan(layout=self.topology.layout, planner="test", made_at_s=0.0, replicas=np.array(replicas)))


def test_batches_by_hand() -> None:
    """Events at .1, .2 ... 1, services of .1 s on one slot, .23 s fixed.

    Batches: [.1] until .43, [.2 .3 .4] until .96, [.5 ... .9] until 1.69, [1] until 2.02.
    """
    bench = Bench(line(0.1), [10.0], MicroBatch(fixed_s=0.23, per_task_s=0.0))
    steps = bench.run(3.0)
    assert [step.processed[0] for step in steps] == [4, 5, 1]
    assert [step.queued[0] for step in steps] == [1, 0, 0]  # what is in a batch is being worked on
    assert np.allclose([step.busy_s[0] for step in steps], [0.4, 0.5, 0.1])
    assert [step.latency_s for step in steps] == pytest.approx([(0.33 + 0.76 + 0.66 + 0.56) / 4, 0.99, 1.02])


def test_a_trigger_by_hand() -> None:
    """The same with a trigger of .5 s.

    Ticks: [.1 ... .5] at .5 until 1.23, which is late for the tick at 1, so [.6 ... 1] at 1.23 until 1.96.
    """
    bench = Bench(line(0.1), [10.0], MicroBatch(fixed_s=0.23, per_task_s=0.0, trigger_s=0.5))
    steps = bench.run(3.0)
    assert [step.processed[0] for step in steps] == [0, 10, 0]
    assert steps[1].latency_s == pytest.approx((5 * 1.23 - 1.5 + 5 * 1.96 - 4.0) / 10)


def test_ticks_pass_by_while_nothing_waits() -> None:
    """Events at 1.1, 1.2 ... 2 only: the ticks at 0, .4 and .8 find nothing, that at 1.2 takes two."""
    bench = Bench(line(0.01), [0.0, 10.0], MicroBatch(fixed_s=0.1, per_task_s=0.0, trigger_s=0.4))
    steps = bench.run(3.0)
    assert [step.processed[0] for step in steps] == [0, 6, 4]


def test_a_batch_takes_no_more_than_fits_the_target() -> None:
    """Four hundred events come: with .2 s of overhead and a target of 1 s, .8 s of work are admitted, eight events."""
    bench = Bench(line(0.1), [400.0, 0.0], MicroBatch(fixed_s=0.2, per_task_s=0.0), step_s=0.1)
    processed = [step.processed[0] for step in bench.run(6.0)]
    batches = [count for count in processed if count]
    # The first one takes the one event that has come.
    assert batches[:5] == [1, 8, 8, 8, 8]


def test_fixed_cost_does_not_starve_a_stage() -> None:
    """With 2 s of fixed cost and a target of 1 s, half of the target is still for work: five events."""
    bench = Bench(line(0.1), [400.0], MicroBatch(fixed_s=2.0, per_task_s=0.0))
    assert [count for step in bench.run(9.0) if (count := step.processed[0])][:3] == [1, 5, 5]


def test_operators_of_a_stage_share_its_slots() -> None:
    """Two operators with 1 and 3 replicas are four slots: an event takes (.1 + .3) / 4 s, plus four tasks of .02 s."""
    bench = Bench(line(0.1, 0.3), [0.5, 0.5], MicroBatch(fixed_s=0.1, per_task_s=0.02))
    bench.plan(1, 3)
    steps = bench.run(4.0)
    assert bench.system.latency.mean_s == pytest.approx(0.1 + (0.1 + 0.3 + 4 * 0.02) / 4)
    assert sum(step.processed for step in steps).tolist() == [1.0, 1.0]
    assert np.allclose(sum(step.busy_s for step in steps), [0.1, 0.3])


def test_slots_without_cores_of_their_own_help_nothing() -> None:
    """Four slots on two cores: .4 s of work and four tasks of .02 s take .24 s."""
    bench = Bench(line(0.1, 0.3), [0.5, 0.5], MicroBatch(fixed_s=0.1, per_task_s=0.02, cores=2))
    bench.plan(1, 3)
    bench.run(4.0)
    assert bench.system.latency.mean_s == pytest.approx(0.1 + 0.48 / 2)


def test_an_exchange_is_another_round_of_tasks() -> None:
    """Keyed edges change tasks: at O1 and O2, so three rounds of two tasks."""
    bench = Bench(line(0.1, 0.1, grouping="fields:k"), [0.5, 0.5], MicroBatch(fixed_s=0.0, per_task_s=0.02))
    bench.run(4.0)
    assert bench.system.latency.mean_s == pytest.approx((0.2 + 6 * 0.02) / 2)


def test_a_queued_edge_separates_stages() -> None:
    """Each stage has a slot and batches of its own: .1 + .2 s, then .1 + .3 s."""
    bench = Bench(
        line(0.2, step("O2", execution_s=0.3, queued=True)), [0.5, 0.5], MicroBatch(fixed_s=0.1, per_task_s=0.0)
    )
    steps = bench.run(4.0)
    assert bench.system.latency.mean_s == pytest.approx(0.3 + 0.4)
    assert sum(step.passed for step in steps).tolist() == [1.0, 1.0]


def test_slots_change_with_the_next_batch() -> None:
    bench = Bench(line(0.5), [4.0] * 6, MicroBatch(fixed_s=0.0, per_task_s=0.0))
    bench.run(2.0)
    bench.plan(8)
    steps = bench.run(6.0)
    assert bench.system.totals == Totals(received=24, processed=24, queued=0, dropped=0, timed_out=0)
    assert steps[-1].replicas[0] == 8


def test_splits_inside_a_batch() -> None:
    job = flow("split")
    first = job.source("in").operator(
        "O1", outputs=("a", "b"), selectivity={"a": 0.7, "b": 0.3}, execution_s=1e-3, replicas=1
    )
    second = first["a"].operator("O2", execution_s=1e-3, selectivity=0.4, replicas=1)
    third = first["b"].operator("O3", execution_s=1e-3, replicas=1, queued=True)
    job.operator("O4", inputs=[second, third], execution_s=1e-3, replicas=1, queued=True)
    bench = Bench(job.build(), [100.0], MicroBatch(fixed_s=0.05, per_task_s=0.0))
    steps = bench.run(4.0)
    assert sum(step.processed for step in steps).tolist() == [100.0, 70.0, 30.0, 58.0]
    assert sum(step.passed for step in steps).tolist() == [100.0, 70.0, 30.0, 28.0, 30.0]
    assert bench.system.totals == Totals(received=100, processed=100, queued=0, dropped=0, timed_out=0)
    assert all(totals.conserved for totals in bench.system.operator_totals.values())


def test_a_restart_loses_the_batch_that_runs() -> None:
    bench = Bench(line(0.1), [10.0] * 6, MicroBatch(fixed_s=0.2, per_task_s=0.0), restart=Restart(downtime_s=1.5))
    bench.run(2.0)
    before = bench.system.totals
    assert before.queued > 0
    bench.plan(2)
    assert [step.processed[0] for step in bench.run(1.0)] == [0]
    bench.run(3.0)
    totals = bench.system.totals
    assert totals.conserved
    assert totals.dropped == before.queued + 14


def test_values_make_batches_longer_or_shorter() -> None:
    keys = Keys(count=10, cost_levels=10, cost_ratio=10.0)
    bench = Bench(line(0.01), [30.0] * 10, MicroBatch(fixed_s=0.1, per_task_s=0.0), keys=keys)
    steps = bench.run(10.0)
    assert np.array([step.busy_s[0] / step.processed[0] for step in steps]).std() > 1e-4
    assert bench.system.totals.conserved


def test_stages_in_a_circle_are_refused() -> None:
    job = flow("circle")
    first = job.source("in").operator("O1", execution_s=0.1)
    second = first.operator("O2", execution_s=0.1, queued=True)
    job.operator("O3", inputs=[first], execution_s=0.1)
    second.into("O3")
    with pytest.raises(TopologyError, match="joined by inline edges") as caught:
        stages_of(job.build())
    assert "queued" in caught.value.remedy


def test_stages_are_those_of_spark_an_operator_on_dataframes_heads_its_own() -> None:
    job = flow("frames")
    first = job.source("in").operator("O1", execution_s=0.1)
    first.operator("O2", execution_s=0.2, mode="dataframe").operator("O3", execution_s=0.3, grouping="fields:k")
    assert [(stage.operators, stage.rounds) for stage in stages_of(job.build())] == [([0], 0), ([1, 2], 1)]
