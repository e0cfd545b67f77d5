"""How many services per second the simulator gets through on one core, and how much memory a long run takes.

The topology is the four operators of PA-SPS's Twitter application, the input its smoothed trace: 59 million services
in 20 minutes. Every 5 s replicas follow the rate at a utilisation of .9, so that none waits for long; forecasting and
planning are left out, measurements are made as the control loop gets them. A bare first-in first-out loop, compiled by
numba too, is timed before each run, and the ratio is that of the two: it says what all the rest costs. Times are those
of the processor, since the simulator is one thread and the machine may do other things. Figures are medians.

Memory is the peak of a process of its own, for the trace and for the trace ten times over.

The micro-batch model is held against runs of the Twitter application on Spark, recorded with ``foretide run
twitter-detection --policy none --trace CSV --speed 1 --minutes 0.9 --json OUT`` at even rates: what a batch takes
beside its operators is read off the first run, and all are predicted with it. All recorded runs are shown. The one at
1,000 events/s was the first and the shortest (0.5 minutes): its 16 batches are mostly those in which Spark starts and
catches up, which the model knows nothing of. The machine was busy with other work throughout.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from statistics import median

import numba
import numpy as np
import numpy.typing as npt

from _harness import ROOT, Measured, Options, Ratio, Table, parse_options, report
from foretide.clock import ManualClock
from foretide.records import Plan
from foretide.sim import Keys, MicroBatch, SimulatedSystem, SimulationSettings
from foretide.topology import Topology, flow
from foretide.traces import RateTrace, load_trace

TRACE = "pasps_twitter_smoothed"
EXECUTION_S = (0.178e-3, 0.290e-3, 0.232e-3, 0.253e-3)
TARGET_PER_S = 40e6
TD_S = 5.0
DATA = ROOT / "benchmarks" / "data"
NOTES = {500: " (calibrated on)", 1_500: "", 1_000: " (30 s, mostly start-up)"}
#: Events per second of the recorded runs, the one to calibrate on first.
RECORDED = (500, 1_500, 1_000)


@dataclass(frozen=True)
class Case:
    """One way to simulate, and the part of the trace that is enough to time it."""

    name: str
    settings: SimulationSettings
    seconds: float = 1_200.0
    grouping: str = "shuffle"
    complex: bool = False


CASES = (
    Case("evenly spaced arrivals, constant services", SimulationSettings()),
    Case("Poisson arrivals, constant services", SimulationSettings(arrivals="poisson")),
    Case("lognormal services", SimulationSettings(service="lognormal")),
    Case("exponential services", SimulationSettings(service="exponential")),
    Case("timeout and bounded queues (P7)", SimulationSettings(queue_bound=100_000, timeout_s=30.0)),
    Case("eight operators, split and joined", SimulationSettings(), 600.0, complex=True),
    Case("a queue per replica, shuffle", SimulationSettings(queue="replica"), 300.0),
    Case("a queue per replica, OSG, Zipf values", SimulationSettings(queue="replica", keys=Keys()), 300.0, "osg:value"),
    Case("micro-batches", SimulationSettings(micro_batch=MicroBatch()), 600.0),
)


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    name: str
    services: int
    services_per_s: tuple[float, ...]
    ratios: tuple[float, ...]


def twitter(case: Case) -> Topology:
    """Return the topology of a case: four operators in a row, or eight with two branches."""
    job = flow("twitter")
    stream = job.source("tweets")
    if case.complex:
        first = stream.operator("filter", execution_s=EXECUTION_S[0], replicas=(1, 30))
        kinds = first.operator(
            "kind",
            execution_s=EXECUTION_S[1],
            replicas=(1, 30),
            outputs=("news", "opinion"),
            selectivity={"news": 0.6, "opinion": 0.4},
        )
        ends = []
        for branch in ("news", "opinion"):
            one = kinds[branch].operator(f"{branch}-1", execution_s=EXECUTION_S[2], replicas=(1, 30))
            ends.append(one.operator(f"{branch}-2", execution_s=EXECUTION_S[3], replicas=(1, 30)))
        joined = job.operator("join", inputs=ends, execution_s=EXECUTION_S[0], replicas=(1, 30))
        joined.operator("store", execution_s=EXECUTION_S[1], replicas=(1, 30))
        return job.build()
    for number, seconds in enumerate(EXECUTION_S):
        stream = stream.operator(f"O{number}", execution_s=seconds, replicas=(1, 30), grouping=case.grouping)
    return job.build()


def simulate(case: Case, trace: RateTrace, seconds: float) -> int:
    """Simulate so many seconds and return how many services that were."""
    topology, clock = twitter(case), ManualClock()
    system = SimulatedSystem(topology, trace, clock=clock, settings=case.settings)
    share = topology.flow.propagate([1.0], np.zeros(len(topology.operators)), topology.declared_share)
    for _ in range(int(seconds / TD_S)):
        rate = float(trace.rates[min(int(clock.now_s() / trace.bin_s), trace.rates.size - 1)])
        wanted = np.maximum(1, np.ceil(rate * share * topology.declared_execution_s / 0.9)).astype(np.int64)
        system.apply(Plan(layout=topology.layout, planner="rate", made_at_s=clock.now_s(), replicas=wanted))
        clock.sleep_s(TD_S)
        system.collect()
    assert system.totals.conserved, system.totals
    return sum(totals.processed for totals in system.operator_totals.values())


@numba.njit(cache=False)
def bare_fifo(arrivals_s: npt.NDArray[np.float64], service_s: float, departures_s: npt.NDArray[np.float64]) -> float:
    free_s = 0.0
    for row in range(arrivals_s.size):
        free_s = max(arrivals_s[row], free_s) + service_s
        departures_s[row] = free_s
    return free_s


def bare_rate() -> float:
    """Return the services per second of a loop that does nothing else: one server, used for .9 of the time."""
    arrivals_s = np.cumsum(np.random.default_rng(1).exponential(1.0, 12_000))
    departures_s = np.empty_like(arrivals_s)
    rounds = 500
    bare_fifo(arrivals_s, 0.9, departures_s)
    begun = time.process_time()
    for _ in range(rounds):
        bare_fifo(arrivals_s, 0.9, departures_s)
    return rounds * arrivals_s.size / (time.process_time() - begun)


def timed(work: Callable[[], int]) -> tuple[int, float]:
    begun = time.process_time()
    done = work()
    return done, done / (time.process_time() - begun)


def figures(repeats: int, scale: float) -> Iterator[Figure]:
    trace = load_trace(TRACE)
    bare = []
    for case in CASES:
        simulate(case, trace, 30.0)  # compiles, or loads what was compiled before
        rates, ratios, services = [], [], 0
        for _ in range(repeats):
            bare.append(bare_rate())
            services, rate = timed(lambda case=case: simulate(case, trace, case.seconds * scale))
            rates.append(rate)
            ratios.append(rate / bare[-1])
        yield Figure(case.name, services, tuple(rates), tuple(ratios))
    yield Figure("a bare loop", 0, tuple(bare), (1.0,))


def peak_mib(times: int) -> float:
    """Return the most memory that a simulation of the trace so many times over takes, in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--memory", str(times)], check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def print_peak(times: int) -> None:
    trace = load_trace(TRACE)
    longer = RateTrace(trace.name, trace.bin_s, np.tile(trace.rates, times))
    simulate(CASES[0], longer, 1_200.0 * times)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


@dataclass(frozen=True)
class BatchFigure:
    """A recorded run on Spark, and what the model says of it."""

    events_per_s: int
    batches_per_s: float
    batches_per_s_predicted: float
    p50_s: float
    p50_s_predicted: float


def batch_figures() -> Iterator[BatchFigure]:
    runs = [json.loads((DATA / f"micro_batches_{rate}.json").read_text(encoding="utf-8")) for rate in RECORDED]
    first = runs[0]
    work_s = sum(operator["busy_s"] for operator in first["operators"].values())
    fixed_s = (first["measured_s"] - work_s / len(first["operators"])) / first["batches"]
    settings = SimulationSettings(micro_batch=MicroBatch(fixed_s=fixed_s, per_task_s=0.0), step_s=0.01)
    for rate, run in zip(RECORDED, runs, strict=True):
        job, clock = flow("recorded"), ManualClock()
        stream = job.source("in")
        for name, operator in run["operators"].items():
            stream = stream.operator(name, execution_s=operator["execution_ms"] / 1e3, replicas=1)
        trace = RateTrace("even", bin_s=1.0, rates=np.full(60, float(rate)))
        system = SimulatedSystem(job.build(), trace, clock=clock, settings=settings)
        clock.sleep_s(trace.duration_s)
        batches = sum(bool(step.processed[0]) for step in system.collect())
        measured = run["batches"] / run["measured_s"]
        predicted = batches / trace.duration_s
        yield BatchFigure(rate, measured, predicted, run["latency"]["p50"], system.latency.quantile_s(0.5))


def batches_table(lines: list[BatchFigure]) -> Table:
    rows = [
        [
            f"{line.events_per_s:,} events/s{NOTES[line.events_per_s]}",
            f"{line.batches_per_s:.2f}",
            f"{line.batches_per_s_predicted:.2f}",
            f"{line.p50_s * 1e3:.0f}",
            f"{line.p50_s_predicted * 1e3:.0f}",
        ]
        for line in lines
    ]
    about = "Micro-batches beside all runs recorded on Spark, on a busy machine; only the first run was calibrated on:"
    return Table(about, ["recorded on Spark", "batches/s", "predicted", "p50 ms", "predicted"], rows)


def speed_table(lines: list[Figure], memory: dict[str, float]) -> Table:
    rows = [
        [
            line.name,
            f"{line.services / 1e6:.1f}" if line.services else "",
            f"{median(line.services_per_s) / 1e6:.0f}",
            str(Ratio(line.ratios)) if len(line.ratios) > 1 else "",
        ]
        for line in lines
    ]
    peaks = ", ".join(f"{mib:.0f} MiB for {name}" for name, mib in memory.items())
    about = f"Peak memory of the process: {peaks}. Services of all ways to simulate:" if peaks else ""
    return Table(about, ["simulated", "M services", "M services/s", "of a bare loop"], rows)


def main() -> None:
    if "--memory" in sys.argv:
        print_peak(int(sys.argv[-1]))
        return
    options = parse_options(__doc__)
    write(options, list(figures(options.repeats, options.size(1.0, quick=0.1, smoke=0.001))))


def write(options: Options, lines: list[Figure]) -> None:
    """Write the tables, with the memory and the batches that belong to them."""
    memory = {} if options.smoke else {f"{1_200 * times:,} s": peak_mib(times) for times in (1, 10)}
    batches = list(batch_figures())
    intro = (
        "Services per second of processor time, on one core, on the four-operator Twitter topology, replicas following"
        " the rate every 5 s; the ratio is to a bare FIFO loop timed just before."
    )
    speed = Ratio(tuple(rate / 1e6 for rate in lines[0].services_per_s))
    report(
        "simulator",
        "Simulator",
        [Measured("million services a second, evenly spaced arrivals", "", "at least", TARGET_PER_S / 1e6, speed)],
        {
            "trace": TRACE,
            "results": [asdict(line) for line in lines],
            "peak_mib": memory,
            "micro_batches": [asdict(line) for line in batches],
        },
        options,
        intro=intro,
        tables=[speed_table(lines, memory), batches_table(batches)],
        packages=["numba"],
    )


if __name__ == "__main__":
    main()
