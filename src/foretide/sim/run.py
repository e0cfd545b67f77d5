"""One run in simulated time: a trace, a topology, and the control loop that steers it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from foretide.clock import ManualClock
from foretide.control.decision import Decision
from foretide.control.loop import ControlLoop, Parts
from foretide.control.score import Estimate, Yardstick, estimate_of, note_plan, score_run
from foretide.errors import ConfigError, MetricsError, PlanError
from foretide.metrics import processed_ratio
from foretide.plan.load import needed_replicas
from foretide.plan.promise import PromiseTally
from foretide.records import Ints
from foretide.sim.options import SimulationOptions
from foretide.sim.outcome import SimulationReport
from foretide.sim.system import SimulatedSystem
from foretide.sim.trail import Tap
from foretide.topology import Topology
from foretide.traces import RateTrace

__all__ = ["Input", "Watch", "arriving", "check_duration", "name_of", "peak_replicas", "simulate"]

# Latencies are gathered about this often, for the report.
_POLL_S = 1.0

#: What arrives: the same at every source, or a trace for each of them.
Input: TypeAlias = RateTrace | Mapping[str, RateTrace]
#: Called with the simulated seconds that passed and those of the whole run; what it raises ends the run.
Watch = Callable[[float, float], None]


def simulate(
    topology: Topology,
    trace: Input,
    options: SimulationOptions | None = None,
    *,
    watch: Watch | None = None,
    **given: Any,
) -> SimulationReport:
    """Return how a policy does on an input.

    The control loop runs as it does on a real system, against `SimulatedSystem` and a clock that jumps from cycle to
    cycle. The run ends with the trace; what is queued then counts as not processed.

    Parameters
    ----------
    topology : Topology
        What runs; operators must declare their execution time.
    trace : RateTrace, or mapping of source to RateTrace
        The input; a single one is every source's. Of several, the longest determines when the run ends.
    options : SimulationOptions, optional
        The policy and everything else about the run.
    watch : callable, optional
        Called with the progress after each cycle.
    **given
        Fields of `SimulationOptions`, instead of `options` or in place of single ones of it.

    Raises
    ------
    ConfigError
        When an option is wrong, or the trace is too short for the warm-up or for one interval.
    PlanError
        When a cycle fails: the numbers of such a run would be those of another policy.
    MetricsError
        When events were lost or invented, which would be a defect of the simulator.

    Examples
    --------
    >>> from foretide.topology import flow
    >>> job = flow("words")
    >>> _ = job.source("in").operator("count", execution_s=0.01, replicas=(1, 8))
    >>> trace = RateTrace("steps", bin_s=30, rates=[100, 350, 100, 100])
    >>> report = simulate(job.build(), trace, planner="pasps", forecaster="basic", td_s=5.0)
    >>> round(report.metrics.processed, 2), report.metrics.changes > 0
    (1.0, True)
    """
    options = SimulationOptions.of(given) if options is None else replace(options, **given)
    traces = _by_source(topology, trace)
    duration_s = check_duration(traces, options)
    warm = _warm(topology, traces) if options.warm_start else topology
    stressed = arriving(topology, traces, options)
    clock = ManualClock()
    system = SimulatedSystem(warm, stressed, clock=clock, settings=options.simulation, seed=options.seed)
    kept = None
    if options.promise is not None:
        kept = PromiseTally(options.promise, options.control.td_s)
        system.watch_latency(options.promise.target_s)
    tap = Tap(warm, system, options.stress, options.warm_up_s, kept)
    parts = Parts(
        metrics=tap,
        actuator=system,
        planner=options.fresh_planner(),
        forecaster=options.fresh_forecaster(),
        clock=clock,
        stages=system.stages,
    )
    loop = ControlLoop(warm, parts, options.control)
    log = _Log(options.control.td_s, options.keep_decisions)
    for decision in _drive(loop, tap, clock, duration_s, options.simulation.step_s):
        log.add(decision)
        note_plan(tap.opening, decision)
        if watch is not None:
            watch(decision.at_s, duration_s)
    return _report(warm, traces, options, tap, system, log, loop.failures.get("forecast", 0))


def peak_replicas(topology: Topology, trace: Input) -> Ints:
    """Return the replicas that every operator needs at the input's peak: r_over of SPEC P8, by operator.

    >>> from foretide.topology import flow
    >>> job = flow("words")
    >>> _ = job.source("in").operator("count", execution_s=0.01, replicas=(1, 8))
    >>> peak_replicas(job.build(), RateTrace("steps", bin_s=30, rates=[100, 350])).tolist()
    [4]
    """
    peaks = {source: rates.peak_rate for source, rates in _by_source(topology, trace).items()}
    return needed_replicas(topology, peaks)


def name_of(trace: Input) -> str:
    """Return what to call an input: the names of its traces, each once.

    >>> name_of({"a": RateTrace("day", 60, [1.0, 2.0]), "b": RateTrace("night", 60, [2.0, 1.0])})
    'day + night'
    """
    traces = [trace] if isinstance(trace, RateTrace) else trace.values()
    return " + ".join(dict.fromkeys(rates.name for rates in traces))


def check_duration(trace: Input, options: SimulationOptions) -> float:
    """Return the seconds that a run takes, or raise a `ConfigError` if the trace is too short for the options."""
    traces = [trace] if isinstance(trace, RateTrace) else list(trace.values())
    duration_s = max(rates.duration_s for rates in traces)
    td_s, warm_up_s = options.control.td_s, options.warm_up_s
    if warm_up_s + td_s > duration_s:
        setting = "td_s" if td_s >= warm_up_s else "warm_up_s"
        raise ConfigError(
            setting,
            expected=f"a warm-up and one interval within the {duration_s:g} s of trace {traces[0].name!r}",
            got=f"td of {td_s:g} s after a warm-up of {warm_up_s:g} s",
            remedy="take a longer trace, a shorter td or a shorter warm-up",
        )
    return duration_s


def _by_source(topology: Topology, trace: Input) -> dict[str, RateTrace]:
    sources = topology.layout.sources
    if isinstance(trace, RateTrace):
        return dict.fromkeys(sources, trace)
    if set(trace) != set(sources):
        raise ConfigError("trace", expected=f"a trace for each source: {', '.join(sources)}", got=", ".join(trace))
    return {source: trace[source] for source in sources}


def _warm(topology: Topology, traces: Mapping[str, RateTrace]) -> Topology:
    """Return the topology with the initial replicas that the first rate above 0 needs."""
    firsts = {source: float(rates.rates[np.argmax(rates.rates > 0)]) for source, rates in traces.items()}
    needed = needed_replicas(topology, firsts).tolist()
    operators = (
        replace(operator, replicas=replace(operator.replicas, initial=count))
        for operator, count in zip(topology.operators, needed, strict=True)
    )
    return replace(topology, operators=tuple(operators))


def arriving(topology: Topology, trace: Input, options: SimulationOptions) -> dict[str, RateTrace]:
    """Return what arrives at each source in a run: the input, with the noise of the stress if there is any."""
    traces = _by_source(topology, trace)
    return {source: _noisy(rates, options, number) for number, (source, rates) in enumerate(traces.items())}


def _noisy(trace: RateTrace, options: SimulationOptions, source: int) -> RateTrace:
    # Each source has noise of its own.
    return trace if options.stress is None else options.stress.noisy(trace, options.seed + 1_000_003 * source)


class _Log:
    """What is kept of the decisions: what the metrics need, and all of them if requested."""

    def __init__(self, td_s: float, keep: bool) -> None:
        self._td_s, self._keep = td_s, keep
        self.decisions: list[Decision] = []
        self.estimates: list[Estimate] = []

    def add(self, decision: Decision) -> None:
        """Keep what is needed of a decision."""
        if self._keep:
            self.decisions.append(decision)
        estimate = estimate_of(decision, self._td_s)
        if estimate is not None:
            self.estimates.append(estimate)


def _drive(loop: ControlLoop, tap: Tap, clock: ManualClock, duration_s: float, step_s: float) -> Iterator[Decision]:
    """Run cycle after cycle to the end of the trace, and yield every decision."""
    for instant_s, is_cycle in _instants(duration_s, loop.settings.td_s, step_s):
        clock.set_s(instant_s)
        tap.poll(instant_s)
        if is_cycle:
            yield _checked(loop.run_cycle())


def _instants(duration_s: float, td_s: float, step_s: float) -> Iterator[tuple[float, bool]]:
    """Yield when to measure, and whether to decide as well; at the very end there is nothing left to decide."""
    poll_s = step_s * max(1, round(_POLL_S / step_s))
    polls = {round(poll_s * number, 9) for number in range(1, math.ceil(duration_s / poll_s) + 1)}
    cycles = {round(td_s * number, 9) for number in range(1, math.ceil(duration_s / td_s))}
    for instant_s in sorted(polls | cycles | {duration_s}):
        if instant_s <= duration_s:
            yield instant_s, instant_s in cycles


def _checked(decision: Decision) -> Decision:
    failure = decision.failure
    if failure is not None and failure.ready:
        if isinstance(failure.error, ConfigError):
            raise failure.error
        raise PlanError(
            f"cycle {decision.cycle}, at {decision.at_s:g} s: {failure}; the run is aborted, since a cycle without a "
            "plan would be attributed to the policy"
        ) from failure.error
    return decision


def _report(
    topology: Topology,
    traces: Mapping[str, RateTrace],
    options: SimulationOptions,
    tap: Tap,
    system: SimulatedSystem,
    log: _Log,
    stand_ins: int,
) -> SimulationReport:
    totals = system.totals
    if not totals.conserved:
        raise MetricsError(f"simulation of {topology.name!r}: expected all events accounted for, got {totals}")
    processed = processed_ratio(totals.received, totals.processed)
    course = tap.course(options.simulation.service_factor)
    by = Yardstick(
        r_over=options.r_over or float(peak_replicas(topology, traces).sum()),
        td_s=options.control.td_s,
        from_s=options.warm_up_s,
    )
    return SimulationReport(
        topology=topology,
        trace=name_of(traces),
        options=options,
        metrics=score_run(course, log.estimates, tap.latency, by, processed, tap.opening),
        course=course,
        decisions=tuple(log.decisions),
        totals={name: float(count) for name, count in totals._asdict().items()},
        stand_ins=stand_ins,
        slo=None if tap.kept is None else tap.kept.score(),
    )
