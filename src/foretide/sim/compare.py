"""Many policies on many traces over many seeds, side by side in separate processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from foretide.control.policies import STATIC_MIN, STATIC_PEAK, Policy
from foretide.control.settings import LoopSettings
from foretide.errors import ConfigError, ForetideError, PlanError
from foretide.plan.promise import Promise
from foretide.plan.registry import find_planner
from foretide.sim.fronts.clairvoyant import Future
from foretide.sim.fronts.promised import least_slot_seconds
from foretide.sim.options import SimulationOptions
from foretide.sim.outcome import SimulationReport
from foretide.sim.pasps_setup import PAPER_FORECASTERS, pasps_setup
from foretide.sim.processes import call_each
from foretide.sim.run import Input, Watch, check_duration, name_of, peak_replicas, simulate
from foretide.sim.settings import SimulationSettings
from foretide.sim.stress import Stress
from foretide.topology import Connector, Topology
from foretide.traces import RateTrace

__all__ = ["FORESEEN", "ROW", "Case", "Scenario", "bare", "calibrated", "plain", "run_cases"]

#: With a promise, the slot-seconds of the cheapest plan that knew the input and kept it, and those of the run ÷ them.
FORESEEN = ("clairvoyant_slot_seconds", "over_clairvoyant")
#: What a row of a comparison holds.
ROW = (
    "trace",
    "policy",
    "forecaster",
    "td",
    "seed",
    "stress",
    "saved",
    "latency_mean_ms",
    "latency_p99_ms",
    "processed",
    "degradation",
    "error_input",
    "error_replica",
    "changes",
    "slot_seconds",
    "slo",
    *FORESEEN,
)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """An input, what runs on it, and how it is measured: everything about a run except the policy and the seed.

    Parameters
    ----------
    trace : RateTrace, or mapping of source to RateTrace
        The input.
    topology : Topology
        What runs.
    settings : SimulationSettings
        The simulated system.
    loop : LoopSettings
        The control loop.
    r_over : float, optional
        The replicas that saved resources are measured against; what the peak needs by default.
    stress : Stress, optional
        What goes wrong.
    warm_up_s : float
        Metrics count from here on.
    warm_start : bool
        Whether a run begins with the replicas that the first rate needs.
    paper_window : int, optional
        How many observations the forecasters of PA-SPS look back on, if that is part of the set-up.
    promise : Promise, optional
        What is promised about latency: planners that take a promise keep it, and for all it is measured.
    """

    trace: Input
    topology: Topology
    loop: LoopSettings
    settings: SimulationSettings
    r_over: float | None = None
    stress: Stress | None = None
    warm_up_s: float = 30.0
    warm_start: bool = True
    paper_window: int | None = None
    promise: Promise | None = None

    def options(self, policy: Policy, seed: int, keep_decisions: bool = False) -> SimulationOptions:
        """Return the options of one run; by default one that keeps only metrics."""
        peak = peak_replicas(self.topology, self.trace).tolist()
        if self.promise is not None and _takes_promise(policy):
            policy = replace(policy, planner_settings={"slo": str(self.promise), **policy.planner_settings})
        return SimulationOptions(
            planner=policy.make_planner(self.topology, dict(zip(self.topology.layout.operators, peak, strict=True))),
            forecaster=policy.make_forecaster(**self._forecaster_defaults(policy.forecaster)),
            policy=policy.planner,
            loop=self.loop,
            settings=self.settings,
            seed=seed,
            stress=self.stress,
            warm_up_s=self.warm_up_s,
            warm_start=self.warm_start,
            r_over=self.r_over,
            keep_decisions=keep_decisions,
            promise=self.promise,
        )

    def _forecaster_defaults(self, forecaster: str | None) -> dict[str, Any]:
        # Results must not depend on when a model that trains in the background happens to be ready.
        in_line = {"background": False} if forecaster == "auto" else {}
        window = self.paper_window if forecaster in PAPER_FORECASTERS else None
        return in_line if window is None else {**in_line, "window": window}


@dataclass(frozen=True)
class Case:
    """One run of a comparison."""

    scenario: Scenario
    policy: Policy
    seed: int

    def run(self, watch: Watch | None = None, keep_decisions: bool = True) -> SimulationReport:
        """Simulate it."""
        options = self.scenario.options(self.policy, self.seed, keep_decisions)
        return simulate(self.scenario.topology, self.scenario.trace, options, watch=watch)

    def row(self) -> dict[str, Any]:
        """Simulate it, and return its row."""
        try:
            found = {**self.run(keep_decisions=False).row(), **dict.fromkeys(FORESEEN)}
            found |= self.foreseen(found["slot_seconds"])
        except ForetideError as error:
            where = f"{self.policy.label} on {name_of(self.scenario.trace)}, seed {self.seed}"
            raise PlanError(f"{where}: {error}") from error
        return {name: found[name] for name in ROW}

    def foreseen(self, slot_seconds: float) -> dict[str, float | None]:
        """Return what a plan that knew the input would need to keep the promise, and `slot_seconds` ÷ that."""
        promise, scenario = self.scenario.promise, self.scenario
        if promise is None:
            return dict.fromkeys(FORESEEN)
        options = scenario.options(self.policy, self.seed)
        least = least_slot_seconds(Future(scenario.topology, scenario.trace, options), promise)
        return dict(zip(FORESEEN, (least, None if least is None else slot_seconds / least), strict=True))


def _takes_promise(policy: Policy) -> bool:
    fixed = policy.planner in (STATIC_MIN, STATIC_PEAK)
    return not fixed and "slo" in find_planner(policy.planner).model_fields


def calibrated(trace: RateTrace, td_s: float, **changes: Any) -> Scenario:
    """Return the experiment of PA-SPS on this trace, as `pasps_setup` calibrates it; `changes` are fields to replace.

    >>> from foretide.traces import load_trace
    >>> scenario = calibrated(load_trace("pasps_dns"), td_s=5.0)
    >>> scenario.r_over, scenario.loop.sample_s, scenario.settings.base_latency_s
    (12, 5.0, 0.153)
    """
    setup = pasps_setup(trace)
    scenario = Scenario(
        trace=trace,
        topology=setup.topology,
        loop=setup.loop(td_s),
        settings=setup.settings(),
        r_over=setup.r_over,
        paper_window=setup.history,
    )
    return replace(scenario, **changes)


def plain(trace: Input, topology: Topology, td_s: float, **changes: Any) -> Scenario:
    """Return a scenario with the user's topology and defaults for everything else; `changes` are fields to replace.

    >>> from foretide.sim.pasps_setup import twitter_chain
    >>> plain(RateTrace("flat", 60, [10.0, 10.0]), twitter_chain(), td_s=0.5).loop.sample_s
    0.5
    """
    loop = LoopSettings(td_s=td_s, sample_s=min(LoopSettings().sample_s, td_s))
    return replace(Scenario(trace=trace, topology=bare(topology), loop=loop, settings=SimulationSettings()), **changes)


def bare(topology: Topology) -> Topology:
    """Return the topology without functions, which need not travel to other processes.

    >>> from foretide.topology import flow
    >>> job = flow("words")
    >>> _ = job.source("in").operator("count", len)
    >>> bare(job.build()).operators[0].function is None
    True
    """
    return replace(
        topology,
        sources=tuple(replace(source, connector=Connector()) for source in topology.sources),
        operators=tuple(operator.without_code() for operator in topology.operators),
        sinks=tuple(replace(sink, connector=Connector()) for sink in topology.sinks),
    )


def run_cases(
    cases: Sequence[Case], workers: int = 1, on_row: Callable[[int, Mapping[str, Any]], None] | None = None
) -> list[dict[str, Any]]:
    """Return the row of every case, in their order.

    Interrupting it (Ctrl-C) ends the processes and raises `KeyboardInterrupt`; a case that fails ends it likewise.

    Parameters
    ----------
    cases : sequence of Case
        What to run.
    workers : int
        Processes; with 1, all runs in this one.
    on_row : callable, optional
        Called with the number and the row of each finished case.

    Raises
    ------
    ConfigError
        When there is no case, or one cannot be set up: before anything runs.
    """
    if not cases:
        raise ConfigError("cases", expected="at least one run", got="none")
    for case in {(case.policy.label, id(case.scenario)): case for case in cases}.values():
        check_duration(case.scenario.trace, case.scenario.options(case.policy, case.seed))
    rows: dict[int, dict[str, Any]] = {}
    with closing(call_each(Case.row, cases, workers)) as done:
        for number, row in done:
            rows[number] = row
            if on_row is not None:
                on_row(number, row)
    return [rows[number] for number in range(len(cases))]
