"""How long a cycle of the control loop takes, and how near CBA comes to the cheapest timetable.

Run ``python benchmarks/planning.py [--json OUT] [--markdown OUT] [--quick]``.

A cycle is `ControlLoop.run_cycle` from measurements to an applied plan: 30 measurements (one a second, td = 30 s) go
through the monitor, linear regression forecasts every source, PA-SPS plans, and an actuator that takes everything
takes it. Making the measurements is outside the time taken. Topologies are random DAGs with a fixed seed: every
operator has one to three predecessors among those before it, and shares that keep the load finite. The load changes
from cycle to cycle, so that plans do too.

The timetable of least cost (`optimal_timetable`) and that of CBA are computed for random load curves of 60 epochs
and up to 64 instances; the gap is what CBA costs more, in percent, with the prices of its paper and with others.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import Progress

from _report import machine_facts, markdown_table, write_json, write_section
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
    median_ms: float
    p95_ms: float
    target_ms: float | None


@dataclass(frozen=True)
class TimetableFigure:
    """Time of the cheapest timetable: of one operator alone, and each of many at once."""

    alone_median_ms: float
    alone_p95_ms: float
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
    times = cycle_times_ms(topology, setup, on_step)
    return CycleFigure(
        operators=operators,
        edges=len(topology.layout.edges),
        median_ms=float(np.median(times)),
        p95_ms=float(np.percentile(times, 95)),
        target_ms=TARGETS_MS.get(operators),
    )


def growth(figures: Sequence[CycleFigure]) -> float:
    """Return the exponent of time against operators + edges: the slope of a line through the logarithms."""
    sizes = np.log([figure.operators + figure.edges for figure in figures])
    times = np.log([figure.median_ms for figure in figures])
    return float(np.polyfit(sizes, times, 1)[0])


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
        alone_median_ms=float(np.median(alone)),
        alone_p95_ms=float(np.percentile(alone, 95)),
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


@dataclass(frozen=True)
class Results:
    """All figures."""

    setup: Setup
    cycles: list[CycleFigure]
    timetable: TimetableFigure
    gaps: list[GapFigure]

    @property
    def growth(self) -> float:
        """The exponent over the upper decades: the three largest topologies."""
        return growth(self.cycles[-3:])

    @property
    def growth_at_the_top(self) -> float:
        """The exponent between the two largest topologies."""
        return growth(self.cycles[-2:])

    def to_data(self) -> dict[str, Any]:
        """Return the figures with their setup, targets and machine."""
        return {
            "setup": asdict(self.setup),
            "machine": machine_facts("pydantic", "numba"),
            "cycles": [asdict(figure) for figure in self.cycles],
            "growth": {
                "upper_decades": self.growth,
                "last_decade": self.growth_at_the_top,
                "target": GROWTH_TARGET,
            },
            "timetable": {**asdict(self.timetable), "target_ms": TIMETABLE_TARGET_MS},
            "cba_gap": [asdict(figure) for figure in self.gaps],
        }


def measure(setup: Setup) -> Results:
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
    return Results(setup, cycles, timetable, gaps)


def as_markdown(results: Results) -> str:
    setup, timetable = results.setup, results.timetable
    facts = machine_facts("pydantic")
    versions = ", ".join(f"{name} {facts[name]}" for name in ("numpy", "pydantic"))
    cycles = markdown_table(
        ["operators", "edges", "median ms", "p95 ms", "target ms"],
        [
            [
                f"{figure.operators:,}",
                f"{figure.edges:,}",
                f"{figure.median_ms:.2f}",
                f"{figure.p95_ms:.2f}",
                f"{figure.target_ms:.0f}" if figure.target_ms else "",
            ]
            for figure in results.cycles
        ],
    )
    gaps = markdown_table(
        ["prices", "mean gap", "worst gap", "curves at the optimum"],
        [[g.costs, f"{g.mean:.2%}", f"{g.worst:.2%}", f"{g.exact:.1%}"] for g in results.gaps],
    )
    return f"""## Planning

`python benchmarks/planning.py` on {facts["cores"]} cores ({facts["processor"]}), Python {facts["python"]}, {versions}.

### A cycle of the control loop

From 30 measurements to an applied plan: monitor, linear regression, PA-SPS; random DAGs, {setup.repeats} repeats.

{cycles}

Time grows with (operators + edges)^{results.growth:.2f} over the upper decades, ^{results.growth_at_the_top:.2f} in the
last one (target: at most {GROWTH_TARGET:g}).

### Timetables

{setup.epochs} epochs, up to {setup.instances} instances (target: {TIMETABLE_TARGET_MS:g} ms an operator). The cheapest
timetable takes {timetable.alone_median_ms:.2f} ms for one operator (p95 {timetable.alone_p95_ms:.2f}) and
{timetable.each_of_many_ms:.3f} ms for each of {timetable.many:,} planned together. What CBA costs more than the
optimum, over {results.gaps[0].curves:,} random load curves:

{gaps}
"""


def missed(results: Results) -> list[str]:
    """Return every target that was not met, in words."""
    found = [
        f"{figure.operators:,} operators: {figure.median_ms:.1f} ms, target {figure.target_ms:g} ms"
        for figure in results.cycles
        if figure.target_ms is not None and figure.median_ms > figure.target_ms
    ]
    if results.growth > GROWTH_TARGET:
        found.append(f"growth exponent {results.growth:.2f}, target {GROWTH_TARGET:g}")
    if results.timetable.alone_median_ms > TIMETABLE_TARGET_MS:
        found.append(f"timetable: {results.timetable.alone_median_ms:.1f} ms, target {TIMETABLE_TARGET_MS:g} ms")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures, their setup and the machine to this file")
    parser.add_argument("--markdown", type=Path, help="write the section `planning` of this Markdown file")
    parser.add_argument("--quick", action="store_true", help="fewer repeats and smaller topologies, to try it out")
    parser.add_argument("--smoke", action="store_true", help="the shortest run there is, as in the tests")
    options = parser.parse_args()
    results = measure(SMOKE if options.smoke else QUICK if options.quick else Setup())
    text = as_markdown(results)
    print(text, end="")
    if options.json:
        write_json(options.json, results.to_data())
    if options.markdown:
        write_section(options.markdown, "planning", text)
    for line in missed(results):
        print(f"target missed: {line}", file=sys.stderr)
    return 1 if missed(results) else 0


if __name__ == "__main__":
    sys.exit(main())
