"""The runs behind a front: a policy at every setting of its knobs, and plans that know the future."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from pydantic import ConfigDict

from foretide.config import validated
from foretide.control.policies import STATIC_MIN, STATIC_PEAK, Policy
from foretide.errors import ConfigError, ForetideError, PlanError
from foretide.plan import Guarded, GuardSettings, Planner, Situation, find_planner, standard_guards
from foretide.plan.knobs import Scale, with_grids
from foretide.records import Plan, Term
from foretide.sim.compare import Scenario
from foretide.sim.fronts.clairvoyant import Future, Metric, Timetable
from foretide.sim.fronts.kept import KeptRows
from foretide.sim.fronts.remembered import Remembered
from foretide.sim.options import SimulationOptions
from foretide.sim.outcome import SimulationReport
from foretide.sim.processes import call_each
from foretide.sim.run import check_duration, name_of, peak_replicas, simulate
from foretide.traces import RateTrace

__all__ = ["CLAIRVOYANT", "Foreseen", "Trial", "check_input", "run_trials", "trials_of"]

#: What the plan that knows the future is called among policies.
CLAIRVOYANT = "clairvoyant"
_LATENCIES = ("latency_mean_ms", "latency_p95_ms", "latency_p99_ms")


class Trial(Protocol):
    """A run that gives one row."""

    @property
    def seed(self) -> int:
        """The seed of everything random."""
        ...

    @property
    def names(self) -> dict[str, Any]:
        """Trace and its events, policy, seed and knob: what a run is known by."""
        ...

    def check(self) -> None:
        """Raise a `ConfigError` if it cannot be set up."""
        ...

    def row(self) -> dict[str, Any]:
        """Simulate it, and return its row."""
        ...


@dataclass(frozen=True, kw_only=True)
class PolicyTrial:
    """A policy at one setting of a knob.

    `knob` is the setting as the grid has it; `planner_settings` and `guards` are what it stands for.
    """

    scenario: Scenario
    policy: Policy
    knob: Mapping[str, Any]
    planner_settings: Mapping[str, Any]
    guards: Mapping[str, Any]
    seed: int

    @property
    def names(self) -> dict[str, Any]:
        """What it is known by."""
        return _names(self.scenario, self.policy.label, self.seed, self.knob)

    def check(self) -> None:
        """Raise a `ConfigError` if it cannot be set up."""
        check_duration(self.scenario.trace, self._options())

    def row(self) -> dict[str, Any]:
        """Simulate it, and return its row."""
        return _row(self.names, self.scenario, self._options())

    def _options(self) -> SimulationOptions:
        settings = {**self.policy.planner_settings, **self.planner_settings}
        options = self.scenario.options(replace(self.policy, planner_settings=settings), self.seed)
        planner = options.planner
        if self.guards:
            guards = validated(GuardSettings, self.guards, f"guards of {self.policy.label}")
            planner = Guarded(planner, standard_guards(guards))
        # A forecast depends on the input alone, which is the same for every setting.
        known = options.forecaster and Remembered.of(options.forecaster)
        return replace(options, planner=planner, forecaster=known)


@dataclass(frozen=True, kw_only=True)
class Foreseen:
    """The cheapest plan that knows the future and keeps a limit, and the bound for all plans that keep it."""

    scenario: Scenario
    metric: Metric
    limit_ms: float
    seed: int

    @property
    def names(self) -> dict[str, Any]:
        """What it is known by; its knob is the limit."""
        return _names(self.scenario, CLAIRVOYANT, self.seed, {"limit_ms": self.limit_ms})

    def check(self) -> None:
        """Raise a `ConfigError` if it cannot be set up."""
        check_duration(self.scenario.trace, self._options)

    def row(self) -> dict[str, Any]:
        """Find the plan, simulate it, and return its row; without latencies where no plan keeps the limit."""
        scenario = self.scenario
        [found] = Future(scenario.topology, scenario.trace, self._options).foresee(self.metric, [self.limit_ms])
        peak = float(peak_replicas(scenario.topology, scenario.trace).sum())
        bound = found.bound / peak if np.isfinite(found.bound) else None
        if found.timetable is None:
            empty = dict.fromkeys(("cost", *_LATENCIES, "processed", "changes"))
            return {**self.names, **empty, "bound": bound}
        planner = FromTimetable(timetable=found.timetable)
        return {**_row(self.names, scenario, replace(self._options, planner=planner)), "bound": bound}

    @cached_property
    def _options(self) -> SimulationOptions:
        return self.scenario.options(Policy(STATIC_PEAK), self.seed)


class FromTimetable(Planner):
    """Asks for what a timetable says."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: ClassVar[str] = CLAIRVOYANT
    summary: ClassVar[str] = "the cheapest plan that knows what will arrive"
    spec: ClassVar[tuple[str, ...]] = ()
    by_stage: ClassVar[bool] = True

    timetable: Timetable

    def plan(self, situation: Situation) -> Plan:
        """Return the replicas of the interval that begins when the plan is active."""
        counts = self.timetable.at(situation.now_s)
        terms = (Term("r*", "replicas of the timetable", "known in advance", counts.astype(np.float64)),)
        if situation.stages is not None:
            demand = counts.astype(np.float64)
            return self.decide_slots(situation, situation.stages.slots(counts), terms, demand=demand)
        return self.decide(situation, counts, terms)


def trials_of(
    scenario: Scenario, policies: Sequence[Policy], seeds: int, grids: Mapping[str, Mapping[str, Sequence[Any]]]
) -> list[PolicyTrial]:
    """Return a run for every seed, policy and setting of its knobs; a policy without a knob has one setting.

    Parameters
    ----------
    scenario : Scenario
        What is simulated.
    policies : sequence of Policy
        Who plans.
    seeds : int
        How many there are.
    grids : mapping of str to mapping
        Values in place of a planner's own, by its name and the name of the setting.

    Raises
    ------
    ConfigError
        When a policy has no such knob.
    """
    topology = scenario.topology
    peak = peak_replicas(topology, scenario.trace).tolist()
    scale = Scale(
        td_s=scenario.loop.td_s,
        execution_s=float(np.mean(topology.declared_execution_s)),
        peak=dict(zip(topology.layout.operators, peak, strict=True)),
        least_p95_s=_least_p95_s(scenario),
    )
    return [
        PolicyTrial(scenario=scenario, policy=policy, knob=knob, planner_settings=planner, guards=guards, seed=seed)
        for seed in range(seeds)
        for policy in policies
        for knob, planner, guards in _settings(policy, grids.get(policy.planner, {}), scale)
    ]


def _settings(
    policy: Policy, grids: Mapping[str, Sequence[Any]], scale: Scale
) -> list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    fixed = policy.planner in (STATIC_MIN, STATIC_PEAK)
    knobs = with_grids(policy.planner, () if fixed else find_planner(policy.planner).knobs, grids)
    found = [(point, *knob.settings(point, scale)) for knob in knobs if knob.suits(scale) for point in knob.points()]
    return found or [({}, {}, {})]


def _least_p95_s(scenario: Scenario) -> float | None:
    """Return the .95 quantile of latencies that nothing can avoid in batches; None without them."""
    batches = scenario.settings.micro_batch
    if batches is None:
        return None
    least_s = Future(scenario.topology, scenario.trace, scenario.options(Policy(STATIC_PEAK), 0)).least_latency_s
    return least_s + 0.95 * max(batches.trigger_s, least_s - scenario.settings.base_latency_s)


def check_input(scenario: Scenario) -> None:
    """Raise a `ConfigError` if nothing arrives in the part that counts: without input all plans are alike."""
    trace, from_s, traces = scenario.trace, scenario.warm_up_s, _traces(scenario)
    if not any(rates.total_events for rates in traces):
        raise ConfigError(f"trace {name_of(trace)!r}", expected="at least one event", got="a rate of 0 throughout")
    if not any(rates.total_events > rates.events_by(from_s) for rates in traces):
        raise ConfigError(
            f"trace {name_of(trace)!r}",
            expected=f"events after the warm-up of {from_s:g} s, which are what a front measures",
            got="none",
            remedy="take a longer trace or a shorter --warm-up",
        )


def run_trials(
    trials: Sequence[Trial],
    workers: int = 1,
    on_row: Callable[[int, Mapping[str, Any]], None] | None = None,
    kept: KeptRows | None = None,
) -> list[dict[str, Any]]:
    """Return the row of every run, in their order; as `foretide.sim.compare.run_cases` does.

    Runs whose rows are kept are not made again; the others are kept as they are made.

    Raises
    ------
    ConfigError
        When there is no run, or one cannot be set up: before anything runs.
    """
    if not trials:
        raise ConfigError("trials", expected="at least one run", got="none")
    for trial in trials:
        if trial.seed == 0:
            trial.check()
    rows: dict[int, dict[str, Any]] = {}
    for number, trial in enumerate(trials):
        if kept is not None and (row := kept.find(trial.names)) is not None:
            rows[number] = row
            if on_row is not None:
                on_row(number, row)
    left = [number for number in range(len(trials)) if number not in rows]
    with closing(call_each(_row_of, [trials[number] for number in left], workers)) as done:
        for place, row in done:
            number = left[place]
            rows[number] = row
            if kept is not None:
                kept.add(row)
            if on_row is not None:
                on_row(number, row)
    return [rows[number] for number in range(len(trials))]


def _row_of(trial: Trial) -> dict[str, Any]:
    return trial.row()


def _names(scenario: Scenario, policy: str, seed: int, knob: Mapping[str, Any]) -> dict[str, Any]:
    events = sum(rates.total_events for rates in _traces(scenario))
    return {"trace": name_of(scenario.trace), "events": events, "policy": policy, "seed": seed, "knob": dict(knob)}


def _traces(scenario: Scenario) -> list[RateTrace]:
    return [scenario.trace] if isinstance(scenario.trace, RateTrace) else list(scenario.trace.values())


def _row(names: dict[str, Any], scenario: Scenario, options: SimulationOptions) -> dict[str, Any]:
    try:
        report = simulate(scenario.topology, scenario.trace, options)
    except ForetideError as error:
        raise PlanError(f"{names['policy']} on {names['trace']}, seed {names['seed']}: {error}") from error
    return {**names, **_measured(report, scenario)}


def _measured(report: SimulationReport, scenario: Scenario) -> dict[str, Any]:
    data, metrics = report.metrics.to_data(), report.metrics
    peak = float(peak_replicas(scenario.topology, scenario.trace).sum())
    return {
        "cost": metrics.r_over * (1.0 - metrics.saved) / peak,
        **{name: data[name] for name in _LATENCIES},
        "processed": data["processed"],
        "changes": data["changes"],
    }
