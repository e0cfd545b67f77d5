"""What holds for every simulation: no event is lost or made up, and the same seed gives the same run."""

from __future__ import annotations

from typing import Any

import numpy as np
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from foretide.clock import ManualClock
from foretide.records import Plan
from foretide.sim import Failure, Keys, MicroBatch, Restart, SimulatedSystem, SimulationSettings, Workers
from foretide.topology import Topology, flow
from foretide.traces import RateTrace

GROUPINGS = ("shuffle", "fields:k", "partial-key:k", "load-aware", "dynamic", "osg:k", "all", "global", "direct:k")
RATES = st.lists(st.sampled_from([0.0, 0.3, 7.0, 40.0, 150.0]), min_size=4, max_size=8)
SHARES = st.sampled_from([0.0, 0.25, 0.7, 1.0, 1.0, 1.0, 1.5, 2.0])


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Return a DAG of one or two sources and up to five operators, each fed by any elements before it."""
    job = flow("drawn")
    streams = [job.source(f"S{number}") for number in range(draw(st.integers(1, 2)))]
    fed: set[int] = set()
    sources = len(streams)
    for number in range(draw(st.integers(1, 5))):
        # Sources that feed nothing yet come first, as each of them must feed something.
        inputs = {number} if number < sources else {draw(st.integers(0, len(streams) - 1))}
        inputs |= draw(st.sets(st.integers(0, len(streams) - 1), max_size=2))
        fed |= inputs
        outputs = draw(st.sampled_from([("out",), ("a", "b")]))
        stream = job.operator(
            f"O{number}",
            inputs=[streams[place] for place in sorted(inputs)],
            grouping=draw(st.sampled_from(GROUPINGS)),
            outputs=outputs,
            selectivity={output: draw(SHARES) for output in outputs},
            execution_s=draw(st.sampled_from([0.001, 0.013, 0.2, 1.3])),
            replicas=(1, 4, draw(st.integers(1, 4))),
        )
        streams.append(stream[draw(st.sampled_from(outputs))])
    for source in set(range(sources)) - fed:
        streams[source].into("O0")
    return job.build()


WORKERS = st.builds(
    Workers,
    hosts=st.just(2),
    speeds=st.sampled_from([(), (1.0, 0.5)]),
    failures=st.lists(
        st.builds(
            Failure,
            host=st.integers(0, 1),
            from_s=st.sampled_from([0.0, 1.5]),
            to_s=st.sampled_from([None, 3.2]),
            factor=st.sampled_from([None, 10.0]),
        ),
        max_size=2,
    ).map(tuple),
)
PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "step_s": st.sampled_from([0.4, 1.0, 2.0]),
    "arrivals": st.sampled_from(["deterministic", "poisson"]),
    "routing": st.sampled_from(["deterministic", "random"]),
    "service": st.sampled_from(["constant", "exponential", "lognormal"]),
    "activation_s": st.sampled_from([0.0, 1.0]),
    "keys": st.none() | st.just(Keys(count=20)),
    "restart": st.none() | st.builds(Restart, downtime_s=st.sampled_from([0.3, 2.5]), loses=st.booleans()),
}
SETTINGS = st.one_of(
    st.fixed_dictionaries({}, optional=PLAIN),
    st.fixed_dictionaries(
        {},
        optional={
            **PLAIN,
            "queue": st.sampled_from(["operator", "replica"]),
            "queue_bound": st.sampled_from([None, 1, 20]),
            "timeout_s": st.sampled_from([None, 0.5, 3.0]),
            "workers": st.none() | WORKERS,
        },
    ),
    st.fixed_dictionaries(
        {"micro_batch": st.builds(MicroBatch, fixed_s=st.sampled_from([0.0, 0.3]), cores=st.sampled_from([None, 1]))},
        optional=PLAIN,
    ),
).map(lambda values: SimulationSettings(**values))
PLANS = st.lists(st.lists(st.integers(1, 4), min_size=5, max_size=5), max_size=4)


class Run:
    """A simulation whose plans are applied one by one."""

    def __init__(self, topology: Topology, rates: list[float], chosen: SimulationSettings, seed: int) -> None:
        self.topology, self.clock, self.step_s = topology, ManualClock(), chosen.step_s
        trace = RateTrace("drawn", bin_s=1.0, rates=np.array(rates))
        self.system = SimulatedSystem(topology, trace, clock=self.clock, settings=chosen, seed=seed)
        self.passed = np.zeros(len(topology.layout.edges))

    def apply(self, replicas: list[int]) -> None:
        count = len(self.topology.operators)
        plan = Plan(layout=self.topology.layout, planner="drawn", made_at_s=0.0, replicas=np.array(replicas[:count]))
        self.system.apply(plan)

    def step(self) -> tuple[Any, ...]:
        """Live through one step and return all that can be seen of it."""
        self.clock.sleep_s(self.step_s)
        (step,) = self.system.collect()
        self.passed += step.passed
        columns = (step.arrived, step.passed, step.processed, step.queued, step.busy_s, step.replicas)
        return (*(column.tolist() for column in columns), step.latency_s, self.system.totals)


@given(topologies(), RATES, SETTINGS, PLANS, st.integers(0, 5))
@examples(1.2)
def test_events_are_conserved_at_every_step(
    topology: Topology, rates: list[float], chosen: SimulationSettings, plans: list[list[int]], seed: int
) -> None:
    run = Run(topology, rates, chosen, seed)
    for replicas in [*plans, *[None] * 4]:
        if replicas:
            run.apply(replicas)
        run.step()
        assert run.system.totals.conserved
        for totals in run.system.operator_totals.values():
            assert totals.conserved
            assert min(totals) >= 0
        reached = topology.flow.received(run.passed)
        assert reached.tolist() == [totals.received for totals in run.system.operator_totals.values()]


@given(topologies(), RATES, SETTINGS, PLANS, st.integers(0, 5))
@examples(0.6)
def test_the_same_seed_gives_the_same_run(
    topology: Topology, rates: list[float], chosen: SimulationSettings, plans: list[list[int]], seed: int
) -> None:
    first, second = (Run(topology, rates, chosen, seed) for _ in range(2))
    for replicas in [*plans, None, None]:
        if replicas:
            first.apply(replicas)
            second.apply(replicas)
        assert first.step() == second.step()
    assert first.system.latency.mean_s == second.system.latency.mean_s or not first.system.latency.count


@given(topologies(), RATES, PLANS)
@examples(0.4)
def test_the_general_loop_agrees_with_the_quick_one(
    topology: Topology, rates: list[float], plans: list[list[int]]
) -> None:
    """A bound and an age that nothing reaches change the code that runs, and nothing else."""
    quick = Run(topology, rates, SimulationSettings(), 0)
    general = Run(topology, rates, SimulationSettings(queue_bound=10**9, timeout_s=1e9), 0)
    # A host that fails long after the end makes every arrival be looked at.
    careful = SimulationSettings(workers=Workers(failures=(Failure(host=0, from_s=1e6, factor=None),)))
    slowest = Run(topology, rates, careful, 0)
    for replicas in [*plans, None, None, None]:
        for run in (quick, general, slowest):
            if replicas:
                run.apply(replicas)
        seen = quick.step()
        for other in (general.step(), slowest.step()):
            assert other[:4] == seen[:4]
            assert np.allclose(other[4], seen[4])
            assert other[-1] == seen[-1]
