"""A model of workers that disturb one another, for recorded runs that are longer than anyone wants to wait for.

An hour of features like those that an application leaves on a machine of two cores: three workers share the cores with
a hog that comes and goes. What is modelled follows from what a machine does; all other features are drawn from a
recorded run, so that a network has as much to ignore as on a real machine.

Time goes on second by second:

- the hog is on or off (a Markov chain, 45 seconds on and 90 off on average), and comes and goes within seconds;
- events arrive at the rate of the application's trace, in shares that wander;
- a worker demands cores for its new and its waiting events; where all demand exceeds the cores, each gets its part;
- what is not served waits: queueing time is a base, and longer by the crowding and by the backlog;
- sending takes a base, and longer by the crowding;
- the machine shows the total demand.

Features are what a collector sees every `STEP_S` seconds: means over the step, but for what is a level at its end, such
as the number of processes that run. Each has noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from foretide.health.dataset import MachineTable, to_tables
from foretide.health.features import MACHINE_NAMES, WORKER_NAMES
from foretide.records import Floats
from foretide.store import FeatureSample
from foretide.traces import load_trace

__all__ = ["MACHINES", "STEP_S", "SharedMachine", "simulate_features"]

STEP_S = 10.0
_MOST_BACKLOG_S = 60.0


@dataclass(frozen=True)
class SharedMachine:
    """A machine and what runs on it.

    Parameters
    ----------
    trace : str
        The trace whose rates arrive.
    load : float
        Cores that all events demand on average.
    service_s : float
        Seconds of a core that one event takes.
    queueing_ms, sending_ms : float
        Base times.
    cores, workers : int
        How many.
    """

    trace: str
    load: float
    service_s: float
    queueing_ms: float = 400.0
    sending_ms: float = 2.0
    cores: int = 2
    workers: int = 3


#: The two applications of the paper (SPEC I7).
MACHINES: Mapping[str, SharedMachine] = {
    "url-count": SharedMachine("pasps_logs", load=0.9, service_s=0.0002, queueing_ms=450.0, sending_ms=3.0),
    "continuous-queries": SharedMachine("pasps_dns", load=0.7, service_s=0.0004),
}


def simulate_features(
    machine: SharedMachine, recorded: Sequence[FeatureSample], seed: int, minutes: float = 60.0
) -> MachineTable:
    """Return the features of a simulated run.

    Parameters
    ----------
    machine : SharedMachine
        What runs.
    recorded : sequence of FeatureSample
        Of a real run: what features look like that the model says nothing about.
    seed : int
        Of all that is random.
    minutes : float
        How long.
    """
    draw = np.random.default_rng(seed)
    steps = round(minutes * 60 / STEP_S)
    base = next(iter(to_tables(recorded, STEP_S).values()))
    machine_values = base.machine_values[_blocks(draw, len(base), steps)]
    worker_values = np.stack(
        [
            base.worker_values[_blocks(draw, len(base), steps), worker % len(base.workers)]
            for worker in range(machine.workers)
        ],
        axis=1,
    )
    for step, seen in enumerate(_steps(_run(draw, machine, round(steps * STEP_S)))):
        _write(machine_values[step], MACHINE_NAMES, _machine_side(draw, machine, seen))
        for worker in range(machine.workers):
            _write(worker_values[step, worker], WORKER_NAMES, _worker_side(draw, machine, seen, worker))
    ends: Floats = np.arange(1, steps + 1, dtype=np.float64) * STEP_S
    return MachineTable("model", tuple(map(str, range(machine.workers))), ends, machine_values, worker_values)


@dataclass(frozen=True, eq=False)
class _Seconds:
    """What happened second by second; the latter four also by worker."""

    demand: Floats
    crowding: Floats
    load: Floats
    arrived: Floats
    got: Floats
    served: Floats
    backlog: Floats

    def part(self, first: int, last: int) -> _Seconds:
        return _Seconds(*(getattr(self, each.name)[first:last] for each in fields(self)))


def _steps(seconds: _Seconds) -> Iterator[_Seconds]:
    size = round(STEP_S)
    for first in range(0, len(seconds.demand), size):
        yield seconds.part(first, first + size)


def _run(draw: np.random.Generator, machine: SharedMachine, seconds: int) -> _Seconds:
    hog, arrived = _hog(draw, seconds, machine.cores), _arrivals(draw, machine, seconds)
    totals, by_worker = np.zeros((3, seconds)), np.zeros((3, seconds, machine.workers))
    backlog, load = np.zeros(machine.workers), 0.0
    for second in range(seconds):
        wanted = (arrived[second] + backlog) * machine.service_s
        wanted_in_all = float(wanted.sum() + hog[second])
        crowding = max(1.0, wanted_in_all / machine.cores)
        served = wanted / crowding / machine.service_s
        backlog = np.minimum(backlog + arrived[second] - served, arrived[second] * _MOST_BACKLOG_S)
        load += (wanted_in_all - load) / 60.0
        totals[:, second] = wanted_in_all, crowding, load
        by_worker[:, second] = wanted / crowding, served, backlog
    demands, crowdings, loads = totals
    return _Seconds(demands, crowdings, loads, arrived, *by_worker)


def _hog(draw: np.random.Generator, seconds: int, cores: int) -> Floats:
    """Return the hog's demand, in cores."""
    found, target, demand = np.zeros(seconds), 0.0, 0.0
    for second in range(seconds):
        if target == 0.0 and draw.random() < 1 / 90.0:
            target = float(draw.uniform(0.5, 1.5) * cores)
        elif target > 0.0 and draw.random() < 1 / 45.0:
            target = 0.0
        demand += 0.3 * (target - demand)
        found[second] = demand
    return found


def _arrivals(draw: np.random.Generator, machine: SharedMachine, seconds: int) -> Floats:
    """Return events per second, over seconds and workers."""
    trace = load_trace(machine.trace)
    rates = np.repeat(np.asarray(trace.rates, dtype=np.float64), round(trace.bin_s))
    scaled = np.resize(rates / rates.mean(), seconds) * machine.load / machine.service_s
    wander = np.cumsum(draw.normal(0, 0.005, (seconds, machine.workers)), axis=0)
    shares = np.exp(wander - wander.mean(axis=0))
    shares /= shares.sum(axis=1, keepdims=True)
    found: Floats = scaled[:, None] * shares * draw.lognormal(0, 0.1, shares.shape)
    return found


def _machine_side(draw: np.random.Generator, machine: SharedMachine, seen: _Seconds) -> dict[str, float]:
    busy = float(np.minimum(1.0, seen.demand / machine.cores).mean())
    stalled = float((1 - 1 / seen.crowding).mean())
    return {
        "cpu_user": 100 * busy * draw.normal(0.9, 0.02),
        "cpu_idle": 100 * max(0.0, 1 - busy) * draw.normal(1.0, 0.02),
        "cpu_system": 100 * busy * abs(draw.normal(0.1, 0.02)),
        "running": float(draw.poisson(4 * seen.demand[-1])) / 4,
        "load1": float(seen.load[-1]),
        "pressure_cpu": max(0.0, 100 * stalled + draw.normal(0, 2)),
        "switches": 2_000 * (1 + float(seen.demand.mean())) * draw.lognormal(0, 0.1),
    }


def _worker_side(draw: np.random.Generator, machine: SharedMachine, seen: _Seconds, worker: int) -> dict[str, float]:
    crowding = float(seen.crowding.mean())
    waiting_ms = 1_000 * float((seen.backlog[:, worker] / np.maximum(seen.arrived[:, worker], 1.0)).mean())
    return {
        "cpu": 100 * float(seen.got[:, worker].mean()) * draw.lognormal(0, 0.03) + 8 + abs(draw.normal(0, 1.0)),
        "cpu_wait": max(0.0, 40 * (crowding - 1) + draw.normal(0, 4)),
        "inbound_rate": float(seen.served[:, worker].mean()),
        "execution_ms": machine.service_s * 1_000 * crowding * draw.lognormal(0, 0.05),
        "queueing_ms": machine.queueing_ms * (1 + 0.5 * (crowding - 1)) * draw.lognormal(0, 0.05) + waiting_ms,
        "sending_ms": machine.sending_ms * (1 + 1.5 * (crowding - 1)) * draw.lognormal(0, 0.1),
    }


def _write(row: Floats, names: Sequence[str], values: Mapping[str, float]) -> None:
    for name, value in values.items():
        row[names.index(name)] = value


def _blocks(draw: np.random.Generator, length: int, steps: int) -> np.ndarray:
    """Return places of a recorded run, in stretches of ten steps from anywhere: neighbours stay neighbours."""
    starts = draw.integers(0, max(1, length - 10), -(-steps // 10))
    places: np.ndarray = np.minimum((starts[:, None] + np.arange(10)).ravel()[:steps], length - 1)
    return places
