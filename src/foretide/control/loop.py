"""The MAPE loop: one cycle monitors, forecasts, plans and acts (SPEC P7)."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from foretide.clock import Alarm, Clock, SystemClock
from foretide.control.analysis import ForecastStage, failed_sources
from foretide.control.decision import Decision, Failure, Stage, changed_counts
from foretide.control.models.trained import TrainedModels
from foretide.control.monitor import Monitor
from foretide.control.ports import Actuator, MetricSource
from foretide.control.settings import LoopSettings
from foretide.control.signals.stage import SignalStage
from foretide.errors import ActuatorError, NotReadyError, PlanError
from foretide.events import Event, EventLog, EventSink, Severity
from foretide.forecast import Forecaster
from foretide.forecast.training.model_store import ModelStore
from foretide.plan import Guarded, Planner, Situation
from foretide.plan.guards.overrides import overridden
from foretide.records import Action, ActionStatus, Floats, Forecast, Ints, Plan, SharedSlots, Window
from foretide.topology import Topology

__all__ = ["ControlLoop", "Parts"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a control loop is put together from.

    Parameters
    ----------
    metrics : MetricSource
        Tells what the running system did.
    actuator : Actuator
        Changes it.
    planner : Planner or Guarded
        Decides.
    forecaster : Forecaster
        Looks ahead.
    clock : Clock
        Tells the time.
    events : EventSink
        Hears of everything that happens.
    on_decision : callable, optional
        Gets the record of every cycle, for instance to store it.
    models : ModelStore, optional
        Where `foretide forecast train` puts models: those of the forecaster's kind are used as soon as they appear.
    overrides : callable, optional
        Tells the replicas that are set by hand at an instant, by operator; they hold against every plan.
        `RuntimeStore.overridden` is one.
    stages : SharedSlots, optional
        The stages of a data plane whose operators share slots.
    ready : callable, optional
        Tells whether the forecaster is loaded; until then the last value stands in, and nothing waits for it.
    look_ahead_s : callable, optional
        Tells how far ahead somebody wants to see, such as until an executor comes that is asked for now; see
        `ControlLoop.outlook`.
    signal : SignalStage, optional
        A signal of the user's own, in place of the rates of sources or beside them.
    """

    metrics: MetricSource
    actuator: Actuator
    planner: Planner | Guarded
    forecaster: Forecaster
    clock: Clock = field(default_factory=SystemClock)
    events: EventSink = field(default_factory=EventLog)
    on_decision: Callable[[Decision], None] | None = None
    models: ModelStore | None = None
    overrides: Callable[[float], Mapping[str, int]] | None = None
    stages: SharedSlots | None = None
    ready: Callable[[], bool] | None = None
    look_ahead_s: Callable[[], float] | None = None
    signal: SignalStage | None = None

    def trained_models(self) -> TrainedModels | None:
        """Return what watches for trained models of the forecaster's kind; None without a store of them."""
        return None if self.models is None else TrainedModels(self.models, self.forecaster.name, self.events)


class ControlLoop:
    """Steers a running topology, one cycle after another.

    A cycle that fails is counted and reported, the last good plan stays in force, and the next cycle runs: this is
    the one place that catches everything.

    Parameters
    ----------
    topology : Topology
        What is steered.
    parts : Parts
        Its two sides, its planner and forecaster, clock and event sink.
    settings : LoopSettings
        How often, from what, and whether to act at all.

    Raises
    ------
    ConfigError
        When a guard does not fit the topology.

    Examples
    --------
    >>> from foretide.clock import ManualClock
    >>> from foretide.control import FluidSystem
    >>> from foretide.forecast import Basic
    >>> from foretide.plan import PaSps
    >>> from foretide.topology import flow
    >>> job = flow("words")
    >>> _ = job.source("in").operator("count", execution_s=0.01, replicas=(1, 8))
    >>> topology, clock = job.build(), ManualClock()
    >>> system = FluidSystem(topology, [250.0], clock=clock)
    >>> parts = Parts(metrics=system, actuator=system, planner=PaSps(), forecaster=Basic(), clock=clock)
    >>> loop = ControlLoop(topology, parts)
    >>> loop.run(cycles=2)
    >>> system.replicas
    array([3])
    """

    def __init__(self, topology: Topology, parts: Parts, settings: LoopSettings | None = None) -> None:
        self.topology, self.parts = topology, parts
        self.settings = settings or LoopSettings()
        if isinstance(parts.planner, Guarded):
            parts.planner.check(topology, parts.stages)
        #: Keeps what was measured.
        self.monitor = Monitor(topology, self.settings)
        #: Keeps what was learnt of the sources.
        self.forecasts = ForecastStage(
            parts.forecaster, parts.trained_models(), self.settings.deadline_s, ready=parts.ready
        )
        # Whether the first plan is still to come, and may be made from less than later ones.
        self._eager = False
        self._in_force: Plan | None = None
        self._requested: Ints | None = None
        self._changed_at_s: Floats = np.full(len(topology.operators), -np.inf)
        self._warned: set[str] = set()
        self._cycles = 0
        self._failures: Counter[Stage] = Counter()
        self._last_decision: Decision | None = None
        self._alarm = Alarm(parts.clock, self.settings.sample_s)

    @property
    def plan_in_force(self) -> Plan | None:
        """The last plan that the running system took; None before the first."""
        return self._in_force

    @property
    def cycles(self) -> int:
        """How many cycles ran."""
        return self._cycles

    @property
    def failures(self) -> Mapping[Stage, int]:
        """How many cycles failed, by stage; those count too in which the last value stood in for a forecast."""
        return dict(self._failures)

    @property
    def outlook(self) -> Mapping[str, Forecast]:
        """The last forecasts by source, as far ahead as was asked for by `Parts.look_ahead_s`."""
        made = {} if self._last_decision is None else self._last_decision.forecasts
        return {**made, **self.forecasts.outlook}

    @property
    def last_decision(self) -> Decision | None:
        """The record of the last cycle; None before the first."""
        return self._last_decision

    def run(
        self,
        cycles: int | None = None,
        stop: threading.Event | None = None,
        begun: Callable[[], bool] | None = None,
    ) -> None:
        """Run a cycle every `td_s`, for ever, for so many `cycles`, or until `stop` is set.

        Cycles keep to a fixed grid, and `wake` adds one in between. One that took longer than `td_s` makes the next one
        start at once, those missed in between are left out, and the grid stays where it was.

        The first cycle comes after one `td_s`. Where `begun` tells whether something has been measured, it comes as
        soon as that is so: one sample is then enough for the first plan, and the grid begins with it.
        """
        clock, td_s = self.parts.clock, self.settings.td_s
        due_s = clock.now_s() + td_s
        begun = None if self._cycles else begun
        done, longest_s, self._eager = 0, td_s, begun is not None
        while cycles is None or done < cycles:
            came = self._alarm.wait_until(due_s, longest_s, stop, begun)
            if came == "stop":
                return
            if came == "begun":
                begun, due_s = None, clock.now_s()
            if came == "woken":
                early_s = due_s - clock.now_s()
                self._emit(clock.now_s(), "cycle.early", f"{self._alarm.reason}: deciding {early_s:.1f} s early")
            # One sample is enough for the first plan, not for those after it.
            planned = self.run_cycle().plan is not None
            self._eager = self._eager and not planned
            done += 1
            if came == "woken":
                # The grid stays; its next cycle is left out where it would follow too soon.
                due_s += td_s * (due_s - clock.now_s() < self.settings.sample_s)
                longest_s = td_s + self.settings.sample_s
                continue
            longest_s = td_s
            late_s = clock.now_s() - due_s
            # A clock that was set back begins a new grid.
            due_s = clock.now_s() + td_s if late_s < -td_s else due_s + td_s * max(1.0, late_s // td_s)

    def wake(self, reason: str) -> None:
        """Run the next cycle at once, as soon as one `sample_s` has passed since the last; from any thread."""
        self._alarm.wake(reason)

    def run_cycle(self) -> Decision:
        """Monitor, forecast, plan and act once; never raises."""
        self._cycles += 1
        decision = self._decide(self.parts.clock.now_s())
        self._last_decision = decision
        if self.parts.on_decision is not None:
            try:
                self.parts.on_decision(decision)
            except Exception as error:
                message = f"cycle {self._cycles}: its record was not taken: {error}"
                self._emit(decision.at_s, "decision.lost", message, "error", {"error": type(error).__name__})
        return decision

    def _decide(self, at_s: float) -> Decision:
        stage: Stage = "monitor"
        decision = Decision(cycle=self._cycles, at_s=at_s)
        try:
            self.monitor.add(self.parts.metrics.collect())
            window = self.monitor.window(at_s, first=self._eager)
            decision, stage = replace(decision, window=window), "forecast"
            seen, forecasts = self._with_signal(window, self._forecast(window, at_s), at_s)
            decision, stage = replace(decision, forecasts=forecasts), "plan"
            plan = self._overridden(self._plan(seen, forecasts), at_s)
            self._warn(plan, at_s)
            decision, stage = replace(decision, plan=plan), "act"
            return replace(decision, action=self._act(plan, window, at_s))
        except Exception as error:
            failure = self._failed(stage, error, at_s)
            return replace(decision, action=self._refused(decision, error), failure=failure)

    def _forecast(self, window: Window, at_s: float) -> dict[str, Forecast]:
        planner = self.parts.planner
        if not planner.needs_forecast:
            return {}
        beyond_s = 0.0 if self.parts.look_ahead_s is None else self.parts.look_ahead_s()
        forecasts, errors = self.forecasts.forecast(window, planner.intervals_ahead, beyond_s)
        if errors:
            self._report_forecasts(errors, at_s)
        return forecasts

    def _with_signal(
        self, window: Window, forecasts: dict[str, Forecast], at_s: float
    ) -> tuple[Window, dict[str, Forecast]]:
        """Return what the planner goes by, where a signal of the user's own says something about the input."""
        signal = self.parts.signal
        rates = {} if signal is None else signal.rates(at_s)
        if signal is None or not rates:
            return window, forecasts
        self.forecasts.outlook = signal.forecasts(self.forecasts.outlook, rates)
        return window if forecasts else signal.window(window, rates), signal.forecasts(forecasts, rates)

    def _report_forecasts(self, errors: Mapping[str, Exception], at_s: float) -> None:
        message, data = f"{failed_sources(errors)}; the last forecast or value stands in", {"sources": list(errors)}
        if all(isinstance(error, NotReadyError) for error in errors.values()):
            self._emit(at_s, "forecast.not_ready", message, data=data)
        else:
            self._failures["forecast"] += 1
            self._emit(at_s, "forecast.failed", message, "warning", data)

    def _plan(self, window: Window, forecasts: Mapping[str, Forecast]) -> Plan:
        plan = self.parts.planner.plan(self._situation(window, forecasts))
        if not isinstance(plan, Plan) or plan.layout != self.topology.layout:
            raise PlanError(
                f"planner {self.parts.planner.name!r}: expected a plan for topology {self.topology.name!r}, "
                f"got {plan.layout.operators[:5] if isinstance(plan, Plan) else type(plan).__name__}"
            )
        return plan

    def _warn(self, plan: Plan, at_s: float) -> None:
        """Tell of what a plan warns of, once: figures in the words may change while the matter stays the same."""
        matters = {warning.partition(":")[0] for warning in plan.warnings}
        for warning in plan.warnings:
            if warning.partition(":")[0] not in self._warned:
                self._emit(at_s, "plan.warning", warning, "warning")
        self._warned = matters

    def _overridden(self, plan: Plan, at_s: float) -> Plan:
        overrides = self.parts.overrides
        return plan if overrides is None else overridden(plan, overrides(at_s), self.topology)

    def _situation(self, window: Window, forecasts: Mapping[str, Forecast]) -> Situation:
        replicas = window.replicas if self._requested is None else self._requested
        by_stage = self.parts.planner.by_stage and self.parts.stages is not None
        return Situation(
            topology=self.topology,
            window=window,
            forecasts=forecasts,
            # An operator may have no part of the slots of its stage; planners of replicas start from 1 at least.
            replicas=replicas if by_stage else np.maximum(replicas, 1),
            changed_at_s=self._changed_at_s,
            stages=self.parts.stages,
        )

    def _act(self, plan: Plan, window: Window, at_s: float) -> Action:
        observed = window.replicas
        before = observed if self._requested is None else self._requested
        if self.settings.advisory:
            data = {"replicas": plan.by_operator()}
            self._emit(at_s, "plan.advised", changed_counts(plan, observed, plan.replicas), data=data)
            return _action(plan, at_s, "advised", before, observed)
        hires = plan.hiring if self._in_force is None else self._in_force.hiring
        same = np.array_equal(plan.replicas, before) and np.array_equal(plan.replicas, observed)
        if same and plan.hiring == hires and (self._in_force is not None or not plan.hiring):
            self._in_force, self._requested = plan, before
            return _action(plan, at_s, "unchanged", before, observed)
        requested = self._apply(plan)
        self._took(plan, requested, before, at_s)
        return _action(plan, at_s, "applied", requested, observed)

    def _apply(self, plan: Plan) -> Ints:
        requested = np.array(self.parts.actuator.apply(plan), dtype=np.int64)
        if requested.shape != plan.replicas.shape:
            raise ActuatorError(
                f"{plan.id}: expected the actuator to say what it asked for, for {plan.replicas.size} operators, got "
                f"shape {requested.shape}; correct the actuator"
            )
        return requested

    def _took(self, plan: Plan, requested: Ints, before: Ints, at_s: float) -> None:
        """Note that the running system took `plan`."""
        changed = requested != before
        if plan.stages is not None:
            # Parts of slots may move between operators of a stage; it has changed when its slots have.
            slots = plan.stages.slots(requested) != plan.stages.slots(before)
            changed = plan.stages.spread(slots.astype(np.float64)) > 0
        self._in_force, self._requested = plan, requested
        if not changed.any():
            return
        self._changed_at_s = np.where(changed, at_s, self._changed_at_s)
        self.monitor.settle(at_s + self.settings.settle_s if self.settings.settle_s else -np.inf)
        less = "" if np.array_equal(requested, plan.replicas) else " (not all that was planned)"
        by_operator = dict(zip(plan.layout.operators, requested.tolist(), strict=True))
        data = {"replicas": plan.by_operator(), "requested": by_operator}
        self._emit(at_s, "plan.applied", changed_counts(plan, before, requested) + less, data=data)

    def _refused(self, decision: Decision, error: Exception) -> Action | None:
        """Return what became of a plan that the running system did not take: what was asked for before still holds."""
        plan, window = decision.plan, decision.window
        if plan is None or window is None:
            return None
        before = window.replicas if self._requested is None else self._requested
        return _action(plan, decision.at_s, "refused", before, window.replicas, str(error))

    def _failed(self, stage: Stage, error: Exception, at_s: float) -> Failure:
        ready = not isinstance(error, NotReadyError)
        if ready:
            self._failures[stage] += 1
            message = f"cycle {self._cycles}: {error}; the last good plan stays in force"
            self._emit(at_s, f"{stage}.failed", message, "error", {"error": type(error).__name__})
        else:
            self._emit(at_s, "cycle.skipped", str(error))
        return Failure(stage, error, ready)

    def _emit(
        self,
        at_s: float,
        kind: str,
        message: str,
        severity: Severity = "info",
        data: Mapping[str, object] | None = None,
    ) -> None:
        """Tell the event sink; one that raises is logged and must not end the loop, nor undo what was done."""
        try:
            self.parts.events.emit(Event(at_s, kind, message, severity, data or {}))
        except Exception:
            _LOG.exception("the event sink failed on %s: %s", kind, message)


def _action(plan: Plan, at_s: float, status: ActionStatus, requested: Ints, observed: Ints, detail: str = "") -> Action:
    return Action(
        plan_id=plan.id,
        at_s=at_s,
        status=status,
        planned=plan.replicas,
        requested=requested,
        observed=observed,
        detail=detail,
    )
