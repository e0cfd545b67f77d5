"""Watching workers and bypassing those that misbehave: the controller and grouping manager of SPEC I6."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import Field

from foretide.clock import Clock, SystemClock
from foretide.config import Settings
from foretide.errors import ForetideError
from foretide.events import Event, EventLog, EventSink, Severity
from foretide.health.bypass import Bypass, BypassSettings, Step
from foretide.health.policies import HealthPolicy, HealthView, PeersPolicy, Verdict, WorkerView, make_health_policy
from foretide.health.predictor import HealthPredictor
from foretide.store import FeatureSample

__all__ = ["HealthManager", "HealthSettings", "Look", "WorkerActuator", "WorkerSignals"]

_LOG = logging.getLogger(__name__)


class HealthSettings(Settings):
    """How workers are watched."""

    policy: str = Field(default="peers", description="The policy that decides which workers misbehave.")
    policies: dict[str, dict[str, Any]] = Field(default_factory=dict, description="Settings of policies, by name.")
    bypass: BypassSettings = Field(default_factory=BypassSettings, description="When workers are bypassed.")
    stalled_s: float = Field(
        default=1.0,
        ge=0,
        description="Seconds after which a task that runs longer than all others counts against its worker; 0: never.",
    )
    advisory: bool = Field(default=False, description="Whether bypasses are only reported.")

    def make_policy(self) -> HealthPolicy:
        """Return the policy that is named."""
        return make_health_policy(self.policy, self.policies.get(self.policy))


class WorkerActuator(Protocol):
    """Withholds events from workers, and readmits them."""

    def bypass(self, worker: str, reason: str) -> None:
        """Send nothing to a worker from now on.

        Raises
        ------
        ActuatorError
            When that cannot be done.
        """
        ...

    def readmit(self, worker: str) -> None:
        """Send events to a worker again."""
        ...


@dataclass(frozen=True)
class WorkerSignals:
    """What tasks measured about a worker since the last check."""

    worker: str
    machine: str
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Look:
    """One check of the workers: what was seen, judged and changed."""

    at_s: float
    policy: str
    view: HealthView
    verdicts: Sequence[Verdict]
    step: Step


class HealthManager:
    """Checks workers again and again, and bypasses those that misbehave.

    It never raises into the stream: `PeersPolicy` stands in for a policy that fails or has no model, and an
    action that is refused leaves the worker as it is. Events report both.

    Parameters
    ----------
    actuator : WorkerActuator
        Carries out bypasses.
    settings : HealthSettings
        The policy, and when to act.
    predictor : HealthPredictor, optional
        What is expected of workers.
    events : EventSink, optional
        Receives ``health.bypassed``, ``health.readmitted``, ``health.spared``, ``health.refused``, ``health.degraded``.
    clock : Clock
        Gives the time.
    """

    def __init__(
        self,
        actuator: WorkerActuator,
        settings: HealthSettings | None = None,
        *,
        predictor: HealthPredictor | None = None,
        events: EventSink | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings or HealthSettings()
        self._actuator, self._predictor = actuator, predictor
        self._events: EventSink = EventLog() if events is None else events
        self._clock = clock or SystemClock()
        self._policy, self._stand_in = self.settings.make_policy(), PeersPolicy()
        self._trouble = ""
        self._spared: tuple[str, ...] = ()
        self.bypass = Bypass(self.settings.bypass)
        #: The last check; None before the first.
        self.last: Look | None = None

    def features(self, samples: Iterable[FeatureSample]) -> None:
        """Take in features."""
        if self._predictor is not None:
            self._predictor.take(samples)

    def adopt(self, predictor: HealthPredictor) -> None:
        """Use other models."""
        self._predictor = predictor

    def look(self, signals: Sequence[WorkerSignals], present: Iterable[str] = ()) -> Look:
        """Judge workers by what was measured since the last check, and act.

        Parameters
        ----------
        signals : sequence of WorkerSignals
            Of the workers that had tasks.
        present : iterable of str
            Other workers that are there, bypassed ones for instance.
        """
        now_s = self._clock.now_s()
        known = dict.fromkeys((*(each.worker for each in signals), *present))
        view = HealthView(now_s, tuple(self._view(each) for each in signals if not self._is_out(each.worker)))
        policy, verdicts = self._judge(view)
        # One without tasks has no verdict, and keeps its state: it may just have had nothing to do.
        step = self.bypass.look(now_s, known, verdicts)
        self._act(step)
        self.last = Look(now_s, policy, view, tuple(verdicts), step)
        return self.last

    def _is_out(self, worker: str) -> bool:
        return self.bypass.state(worker).standing == "bypassed"

    def _view(self, signals: WorkerSignals) -> WorkerView:
        return WorkerView(signals.worker, signals.machine, signals.values)

    def _judge(self, view: HealthView) -> tuple[str, Sequence[Verdict]]:
        trouble = ""
        try:
            if self._policy.needs_model:
                view = self._with_forecasts(view)
                if not any(worker.predicted for worker in view.workers):
                    trouble = "no model predicts yet"
            if not trouble:
                verdicts = self._policy.judge(view)
                self._report(trouble)
                return self._policy.name, verdicts
        except Exception as error:
            _LOG.debug("health policy %r failed", self._policy.name, exc_info=True)
            trouble = f"{type(error).__name__}: {error}"
        self._report(trouble)
        return self._stand_in.name, self._stand_in.judge(view)

    def _with_forecasts(self, view: HealthView) -> HealthView:
        known = {} if self._predictor is None else {each.worker: each for each in self._predictor.forecasts()}
        workers = tuple(
            WorkerView(each.worker, each.machine, each.signals, known[each.worker].predicted, known[each.worker].errors)
            if each.worker in known
            else each
            for each in view.workers
        )
        return HealthView(view.at_s, workers)

    def _report(self, trouble: str) -> None:
        """Report when the policy stops working, and when it works again."""
        if trouble and not self._trouble:
            words = f"policy {self._policy.name!r}: {trouble}; {self._stand_in.name!r} stands in"
            self._emit("health.degraded", words, "warning")
        elif self._trouble and not trouble:
            self._emit("health.restored", f"policy {self._policy.name!r} works again")
        self._trouble = trouble

    def _act(self, step: Step) -> None:
        for worker in step.readmitted:
            self._try(worker, "readmitted", "gets events again, on probation", lambda w: self._actuator.readmit(w))
        for worker in step.bypassed:
            reason = step.reasons.get(worker, "")
            self._try(worker, "bypassed", reason, lambda w, r=reason: self._actuator.bypass(w, r))
        if step.spared != self._spared:
            for worker in step.spared:
                words = f"worker {worker} misbehaves but stays, since too few are left: {step.reasons.get(worker, '')}"
                self._emit("health.spared", words, "warning", {"worker": worker})
        self._spared = step.spared

    def _try(self, worker: str, what: str, reason: str, action: Any) -> None:
        data = {"worker": worker, "reason": reason}
        if self.settings.advisory:
            self._emit(f"health.{what}", f"advice: worker {worker}: {reason}", data=data)
            return
        try:
            action(worker)
        except (ForetideError, OSError) as error:
            if what == "bypassed":
                self.bypass.restore(worker)
            self._emit("health.refused", f"worker {worker} could not be {what}: {error}", "error", data)
            return
        self._emit(f"health.{what}", f"worker {worker}: {reason}", "warning" if what == "bypassed" else "info", data)

    def _emit(
        self, kind: str, message: str, severity: Severity = "info", data: Mapping[str, Any] | None = None
    ) -> None:
        try:
            self._events.emit(Event(self._clock.now_s(), kind, message, severity, data or {}))
        except Exception:
            _LOG.exception("the event sink failed on %s: %s", kind, message)
