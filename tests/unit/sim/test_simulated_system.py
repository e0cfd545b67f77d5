"""A simulated system by hand: who waits, who is served when, and what becomes of events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from topologies import line

from foretide.clock import ManualClock
from foretide.config import validated
from foretide.control import FluidSystem
from foretide.errors import ConfigError
from foretide.records import Measurement, Plan
from foretide.sim import Failure, Keys, Restart, SimulatedSystem, SimulationSettings, Totals, Workers
from foretide.topology import Topology, flow
from foretide.traces import RateTrace


def trace(*rates: float) -> RateTrace:
    return RateTrace("given", bin_s=1.0, rates=np.array(rates))


class Bench:
    """A system with its clock."""

    def __init__(self, topology: Topology, *rates: float, seed: int = 0, **settings: Any) -> None:
        self.clock, self.topology = ManualClock(50.0), topology
        self.system = SimulatedSystem(
            topology, trace(*rates), clock=self.clock, settings=SimulationSettings(**settings), seed=seed
        )

    def run(self, seconds: float) -> Sequence[Measurement]:
        self.clock.sleep_s(seconds)
        return self.system.collect()

    def plan(self, *replicas: int) -> list[int]:
        plan = Plan(layout=self.topology.layout, planner="test", made_at_s=0.0, replicas=np.array(replicas))
        return self.system.apply(plan).tolist()


def test_d_d_1_by_hand() -> None:
    """Events at .5, 1, 1.25, 1.5, 1.75, 2 and services of .4 s: departures at .9, 1.4, 1.8, 2.2, 2.6, 3."""
    bench = Bench(line(0.4), 2.0, 4.0)
    steps = bench.run(4.0)
    assert [step.processed[0] for step in steps] == [1, 2, 3, 0]
    # At 1 s nobody waits but the event that has just come; at 2 s those of 1.75 and 2 do, that of 1.5 is in service.
    assert [step.queued[0] for step in steps] == [1, 2, 0, 0]
    assert [step.arrived[0] for step in steps] == [2, 4, 0, 0]
    assert np.allclose([step.busy_s[0] for step in steps], [0.4, 0.8, 1.2, 0.0])
    means_s = [0.4, (0.4 + 0.55) / 2, (0.7 + 0.85 + 1.0) / 3]
    assert [step.latency_s for step in steps[:3]] == pytest.approx(means_s)
    assert steps[3].latency_s is None
    assert [step.ended_at_s for step in steps] == [51.0, 52.0, 53.0, 54.0]
    assert bench.system.latency.mean_s == pytest.approx(3.9 / 6)


def test_d_d_2_by_hand() -> None:
    """Two replicas, services of .9 s, events at .25, .5, .75, 1: departures at 1.15, 1.4, 2.05, 2.3."""
    steps = Bench(line(0.9, replicas=(2, 2, 2)), 4.0, base_latency_s=1.0).run(3.0)
    assert [step.processed[0] for step in steps] == [0, 2, 2]
    assert [step.queued[0] for step in steps] == [2, 0, 0]
    assert [step.latency_s for step in steps[1:]] == pytest.approx([1.9, 1.0 + (1.3 + 1.3) / 2])


def test_a_row_of_operators_passes_events_on_at_once() -> None:
    """Services of .1 and .2 s, events at .5 and 1: through O1 at .6 and 1.1, through O2 at .8 and 1.3."""
    steps = Bench(line(0.1, 0.2), 2.0).run(2.0)
    assert [step.passed.tolist() for step in steps] == [[2.0, 1.0], [0.0, 1.0]]
    assert [step.processed.tolist() for step in steps] == [[1.0, 1.0], [1.0, 1.0]]
    assert [step.latency_s for step in steps] == pytest.approx([0.3, 0.3])


def test_p2_activation_takes_no_time_and_loses_nothing() -> None:
    bench = Bench(line(0.1), *[30.0] * 10)
    bench.run(3.0)
    assert bench.plan(3) == [3]
    assert bench.run(1.0)[0].processed[0] == pytest.approx(30, abs=2)
    bench.plan(1)
    assert bench.run(1.0)[0].processed[0] == pytest.approx(10, abs=2)
    bench.plan(8)
    bench.run(9.0)
    assert bench.system.totals == Totals(received=300, processed=300, queued=0, dropped=0, timed_out=0)


def test_p2_a_replica_that_is_switched_off_finishes_its_tuple() -> None:
    """Two replicas begin at .25 and .5 with services of 1.6 s; from 1 s on the first one alone serves what waits."""
    bench = Bench(line(1.6, replicas=(1, 2, 2)), 4.0)
    bench.run(1.0)
    bench.plan(1)
    # Departures at 1.85, 2.1 from the other replica, then 3.45 and 5.05.
    steps = bench.run(5.0)
    assert [step.processed[0] for step in steps] == [1, 1, 1, 0, 1]
    assert [step.replicas[0] for step in steps] == [1] * 5


def test_replicas_become_active_after_a_while() -> None:
    bench = Bench(line(0.01), *[10.0] * 10, activation_s=3.0)
    bench.run(1.0)
    bench.plan(3)
    assert [step.replicas[0] for step in bench.run(5.0)] == [1, 1, 1, 3, 3]


def test_service_factor_slows_all_down() -> None:
    slow, fast = Bench(line(0.1), 5.0, service_factor=2.0), Bench(line(0.2), 5.0)
    assert [step.processed[0] for step in slow.run(3.0)] == [step.processed[0] for step in fast.run(3.0)]


def test_p5_split_of_figure_6() -> None:
    """Edge shares .7/.3 from O1, .4 from O2 and 1 from O3 into O4: of 100 events, 70, 30 and 58 reach the others."""
    job = flow("fig6")
    first = job.source("in").operator(
        "O1", outputs=("a", "b"), selectivity={"a": 0.7, "b": 0.3}, execution_s=1e-4, replicas=1
    )
    second = first["a"].operator("O2", execution_s=1e-4, selectivity=0.4, replicas=1)
    third = first["b"].operator("O3", execution_s=1e-4, replicas=1)
    job.operator("O4", inputs=[second, third], execution_s=1e-4, replicas=1)
    bench = Bench(job.build(), 100.0)
    steps = bench.run(2.0)
    assert sum(step.processed for step in steps).tolist() == [100.0, 70.0, 30.0, 58.0]
    assert sum(step.passed for step in steps).tolist() == [100.0, 70.0, 30.0, 28.0, 30.0]
    # The 42 that O2 filters out are processed as well, but do not leave: they have no latency.
    assert bench.system.totals == Totals(received=100, processed=100, queued=0, dropped=0, timed_out=0)
    assert bench.system.latency.count == 58


def test_an_event_that_is_copied_is_one_event() -> None:
    job = flow("copies")
    source = job.source("in")
    source.operator("O1", execution_s=0.01, replicas=1).operator("O3", execution_s=0.01, selectivity=3, replicas=1)
    source.operator("O2", execution_s=0.01, selectivity=2, replicas=1).into("O3")
    bench = Bench(job.build(), 10.0)
    bench.run(3.0)
    assert bench.system.totals == Totals(received=10, processed=10, queued=0, dropped=0, timed_out=0)
    assert {name: totals.processed for name, totals in bench.system.operator_totals.items()} == {
        "O1": 10,
        "O2": 10,
        "O3": 30,
    }
    assert bench.system.latency.count == 30


def test_streams_that_join_are_served_in_the_order_of_arrival() -> None:
    """Events at .5 and 1 of one source, at .25, .5, .75, 1 of the other: six in turn, the last departs at 1.5."""
    job = flow("join")
    job.operator("O1", inputs=[job.source("a"), job.source("b")], execution_s=0.2, replicas=1)
    clock = ManualClock()
    system = SimulatedSystem(job.build(), {"a": trace(2.0), "b": trace(4.0)}, clock=clock)
    clock.sleep_s(2.0)
    steps = system.collect()
    assert [step.arrived.tolist() for step in steps] == [[2.0, 4.0], [0.0, 0.0]]
    # Departures at .45 (b), .7 (a), .9 (b), 1.1 (b), 1.3 (a), 1.5 (b).
    assert [step.processed[0] for step in steps] == [3, 3]
    assert [step.latency_s for step in steps] == pytest.approx([(0.2 + 0.2 + 0.4) / 3, (0.35 + 0.3 + 0.5) / 3])


def test_p7_a_full_queue_drops() -> None:
    """Events every .1 s, services of .5 s, two may wait: begun .1 and .6, waiting 2, the rest is dropped."""
    bench = Bench(line(0.5), 10.0, queue_bound=2)
    step = bench.run(1.0)[0]
    # .1 begins; .2, .3 wait; .4, .5 are dropped; .2 begins at .6, as .6 comes and takes the place; .7 on are dropped.
    assert step.queued[0] == 2
    assert step.dropped.tolist() == [6.0]
    assert bench.system.totals == Totals(received=10, processed=1, queued=3, dropped=6, timed_out=0)
    bench.run(3.0)
    assert bench.system.totals == Totals(received=10, processed=4, queued=0, dropped=6, timed_out=0)


def test_p7_an_event_that_is_too_old_times_out() -> None:
    """Events at .25, .5, .75, 1 and services of .6 s: they would wait 0, .35, .7, 1.05; after .5 s they are too old."""
    bench = Bench(line(0.6), 4.0, timeout_s=0.5)
    bench.run(3.0)
    # .75 would begin at 1.45, .7 too late; 1 then begins at once, .45 late.
    assert bench.system.totals == Totals(received=4, processed=3, queued=0, dropped=0, timed_out=1)
    assert bench.system.operator_totals["O1"].timed_out == 1
    assert bench.system.latency.mean_s == pytest.approx((0.6 + 0.95 + 1.05) / 3)


def test_age_counts_from_the_source() -> None:
    bench = Bench(line(0.4, 0.1), 1.0, timeout_s=0.3)
    bench.run(3.0)
    assert bench.system.totals.timed_out == 1
    assert bench.system.operator_totals["O2"].timed_out == 1


def test_d7_a_restart_loses_what_is_queued_and_what_arrives() -> None:
    """Ten events a second: at 2 s ten wait or are served, during 2.5 s of downtime twenty-five come; all are lost."""
    bench = Bench(line(0.2), *[10.0] * 8, restart=Restart(downtime_s=2.5))
    bench.run(2.0)
    before = bench.system.totals
    assert before == Totals(received=20, processed=9, queued=11, dropped=0, timed_out=0)
    bench.plan(4)
    steps = bench.run(3.0)
    # The first one after it arrives at 4.5 s itself.
    assert bench.system.totals.dropped == 11 + 24
    assert [step.processed[0] for step in steps] == [0, 0, 4]
    bench.plan(4)
    bench.run(1.0)
    assert bench.system.totals.dropped == 35, "a plan that changes nothing restarts nothing"


def test_a_restart_may_keep_everything() -> None:
    bench = Bench(line(0.05), *[10.0] * 4, restart=Restart(downtime_s=1.5, loses=False))
    bench.run(1.0)
    bench.plan(2)
    # Up to 2.5 s nothing begins; the events of 1.0 to 2.9 are done by 3 s, the rest as they come.
    assert [step.processed[0] for step in bench.run(4.0)] == [0, 20, 10, 1]
    assert bench.system.totals.conserved


def test_faster_and_slower_hosts() -> None:
    """O1 has a replica on each of two hosts; at twice the speed, host 0 takes two of three events."""
    workers = Workers(hosts=2, speeds=(2.0, 1.0))
    bench = Bench(line(0.2, replicas=(2, 2, 2)), 100.0, *[0.0] * 5, workers=workers)
    steps = bench.run(4.0)
    assert [step.processed[0] for step in steps[1:]] == pytest.approx([15] * 3, abs=1)


def test_i8_a_host_that_fails_is_slow_for_a_while() -> None:
    failing = Workers(hosts=1, failures=(Failure(host=0, from_s=1.0, to_s=2.0, factor=4.0),))
    steps = Bench(line(0.1), *[5.0] * 3, workers=failing).run(4.0)
    # The event of 1.0 begins then and takes until 1.4, those of 1.2 and 1.4 until 1.8 and 2.2, the rest .1 each.
    assert [step.processed[0] for step in steps] == [4, 2, 8, 1]


def test_i8_a_dead_host_serves_nothing_until_it_is_back() -> None:
    """Host 1 is dead from 1 s to 3 s: its replica takes no event, the other one takes all."""
    dead = Workers(hosts=2, failures=(Failure(host=1, from_s=1.0, to_s=3.0, factor=None),))
    bench = Bench(line(0.1, replicas=(2, 2, 2)), *[20.0] * 4, workers=dead)
    assert [step.processed[0] for step in bench.run(4.0)] == pytest.approx([18, 11, 10, 20], abs=1)
    gone = Workers(hosts=1, failures=(Failure(host=0, from_s=1.0, factor=None),))
    bench = Bench(line(0.1), *[5.0] * 4, workers=gone)
    assert [step.processed[0] for step in bench.run(4.0)] == [4, 0, 0, 0]
    assert bench.system.totals == Totals(received=20, processed=4, queued=16, dropped=0, timed_out=0)


def test_values_decide_the_cost_of_sensitive_operators_only() -> None:
    keys = Keys(count=8, skew=1.0, cost_levels=8, cost_ratio=8.0, sensitive=("O2",))
    bench = Bench(line(0.001, 0.001), *[200.0] * 20, keys=keys)
    steps = bench.run(21.0)
    busy_s = np.array([step.busy_s for step in steps[1:20]])
    assert np.allclose(busy_s[:, 0], 0.2, atol=0.0011)
    assert busy_s[:, 1].std() > 0.005
    assert busy_s[:, 1].mean() == pytest.approx(0.2, rel=0.05)


@pytest.mark.parametrize("utilisation", [0.5, 0.8])
def test_m_m_1_waits_as_long_as_the_closed_form(utilisation: float) -> None:
    """Mean time in an M/M/1 system is s/(1 − ρ); with 200 000 events the mean is within 6 %."""
    bench = Bench(line(0.01), *[100.0 * utilisation] * 3000, arrivals="poisson", service="exponential", seed=3)
    bench.run(3000.0)
    assert bench.system.latency.mean_s == pytest.approx(0.01 / (1 - utilisation), rel=0.06)


def test_m_m_4_waits_as_long_as_erlang_c() -> None:
    """With 4 servers at ρ = .8, Erlang's C is .5964: s + C·s/(4·.2) = .017455 s."""
    bench = Bench(line(0.01, replicas=(4, 4, 4)), *[320.0] * 600, arrivals="poisson", service="exponential", seed=4)
    bench.run(600.0)
    assert bench.system.latency.mean_s == pytest.approx(0.01 + 0.5964 * 0.01 / 0.8, rel=0.05)


def test_it_agrees_with_the_fluid_model_under_load() -> None:
    rates = [200.0, 900.0, 900.0, 100.0, 0.0, 0.0]
    topology = line(0.002, 0.004, replicas=(2, 2, 2))
    bench, clock = Bench(topology, *rates), ManualClock(50.0)
    fluid = FluidSystem(topology, rates, clock=clock)
    clock.sleep_s(6.0)
    for ours, theirs in zip(bench.run(6.0), fluid.collect(), strict=True):
        assert np.allclose(ours.processed, theirs.processed, atol=4)
        assert np.allclose(ours.queued, theirs.queued, atol=6)


def test_the_same_seed_gives_the_same_run_and_another_one_another() -> None:
    def latencies(seed: int) -> list[float | None]:
        bench = Bench(line(0.01, 0.008), *[80.0] * 20, seed=seed, arrivals="poisson", service="lognormal")
        return [step.latency_s for step in bench.run(20.0)]

    assert latencies(1) == latencies(1)
    assert latencies(1) != latencies(2)


def test_services_do_not_depend_on_the_policy() -> None:
    """The n-th tuple of an operator takes equally long whatever the replicas are."""
    first, second = (Bench(line(0.01, 0.01), *[50.0] * 10, service="exponential") for _ in range(2))
    second.plan(4, 3)
    busy_s = [sum(step.busy_s for step in bench.run(30.0)) for bench in (first, second)]
    assert np.allclose(busy_s[0], busy_s[1])


def test_the_clock_may_be_set_back() -> None:
    bench = Bench(line(0.01), *[10.0] * 5)
    assert len(bench.run(2.0)) == 2
    bench.clock.set_s(10.0)
    assert not bench.system.collect()


@pytest.mark.parametrize(
    ("values", "setting"),
    [
        ({"step_s": 0.0}, "simulation.step_s"),
        ({"queue": "random"}, "simulation.queue"),
        ({"queue_bound": 0}, "simulation.queue_bound"),
        ({"timeout_s": -1.0}, "simulation.timeout_s"),
        ({"service": "gamma"}, "simulation.service"),
        ({"base_latency_s": float("nan")}, "simulation.base_latency_s"),
        ({"workers": {"hosts": 2, "speeds": [1.0]}}, "simulation.workers"),
        ({"workers": {"hosts": 1, "failures": [{"host": 1}]}}, "simulation.workers"),
        ({"workers": {"failures": [{"host": 0, "from_s": 5.0, "to_s": 4.0}]}}, "simulation.workers.failures.0"),
        ({"keys": {"skew": -1.0}}, "simulation.keys.skew"),
        ({"restart": {"downtime_s": 0}}, "simulation.restart.downtime_s"),
        ({"micro_batch": {}, "queue": "replica"}, "simulation"),
        ({"micro_batch": {}, "timeout_s": 30.0}, "simulation"),
        ({"stepp_s": 1.0}, "simulation.stepp_s"),
    ],
)
def test_settings_that_make_no_sense_are_named(values: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validated(SimulationSettings, values, "simulation")
    assert caught.value.setting == setting


@pytest.mark.parametrize(
    ("rates", "settings", "setting"),
    [
        ({"out": trace(1.0)}, {}, "simulation.rates.in"),
        ([1.0, 2.0], {}, "simulation.rates.in"),
        (trace(1.0), {"keys": Keys(sensitive=("O9",))}, "simulation.keys.sensitive"),
    ],
)
def test_what_cannot_run_is_refused(rates: Any, settings: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SimulatedSystem(line(0.1), rates, clock=ManualClock(), settings=SimulationSettings(**settings))
    assert caught.value.setting == setting


def test_execution_times_must_be_declared() -> None:
    job = flow("unknown")
    job.source("in").operator("O1")
    with pytest.raises(ConfigError, match=r"operator 'O1': execution_s.*declare execution_s="):
        SimulatedSystem(job.build(), trace(1.0), clock=ManualClock())
