"""How long a cycle of the control loop takes, and how near CBA comes to the cheapest timetable.

A cycle is `ControlLoop.run_cycle` from measurements to an applied plan: 30 measurements (one a second, td = 30 s) go
through the monitor, linear regression forecasts every source, PA-SPS plans, and an actuator that takes everything
takes it. Making the measurements is outside the time taken. Topologies are random DAGs with a fixed seed: every
operator has one to three predecessors among those before it, and shares that keep the load finite. The load changes
from cycle to cycle, so that plans do too.

The timetable of least cost (`optimal_timetable`) and that of CBA are computed for random load curves of 60 epochs
and up to 64 instances; the gap is what CBA costs more, in percent, with the prices of its paper and with others.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import Progress

from _harness import Measured, Ratio, Table, parse_options, report
from foretide.clock import ManualClock
from foretide.control import ControlLoop, LoopSettings, Parts
from foretide.forecast import Lr
from foretide.plan.cost import Costs, operator_costs
from foretide.plan.planners.cba import cba_timetable
from foretide.plan.planners.optimal import optimal_timetable
from foretide.plan.planners.pasps import PaSps
from foretide.records import Ints, Measurement, Plan
from foretide.topology import Edge, Operator, ReplicaBounds, Source, Topology

TD_S = 30.0
#: Milliseconds that a cycle over so many operators may take.
TARGETS_MS = {1_000: 20.0, 10_000: 250.0}
#: Milliseconds that the timetable of one operator may take.
TIMETABLE_TARGET_MS = 10.0
#: What time may grow by against operators + edges, as an exponent.
GROWTH_TARGET = 1.0
COSTS = {
    "the paper's": Costs(),
    "dear re-routing": Costs(reroute=10_000),
    "dear starts and stops": Costs(start=40_000, stop=40_000, reroute=10_000),
}


@dataclass(frozen=True)
class Setup:
    """What is measured."""

    operators: tuple[int, ...] = (10, 100, 1_000, 10_000)
    repeats: int = 30
    warm_up: int = 5
    epochs: int = 60
    instances: int = 64
    curves: int = 1_000
    seed: int = 20_240_501


QUICK = Setup(operators=(10, 100, 1_000), repeats=7, warm_up=2, curves=100)
SMOKE = Setup(operators=(5, 10, 20), repeats=1, warm_up=1, curves=20)


@dataclass(frozen=True)
class CycleFigure:
    """Time of one cycle over a topology."""

    operators: int
    edges: int
    times_ms: tuple[float, ...]


@dataclass(frozen=True)
class TimetableFigure:
    """Time of the cheapest timetable: of one operator alone, and each of many at once."""

    alone_ms: tuple[float, ...]
    many: int
    each_of_many_ms: float


@dataclass(frozen=True)
class GapFigure:
    """How much more CBA costs than the cheapest timetable, as a part of it."""

    costs: str
    curves: int
    mean: float
    worst: float
    exact: float


def random_topology(operators: int, seed: int) -> Topology:
    """Return a DAG in which every operator has 1-3 predecessors among those before it, or the source."""
    rng = np.random.default_rng(seed)
    edges = [Edge("in", "o0")]
    for number in range(1, operators):
        wanted = int(rng.integers(1, 4))
        before = rng.choice(number, size=min(wanted, number), replace=False)
        edges += [Edge(f"o{start}", f"o{number}") for start in np.sort(before)]
    declared = tuple(
        # A third of what it gets: with three predecessors on average two thirds of theirs, so loads fade, not explode.
        Operator(f"o{number}", selectivity={"out": float(rng.uniform(0.1, 0.4))}, replicas=ReplicaBounds(1, 64))
        for number in range(operators)
    )
    return Topology(f"random {operators}", (Source("in"),), declared, (), tuple(edges))


def measurements(topology: Topology, began_s: float, rate: float, rng: np.random.Generator) -> list[Measurement]:
    """Return one measurement a second of an interval in which every operator keeps up."""
    flow, share = topology.flow, topology.declared_share
    load = flow.propagate([rate], [0.0] * flow.operators, share)
    execution_s = 1e-4 + 1e-3 * (np.arange(flow.operators) % 7)
    found = []
    for second in range(1, int(TD_S) + 1):
        processed = load * rng.uniform(0.9, 1.1)
        at_start = np.concatenate(([rate], processed))[flow.starts]
        found.append(
            Measurement(
                layout=topology.layout,
                ended_at_s=began_s + second,
                duration_s=1.0,
                arrived=np.array([rate * rng.uniform(0.9, 1.1)]),
                passed=at_start * share,
                processed=processed,
                queued=processed * rng.uniform(0.0, 0.5),
                busy_s=processed * execution_s,
                replicas=topology.initial_replicas,
            )
        )
    return found


class PreparedSystem:
    """Hands over measurements made beforehand, and takes every plan."""

    def __init__(self) -> None:
        self.prepared: list[Measurement] = []
        self.plans = 0

    def collect(self) -> Sequence[Measurement]:
        """Return what was prepared."""
        return self.prepared

    def apply(self, plan: Plan) -> Ints:
        """Take the plan."""
        self.plans += 1
        return plan.replicas


def cycle_times_ms(topology: Topology, setup: Setup, on_step: Callable[[], None]) -> list[float]:
    rng, clock, system = np.random.default_rng(setup.seed), ManualClock(), PreparedSystem()
    parts = Parts(metrics=system, actuator=system, planner=PaSps(), forecaster=Lr(), clock=clock)
    loop = ControlLoop(topology, parts, LoopSettings(td_s=TD_S))
    times = []
    for cycle in range(setup.warm_up + setup.repeats):
        rate = 20_000.0 * (1.5 + np.sin(cycle / 3))
        system.prepared = measurements(topology, clock.now_s(), rate, rng)
        clock.sleep_s(TD_S)
        gc.collect()  # garbage of making measurements is not the cycle's
        start = time.perf_counter()
        decision = loop.run_cycle()
        times.append(1e3 * (time.perf_counter() - start))
        if decision.failure:
            raise RuntimeError(f"cycle {cycle} over {topology.name}: {decision.failure}")
        on_step()
    if system.plans < setup.repeats // 2:
        raise RuntimeError(f"{topology.name}: the load is to change plans, only {system.plans} were applied")
    return times[setup.warm_up :]


def cycle_figure(operators: int, setup: Setup, on_step: Callable[[], None]) -> CycleFigure:
    topology = random_topology(operators, setup.seed)
    return CycleFigure(operators, len(topology.layout.edges), tuple(cycle_times_ms(topology, setup, on_step)))


def growth(figures: Sequence[CycleFigure]) -> Ratio:
    """Return the exponents of time against operators + edges: slopes of lines through the logarithms of each repeat."""
    sizes = np.log([figure.operators + figure.edges for figure in figures])
    times = np.log([figure.times_ms for figure in figures])
    return Ratio(tuple(float(slope) for slope in np.polyfit(sizes, times, 1)[0]))


def load_curves(setup: Setup) -> npt.NDArray[np.int64]:
    """Return needs of shape (epochs, curves): noise, random walks, waves and spikes, a quarter of the curves each."""
    rng = np.random.default_rng(setup.seed)
    epochs, quarter, top = setup.epochs, setup.curves // 4, setup.instances
    noise = rng.uniform(1, top, (epochs, quarter))
    walks = np.cumsum(rng.normal(0, 3, (epochs, quarter)), axis=0) + rng.uniform(1, top, quarter)
    phase, period = rng.uniform(0, 2 * np.pi, quarter), rng.uniform(5, epochs, quarter)
    height = rng.uniform(2, top / 2, quarter)
    waves = height * (1 + np.sin(phase + 2 * np.pi * np.arange(epochs)[:, None] / period))
    waves += rng.normal(0, 1, waves.shape)
    spikes = rng.uniform(1, 8, quarter) + rng.uniform(10, top, (epochs, quarter)) * (
        rng.random((epochs, quarter)) < 0.1
    )
    curves = np.concatenate((noise, walks, waves, spikes), axis=1)
    return np.clip(np.ceil(curves), 1, top).astype(np.int64)


def timetable_figure(curves: npt.NDArray[np.int64], setup: Setup) -> TimetableFigure:
    # Every operator gets a peak at the most instances there may be: the largest table.
    needs = np.maximum(curves, setup.instances * (np.arange(setup.epochs) == setup.epochs // 2)[:, None])
    optimal_timetable(needs[:, 0], Costs())
    alone = [
        _elapsed_ms(lambda at=at: optimal_timetable(needs[:, at], Costs())) for at in range(min(100, setup.curves))
    ]
    together = [_elapsed_ms(lambda: optimal_timetable(needs, Costs())) for _ in range(5)]
    return TimetableFigure(
        alone_ms=tuple(alone),
        many=needs.shape[1],
        each_of_many_ms=float(np.median(together)) / needs.shape[1],
    )


def _elapsed_ms(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - start)


def gap_figures(curves: npt.NDArray[np.int64]) -> Iterator[GapFigure]:
    # Both start from what the first epoch needs, so that neither gets its first instances for nothing.
    initial = curves[0]
    for name, costs in COSTS.items():
        best = operator_costs(optimal_timetable(curves, costs, initial=initial), costs, initial)
        found = operator_costs(cba_timetable(curves, costs, initial), costs, initial)
        gaps = found / best - 1
        yield GapFigure(name, curves.shape[1], float(gaps.mean()), float(gaps.max()), float((gaps < 1e-9).mean()))


def measure(setup: Setup) -> tuple[list[CycleFigure], TimetableFigure, list[GapFigure]]:
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        cycles = []
        for operators in setup.operators:
            task = progress.add_task(f"{operators:,} operators", total=setup.warm_up + setup.repeats)
            cycles.append(cycle_figure(operators, setup, lambda task=task: progress.advance(task)))
        task = progress.add_task("timetables", total=2)
        curves = load_curves(setup)
        timetable = timetable_figure(curves, setup)
        progress.advance(task)
        gaps = list(gap_figures(curves))
        progress.advance(task)
    return cycles, timetable, gaps


def main() -> None:
    options = parse_options(__doc__)
    setup = options.size(Setup(), QUICK, SMOKE)
    cycles, timetable, gaps = measure(setup)
    lines = [
        Measured(f"a cycle over {figure.operators:,} operators, ms", "", "at most", target_ms, Ratio(figure.times_ms))
        for figure in cycles
        if (target_ms := TARGETS_MS.get(figure.operators)) is not None
    ]
    lines += [
        Measured("growth of a cycle, exponent", "operators + edges", "at most", GROWTH_TARGET, growth(cycles[-3:])),
        Measured("growth of a cycle, last decade", "operators + edges", "at most", GROWTH_TARGET, growth(cycles[-2:])),
        Measured("timetable of one operator, ms", "", "at most", TIMETABLE_TARGET_MS, Ratio(timetable.alone_ms)),
    ]
    intro = (
        "A cycle of the control loop goes from 30 measurements to an applied plan: monitor, linear regression, PA-SPS;"
        f" random DAGs, {setup.repeats} repeats. A timetable has {setup.epochs} epochs and up to {setup.instances}"
        f" instances; planned together, each of {timetable.many:,} takes {timetable.each_of_many_ms:.3f} ms."
    )
    tables = [
        Table(
            "A cycle of the control loop:",
            ["operators", "edges", "median ms", "p95 ms"],
            [
                [
                    f"{figure.operators:,}",
                    f"{figure.edges:,}",
                    f"{np.median(figure.times_ms):.2f}",
                    f"{np.percentile(figure.times_ms, 95):.2f}",
                ]
                for figure in cycles
            ],
        ),
        Table(
            f"What CBA costs more than the cheapest timetable, over {gaps[0].curves:,} random load curves:",
            ["prices", "mean gap", "worst gap", "curves at the optimum"],
            [[gap.costs, f"{gap.mean:.2%}", f"{gap.worst:.2%}", f"{gap.exact:.1%}"] for gap in gaps],
        ),
    ]
    details = {
        "setup": asdict(setup),
        "cycles": [asdict(figure) for figure in cycles],
        "timetable": asdict(timetable),
        "cba_gap": [asdict(gap) for gap in gaps],
    }
    report("planning", "Planning", lines, details, options, intro=intro, tables=tables, packages=["pydantic", "numba"])


if __name__ == "__main__":
    main()
