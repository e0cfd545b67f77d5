"""Work that needs every kernel: small runs of forecasters, planners, groupings and the simulator, and networks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from foretide import _numba
from foretide.clock import ManualClock
from foretide.forecast import Auto, Series, make_forecaster
from foretide.forecast.deep.weights import GATES, Weights
from foretide.grouping import GROUPINGS, CountMin, HashFamily, Osg, OsgTask, make_grouping
from foretide.health.models.kernels import gru_layer, sigmoid_layer
from foretide.plan.promise import parse_promise
from foretide.sim import Keys, MicroBatch, SimulatedSystem, SimulationSettings, Workers, simulate
from foretide.sim.fronts.clairvoyant import Future, Metric
from foretide.sim.fronts.promised import least_slot_seconds
from foretide.sim.options import SimulationOptions
from foretide.topology import Topology, flow
from foretide.traces import RateTrace

__all__ = ["WORK", "count_files", "kernels"]

_RATES = 100 + 50 * np.sin(np.arange(80) / 6)
#: Between them, these need every way in which events arrive, are split, queued and served.
_SIMULATIONS: tuple[dict[str, Any], ...] = (
    {},
    {"arrivals": "poisson", "routing": "random", "service": "exponential"},
    {"queue": "replica", "keys": Keys(count=8), "queue_bound": 50, "timeout_s": 2.0},
    {"service": "lognormal", "workers": Workers(hosts=2, speeds=(1.0, 0.5)), "queue_bound": 50, "timeout_s": 2.0},
    {"micro_batch": MicroBatch()},
)


def kernels() -> list[Callable[..., object]]:
    """Return all kernels of the modules that are loaded."""
    loaded = [vars(module) for name, module in sorted(sys.modules.items()) if name.startswith("foretide.")]
    found = {id(value): value for names in loaded for value in names.values() if _numba.is_kernel(value)}
    return list(found.values())


def count_files() -> int:
    """Return how many files of machine code there are, one for each kernel and signature."""
    return sum(len(_numba.cached_files(kernel)) for kernel in kernels())


def _forecast() -> None:
    for name in ("auto", "kalman", "ses", "holt-damped", "theta", "ets"):
        make_forecaster(name).fit(Series(_RATES)).predict(3)
    Auto().predict_many(np.tile(_RATES, (2, 1)), 3)


def _run_networks() -> None:
    rows = np.ones((2, 4), dtype=np.float32)
    for cell, gates in GATES.items():
        shapes = {
            "input": (1, 2, 3 * gates),
            "recurrent": (1, 3, 3 * gates),
            "bias": (1, 1, 3 * gates),
            "reset_bias": (1, 1, 3),
            "output": (3, 1),
            "output_bias": (1,),
        }
        arrays = {name: np.zeros(shape) for name, shape in shapes.items()}
        Weights.from_arrays("gru" if cell == "gru" else "lstm", False, arrays).forward(rows)
    square, bias = np.zeros((4, 4), dtype=np.float32), np.zeros(4, dtype=np.float32)
    wide, gate_bias = np.zeros((4, 12), dtype=np.float32), np.zeros(12, dtype=np.float32)
    sigmoid_layer(gru_layer(rows, wide, wide, gate_bias), square, bias)


def _group() -> None:
    keys = np.arange(12, dtype=np.int64) % 3
    for name in GROUPINGS:
        make_grouping(name, 3).assign(keys)
    counts = CountMin(HashFamily.for_precision())
    counts.add(keys)
    counts.estimate(keys)
    counts.family.buckets(keys)
    scheduler = Osg(2)
    for task in range(2):
        worker, due = OsgTask(task, scheduler.family, window=4), None
        while due is None:
            due = worker.executed_many(keys, np.full(len(keys), 0.1))
        scheduler.learn(task, due)
    for _ in range(2):
        scheduler.assign(keys)
        scheduler.assign_together(keys)
    with suppress(ImportError):  # without PyArrow there are no columns
        from foretide.grouping import hash_columns

        hash_columns([np.arange(3), np.array(["a", "b", "c"])])


def _topology() -> Topology:
    """Return a source, an operator with two outputs, one for each, and one that joins them."""
    job = flow("warm-up")
    first = job.source("in").operator(
        "split", outputs=("a", "b"), selectivity={"a": 0.7, "b": 0.3}, execution_s=0.02, replicas=(1, 4, 2)
    )
    left = first["a"].operator("left", execution_s=0.004, replicas=(1, 4))
    right = first["b"].operator("right", execution_s=0.004, replicas=(1, 4))
    job.operator("join", inputs=[left, right], grouping="load-aware", execution_s=0.002, replicas=(1, 4))
    return job.build()


def _simulate() -> None:
    trace = RateTrace("warm-up", bin_s=1.0, rates=np.full(12, 100.0))
    for settings in _SIMULATIONS:
        clock = ManualClock(0.0)
        system = SimulatedSystem(_topology(), trace, clock=clock, settings=SimulationSettings(**settings))
        for _ in range(3):
            clock.sleep_s(2.0)
            system.collect()


def _plan() -> None:
    trace = RateTrace("warm-up", bin_s=1.0, rates=_RATES[:40])
    for batches in (None, MicroBatch()):
        settings = SimulationSettings(micro_batch=batches)
        simulate(_topology(), trace, planner="foretide", forecaster="auto", td_s=5.0, settings=settings)


def _foresee() -> None:
    given = {"planner": "static", "td_s": 2.0, "warm_up_s": 0.0}
    trace = RateTrace("warm-up", bin_s=1.0, rates=np.full(12, 100.0))
    for batches in (None, MicroBatch(trigger_s=0.5)):
        options = SimulationOptions.of({**given, "settings": SimulationSettings(micro_batch=batches)})
        metrics: tuple[Metric, ...] = ("p95", "mean")
        for metric in metrics:
            Future(_topology(), trace, options).foresee(metric, [5_000.0])
    job = flow("warm-up")
    job.source("in").operator("work", execution_s=0.01, replicas=(1, 4))
    least_slot_seconds(Future(job.build(), trace, options), parse_promise("p95<5s"))


WORK: tuple[Callable[[], None], ...] = (_forecast, _run_networks, _group, _simulate, _plan, _foresee)
"""All the work there is."""
