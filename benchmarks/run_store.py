"""What recording a run costs: time on the thread of the control loop, CPU in all, bytes, and rows per second.

A topology of 50 operators in a line is measured once a second and decided upon every 30 s (a plan with ten terms for
every operator, a forecast of 30 steps with two quantiles); four workers and one machine give all their features every
5 s, as in a run, and the latencies of each second are kept. An hour of that goes through a `RunRecorder` as fast as it
takes it: the time of a call is what the loop waits. CPU is measured apart, over minutes that are written second by
second.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from _harness import Measured, Ratio, Table, parse_options, report
from foretide.control import Decision
from foretide.health.features import MACHINE_NAMES, WORKER_NAMES, machine_sample, worker_sample
from foretide.latency import LatencyHistogram
from foretide.records import Action, Forecast, Layout, Measurement, Plan, Term, Window
from foretide.store import FeatureSample, RunRecorder, RunSpec, RunStore, StoreSettings
from foretide.store.databases.sqlite import SqliteDatabase
from foretide.topology import Topology, flow

TD_S = 30
FEATURES_S = 5
#: Part of a core that recording may take.
CPU_TARGET = 0.01


@dataclass(frozen=True)
class Setup:
    """What is measured."""

    operators: int = 50
    seconds: int = 3_600
    workers: int = 4
    seed: int = 20_240_501


@dataclass(frozen=True)
class Figures:
    """What came out.

    Parameters
    ----------
    call_us, call_p99_us : float
        What the thread of the loop spends to hand over a second's records.
    cpu_ms_per_s : tuple of float
        CPU for a second of a run that keeps pace with the clock: records handed over, encoded and written by one
        transaction each second; of every repeat.
    rows, rows_per_s : float
        Rows in all, and how many the writer wrote per second.
    bytes_per_measurement, mb_per_hour : float
        Room taken in the file.
    read_ms : float
        Reading the last minute of measurements and the plan in force from another connection.
    """

    call_us: float
    call_p99_us: float
    cpu_ms_per_s: tuple[float, ...]
    rows: int
    rows_per_s: float
    bytes_per_measurement: float
    mb_per_hour: float
    read_ms: float


def line(operators: int) -> Topology:
    job = flow("line")
    stream = job.source("in")
    for number in range(operators):
        stream = stream.operator(f"operator{number}", execution_s=0.001, replicas=(1, 16))
    return job.build()


def measurements(layout: Layout, setup: Setup) -> Iterator[Measurement]:
    random = np.random.default_rng(setup.seed)
    for second in range(1, setup.seconds + 1):
        counts = random.poisson(1_000, setup.operators).astype(float)
        yield Measurement(
            layout=layout,
            ended_at_s=float(second),
            duration_s=1.0,
            arrived=counts[:1],
            passed=counts,
            processed=counts,
            queued=random.poisson(20, setup.operators).astype(float),
            busy_s=counts * 0.001 * random.lognormal(0, 0.05, setup.operators),
            replicas=random.integers(1, 4, setup.operators),
            latency_s=float(random.lognormal(-2, 0.2)),
        )


def decision(layout: Layout, cycle: int, random: np.random.Generator) -> Decision:
    at_s, many = float(cycle * TD_S), len(layout.operators)
    column = random.lognormal(0, 1, many)
    replicas = random.integers(1, 8, many)
    empty = {"arrival_rates": np.empty((0, 1)), "received_rates": np.empty((0, many))}
    columns = dict.fromkeys(("received", "processed", "queued", "share", "execution_s", "utilisation"), column)
    window = Window(
        layout=layout,
        ended_at_s=at_s,
        duration_s=float(TD_S),
        sample_s=1.0,
        **empty,
        arrived=column[:1],
        **columns,
        replicas=replicas,
        measurement_ids=tuple(f"measurement@{at_s - second:.3f}" for second in range(TD_S)),
    )
    rates = random.lognormal(7, 0.1, TD_S)
    forecast = Forecast(
        series="in",
        model="auto",
        made_at_s=at_s,
        step_s=1.0,
        mean=rates,
        quantiles={0.5: rates, 0.9: 1.1 * rates},
        weights={"ses": 0.7, "theta": 0.3},
    )
    terms = tuple(Term(f"x{n}", "one of its terms", "P5 Eq. 3: x = y + z", column * n, "events") for n in range(10))
    plan = Plan(layout=layout, planner="pasps", made_at_s=at_s, replicas=replicas, terms=terms)
    action = Action(
        plan_id=plan.id, at_s=at_s, status="applied", planned=replicas, requested=replicas, observed=replicas
    )
    return Decision(cycle=cycle, at_s=at_s, window=window, forecasts={"in": forecast}, plan=plan, action=action)


def features(at_s: float, setup: Setup, random: np.random.Generator) -> list[FeatureSample]:
    workers = [
        worker_sample(at_s, f"executor-{number}", "host", random.lognormal(0, 1, len(WORKER_NAMES)))
        for number in range(setup.workers)
    ]
    return [*workers, machine_sample(at_s, "host", random.lognormal(0, 1, len(MACHINE_NAMES)))]


@dataclass(frozen=True)
class Second:
    """What one second of a run hands over."""

    measurement: Measurement
    latency: LatencyHistogram
    decision: Decision | None
    features: list[FeatureSample]

    @property
    def rows(self) -> int:
        """How many rows that makes."""
        return 2 + len(self.features) + (2 if self.decision else 0)

    def record(self, recorder: RunRecorder) -> None:
        """Hand it over."""
        recorder.measured([self.measurement])
        recorder.latencies(self.measurement.ended_at_s, 1.0, self.latency)
        if self.decision is not None:
            recorder.decided(self.decision)
        if self.features:
            recorder.features(self.features)


def seconds_of(topology: Topology, setup: Setup) -> list[Second]:
    random = np.random.default_rng(setup.seed + 1)
    found = []
    for second, measurement in enumerate(measurements(topology.layout, setup), 1):
        latency = LatencyHistogram()
        latency.add(random.lognormal(-2, 0.5, 20), np.full(20, 50))
        decided = decision(topology.layout, second // TD_S, random) if second % TD_S == 0 else None
        seen = features(float(second), setup, random) if second % FEATURES_S == 0 else []
        found.append(Second(measurement, latency, decided, seen))
    return found


def measure(setup: Setup, repeats: int) -> Figures:
    topology = line(setup.operators)
    seconds = seconds_of(topology, setup)
    rows = sum(second.rows for second in seconds)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        with RunStore(path, StoreSettings(queue=1_000_000, queue_mb=4_096)) as store:
            recorder = store.begin_run(RunSpec(topology=topology, started_at_s=0.0))
            recorder.flush()
            calls, began = [], time.perf_counter()
            for second in seconds:
                before = time.perf_counter()
                second.record(recorder)
                calls.append(time.perf_counter() - before)
            assert recorder.flush(600.0), "not all was written"
            wall_s = time.perf_counter() - began
            size = stored_bytes(path)
            before = time.perf_counter()
            run = store.run("latest")
            assert len(run.measurements(since_s=setup.seconds - 60)) == 60 and run.latest_plan() is not None
            read_s = time.perf_counter() - before
            measurement_bytes = measured_bytes(topology, seconds[:500], folder)
    return Figures(
        call_us=round(1e6 * float(np.median(calls)), 1),
        call_p99_us=round(1e6 * float(np.quantile(calls, 0.99)), 1),
        cpu_ms_per_s=tuple(1e3 * paced_cpu_s(topology, seconds[:300]) for _ in range(repeats)),
        rows=rows,
        rows_per_s=round(rows / wall_s),
        bytes_per_measurement=round(measurement_bytes),
        mb_per_hour=round(size / 2**20 * 3_600 / setup.seconds, 2),
        read_ms=round(1e3 * read_s, 2),
    )


def paced_cpu_s(topology: Topology, seconds: list[Second]) -> float:
    """Return the CPU time of a second whose records are written before the next one's come."""
    with tempfile.TemporaryDirectory() as folder, RunStore(Path(folder) / "runs.db", threaded=False) as store:
        recorder = store.begin_run(RunSpec(topology=topology, started_at_s=0.0))
        recorder.flush()
        began = time.process_time()
        for second in seconds:
            second.record(recorder)
            recorder.flush()
        return (time.process_time() - began) / len(seconds)


def stored_bytes(path: Path) -> int:
    """Return what is stored, the part in the write-ahead log included."""
    connection = SqliteDatabase(path).connect()
    try:
        return connection.size_bytes()
    finally:
        connection.close()


def measured_bytes(topology: Topology, seconds: list[Second], folder: str) -> float:
    """Return what a measurement takes in a store that holds nothing else."""
    path = Path(folder) / "measurements.db"
    with RunStore(path, threaded=False) as alone:
        recorder = alone.begin_run(RunSpec(topology=topology, started_at_s=0.0))
        recorder.flush()
        empty = stored_bytes(path)
        recorder.measured(second.measurement for second in seconds)
        recorder.finish()
        return (stored_bytes(path) - empty) / len(seconds)


def main() -> None:
    options = parse_options(__doc__)
    setup = options.size(Setup(), quick=Setup(seconds=300), smoke=Setup(seconds=60))
    figures = measure(setup, options.repeats)
    intro = (
        f"{setup.operators} operators measured once a second, a decision every {TD_S} s, {len(WORKER_NAMES)} features"
        f" of each of {setup.workers} workers and {len(MACHINE_NAMES)} of a machine every {FEATURES_S} s:"
        f" {figures.rows:,} rows for {setup.seconds:,} s of a run."
    )
    table = Table(
        "",
        ["what", "measured"],
        [
            ["handing over a second's records, median µs (p99)", f"{figures.call_us:g} ({figures.call_p99_us:g})"],
            ["rows written per second", f"{figures.rows_per_s:,.0f}"],
            ["bytes for a measurement", f"{figures.bytes_per_measurement:,.0f}"],
            ["MB for an hour of everything", f"{figures.mb_per_hour:g}"],
            ["reading the last minute and the plan in force, ms", f"{figures.read_ms:g}"],
        ],
    )
    cpu = Ratio(figures.cpu_ms_per_s)
    lines = [Measured("CPU for a second of the run, ms", "", "at most", 1e3 * CPU_TARGET, cpu)]
    details = {"setup": asdict(setup), "figures": asdict(figures)}
    report("run_store", "Store of runs", lines, details, options, intro=intro, tables=[table], packages=[])


if __name__ == "__main__":
    main()
