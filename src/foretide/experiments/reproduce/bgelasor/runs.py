"""The runs behind BGElasor's figures 4 and 5: one day of a load, four planners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np
from pydantic import Field

from foretide.experiments.reproduce.bgelasor.long_traces import long_trace, traces_folder
from foretide.experiments.reproduce.contract import Scope
from foretide.forecast import Auto, Forecaster, Series, make_forecaster
from foretide.plan import make_planner
from foretide.plan.cost import Costs, operator_costs, timetable_cost
from foretide.plan.planners.cba import cba_timetable
from foretide.plan.planners.optimal import optimal_timetable
from foretide.plan.planners.spea import spea_timetable
from foretide.plan.planners.srea import srea_timetable
from foretide.records import Floats, Ints
from foretide.sim import SimulationSettings, simulate
from foretide.topology import Topology, flow
from foretide.traces import RateTrace

__all__ = ["HORIZON", "PLANNERS", "DayJob", "DayOutcome", "PlannerDay"]

#: The planners, in the order of the figures.
PLANNERS = ("srea", "spea", "cba", "optimal")
#: Epochs that CBA and the optimum look ahead.
HORIZON = 12
_COSTS = Costs()
# The test period begins with day 50; each seed takes a day of it.
_FIRST_DAY, _DAY_S, _TRAIN_DAYS = 50, 86_400.0, 14
# Instances that the load's 99th percentile keeps busy; the paper prints no capacity.
_BUSY_AT_PEAK, _POOL = 10.0, 60
# Counts of millions are scaled to this many events a second at that percentile: queues look the same, only finer.
_RATE_AT_PEAK = 100.0
_STEP_S = 30.0


class Foreseen(Forecaster):
    """Forecasts that were computed beforehand: the n-th is given once n values are known."""

    name: ClassVar[str] = "foreseen"
    summary: ClassVar[str] = "forecasts made beforehand"
    spec: ClassVar[tuple[str, ...]] = ("B1",)

    paths: tuple[tuple[float, ...], ...] = Field(description="The forecast after one value, after two, and so on.")

    def forecast_mean(self, values: Floats, horizon: int) -> Floats:
        """Look it up; the last value is repeated past its end."""
        path = np.array(self.paths[min(self._seen, len(self.paths)) - 1])
        return path[np.minimum(np.arange(horizon), path.size - 1)]


@dataclass(frozen=True, eq=False)
class PlannerDay:
    """How a planner did on a day: its instances and latency by epoch, and its cost."""

    instances: Ints
    latency_ms: Floats
    costs: Floats
    cost: float
    changes: int
    latency_mean_ms: float
    latency_p99_ms: float
    short: float


@dataclass(frozen=True, eq=False)
class DayOutcome:
    """A day under every planner.

    Parameters
    ----------
    needs : array of int over epochs
        The instances that the actual load needed.
    planners : mapping of str to PlannerDay
        Steered by forecasts.
    known : mapping of str to float
        What the timetables cost that know the whole day beforehand.
    error : float
        MAPE of the forecast one epoch ahead.
    """

    needs: Ints
    planners: Mapping[str, PlannerDay]
    known: Mapping[str, float]
    error: float


@dataclass(frozen=True)
class DayJob:
    """One day of a load, forecast and steered by four planners."""

    load: str
    day: int
    folder: Path | None
    first_s: float = _DAY_S
    forecaster: str = Auto.name

    @classmethod
    def for_scope(cls, scope: Scope, load: str) -> tuple[DayJob, ...]:
        """Return the days of a load, one per seed; a scope that is not whole has the first quarter of each."""
        folder = traces_folder(scope.traces)
        first_s = _DAY_S if scope.whole else _DAY_S / 4
        return tuple(cls(load, seed, folder, first_s) for seed in scope.numbers)

    @property
    def label(self) -> str:
        """Load and day."""
        return f"{self.load} load, day {_FIRST_DAY + self.day}"

    @property
    def cost(self) -> float:
        """Seconds that it takes."""
        return 25.0 * self.first_s / _DAY_S

    def run(self) -> DayOutcome:
        """Forecast the day, and simulate every planner on it."""
        series = long_trace(self.load, self.folder)
        per_day = round(_DAY_S / series.step_s)
        # Ten days of test data: the same ones are reused if more are needed.
        first = (_FIRST_DAY + (self.day - 1) % 10) * per_day
        epochs = round(self.first_s / series.step_s)
        past = series.values[first - _TRAIN_DAYS * per_day : first]
        unit = float(np.quantile(past, 0.99)) / _RATE_AT_PEAK
        rates = series.values[first : first + epochs] / unit
        paths = _forecasts(self.forecaster, Series(past / unit, series.step_s), rates)
        came = rates * _BUSY_AT_PEAK / _RATE_AT_PEAK
        needs = np.clip(np.ceil(came - 1e-9), 1, _POOL).astype(np.int64)
        error = float(np.mean(np.abs(paths[:-1, 0] - rates[1:]) / np.maximum(rates[1:], 1e-9)))
        trace = RateTrace(self.load, series.step_s, rates)
        planners = {name: _steered(name, trace, paths, self.day) for name in PLANNERS}
        return DayOutcome(needs, planners, _known(needs), error)


def _forecasts(name: str, past: Series, rates: Floats) -> Floats:
    """Return the forecast of the next epochs after each epoch of the day."""
    # Results must not depend on when a model that trains in the background happens to be ready.
    model = (Auto(background=False) if name == Auto.name else make_forecaster(name)).fit(past)
    paths = []
    for rate in rates:
        model.update([float(rate)])
        paths.append(model.predict(HORIZON, levels=()).mean)
    return np.array(paths)


def _steered(name: str, trace: RateTrace, paths: Floats, seed: int) -> PlannerDay:
    settings = {"horizon": HORIZON, "costs": _COSTS} if name in ("cba", "optimal") else {}
    report = simulate(
        _one_operator(float(trace.rates[0])),
        trace,
        planner=make_planner(name, **settings),
        forecaster=Foreseen(paths=tuple(map(tuple, paths.tolist()))),
        td_s=trace.bin_s,
        sample_s=trace.bin_s,
        settings=SimulationSettings(step_s=_STEP_S, arrivals="poisson"),
        seed=seed,
        warm_up_s=0.0,
        warm_start=False,
    )
    rows = round(trace.bin_s / _STEP_S)
    instances = report.course.replicas[:, 0].reshape(-1, rows)[:, -1]
    waits = report.course.latency_s["mean"].reshape(-1, rows)
    capacity = instances * _RATE_AT_PEAK / _BUSY_AT_PEAK
    metrics = report.metrics
    return PlannerDay(
        instances=instances,
        latency_ms=1e3 * np.nan_to_num(waits).mean(axis=1),
        costs=_running_costs(instances),
        cost=timetable_cost(instances, _COSTS),
        changes=int(np.count_nonzero(np.diff(instances))),
        latency_mean_ms=metrics.latency_mean_ms,
        latency_p99_ms=metrics.latency_p99_ms,
        short=float(np.mean(capacity < trace.rates)),
    )


def _running_costs(instances: Ints) -> Floats:
    """Return the cost up to and including each epoch."""
    first = operator_costs(instances[:1], _COSTS)[0]
    steps = [float(timetable_cost(pair, _COSTS)) - _COSTS.running * pair[0] for pair in pairwise(instances)]
    return np.cumsum([float(first), *steps])


def _one_operator(first_rate: float) -> Topology:
    job = flow("datadock")
    job.source("in").operator("work", execution_s=_BUSY_AT_PEAK / _RATE_AT_PEAK, replicas=(1, _POOL)).sink("out")
    topology = job.build()
    [operator] = topology.operators
    initial = int(np.clip(np.ceil(first_rate * _BUSY_AT_PEAK / _RATE_AT_PEAK), 1, _POOL))
    started = replace(operator, replicas=replace(operator.replicas, initial=initial))
    return replace(topology, operators=(started,))


def _known(needs: Ints) -> dict[str, float]:
    timetables = {
        "srea": srea_timetable(needs),
        "spea": spea_timetable(needs),
        "cba": cba_timetable(needs, _COSTS),
        "optimal": optimal_timetable(needs, _COSTS),
    }
    return {name: timetable_cost(timetable, _COSTS) for name, timetable in timetables.items()}
