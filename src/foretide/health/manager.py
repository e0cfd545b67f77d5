"""Watching workers and bypassing those that misbehave: the controller and grouping manager of SPEC I6."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from foretide.clock import Clock, SystemClock
from foretide.errors import ForetideError
from foretide.events import Event, EventLog, EventSink, Severity
from foretide.health.bypass import Bypass, Step
from foretide.health.models import WorkerModel
from foretide.health.policies import HealthView, PeersPolicy, Verdict, WorkerView
from foretide.health.predictor import HealthPredictor
from foretide.health.settings import HealthSettings
from foretide.store import FeatureSample

__all__ = ["HealthManager", "HealthSettings", "Look", "WorkerActuator", "WorkerSignals"]

_LOG = logging.getLogger(__name__)
# Seconds between two records of what is thought of all workers, and between two of a worker that is suspected.
_JUDGED_S, _SUSPECTED_S = 60.0, 30.0
# The measured times that are recorded beside a verdict without a model.
_TIMES = ("slowness", "queueing_ms", "sending_ms", "execution_ms")


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
    action that is refused leaves the worker as it is. Events report both. Beside a policy with a model the peers always
    have a say: a worker that hangs sends no features to predict from.

    Parameters
    ----------
    actuator : WorkerActuator
        Carries out bypasses.
    settings : HealthSettings
        The policy, and when to act.
    predictor : HealthPredictor, optional
        What is expected of workers.
    events : EventSink, optional
        Receives ``health.suspected``, ``health.bypassed``, ``health.readmitted``, ``health.spared``,
        ``health.refused``, ``health.degraded``, ``health.restored``, and once a minute ``health.judged``: what is
        thought of all workers.
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
        self._actuator, self._predictor = actuator, predictor or HealthPredictor({})
        self._events: EventSink = EventLog() if events is None else events
        self._clock = clock or SystemClock()
        self._policy, self._stand_in = self.settings.make_policy(), PeersPolicy()
        self._trouble = ""
        self._spared: tuple[str, ...] = ()
        self._fresh, self._judged_s = True, -math.inf
        self._suspected_s: dict[str, float] = {}
        self.bypass = Bypass(self.settings.bypass)
        #: The last check; None before the first.
        self.last: Look | None = None

    def features(self, samples: Iterable[FeatureSample]) -> None:
        """Take in features."""
        self._predictor.take(samples)
        self._fresh = True

    def adopt(self, models: Mapping[str, WorkerModel]) -> None:
        """Use other models for the machines that they are about."""
        self._predictor.adopt(models)
        self._fresh = True

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
        self._suspected_s = {worker: at_s for worker, at_s in self._suspected_s.items() if worker in known}
        view = HealthView(now_s, tuple(self._view(each) for each in signals if not self._is_out(each.worker)))
        policy, view, verdicts = self._judge(view)
        # One without tasks has no verdict, and keeps its state: it may just have had nothing to do.
        step = self.bypass.look(now_s, known, verdicts)
        self._tell(view, verdicts)
        self._act(step, view, {verdict.worker: verdict for verdict in verdicts})
        self.last = Look(now_s, policy, view, tuple(verdicts), step)
        return self.last

    def _is_out(self, worker: str) -> bool:
        return self.bypass.state(worker).standing == "bypassed"

    def _view(self, signals: WorkerSignals) -> WorkerView:
        return WorkerView(signals.worker, signals.machine, signals.values)

    def _judge(self, view: HealthView) -> tuple[str, HealthView, Sequence[Verdict]]:
        peers = {each.worker: replace(each, policy=self._stand_in.name) for each in self._stand_in.judge(view)}
        trouble = ""
        try:
            if self._policy.needs_model:
                view = self._with_forecasts(view)
                if not any(worker.predicted for worker in view.workers):
                    trouble = "no model predicts yet"
            if not trouble:
                own = [replace(each, policy=self._policy.name) for each in self._policy.judge(view)]
                self._report(trouble)
                return self._policy.name, view, self._together(own, peers) if self._policy.needs_model else own
        except Exception as error:
            _LOG.debug("health policy %r failed", self._policy.name, exc_info=True)
            trouble = f"{type(error).__name__}: {error}"
        self._report(trouble)
        return self._stand_in.name, view, tuple(peers.values())

    def _together(self, own: Sequence[Verdict], peers: dict[str, Verdict]) -> Sequence[Verdict]:
        """Return the verdicts of a model, and those of peers on workers that are slow or that it knows nothing of.

        What a model says counts once for every sample of features: checks are more frequent than these.
        """
        found = dict(peers)
        for verdict in own:
            if verdict.worker in peers and peers[verdict.worker].suspicious:
                continue
            if verdict.suspicious and not self._fresh:
                found.pop(verdict.worker, None)
            else:
                found[verdict.worker] = verdict
        self._fresh = False
        return tuple(found.values())

    def _with_forecasts(self, view: HealthView) -> HealthView:
        known = {each.worker: each for each in self._predictor.forecasts()}
        workers = tuple(
            replace(each, predicted=it.predicted, errors=it.errors, measured=it.measured, expected=it.expected)
            if (it := known.get(each.worker)) is not None
            else each
            for each in view.workers
        )
        return HealthView(view.at_s, workers)

    def _tell(self, view: HealthView, verdicts: Sequence[Verdict]) -> None:
        """Record who is suspected from now on, and once a minute what is thought of all."""
        views = {worker.worker: worker for worker in view.workers}
        for verdict in verdicts:
            told_s = self._suspected_s.get(verdict.worker, -math.inf)
            if verdict.suspicious and not 0 <= view.at_s - told_s < _SUSPECTED_S:
                self._suspected_s[verdict.worker] = view.at_s
                data = _facts(verdict, views.get(verdict.worker))
                self._emit("health.suspected", f"worker {verdict.worker}: {verdict.reason}", data=data)
        if verdicts and not 0 <= view.at_s - self._judged_s < _JUDGED_S:
            self._judged_s = view.at_s
            suspects = [verdict.worker for verdict in verdicts if verdict.suspicious]
            words = f"{len(verdicts)} workers judged by {', '.join(sorted({verdict.policy for verdict in verdicts}))}"
            words += f"; suspicious: {', '.join(suspects)}" if suspects else "; none is suspicious"
            data = {verdict.worker: _facts(verdict, views.get(verdict.worker)) for verdict in verdicts}
            self._emit("health.judged", words, data={"workers": data})

    def _report(self, trouble: str) -> None:
        """Report when the policy stops working, and when it works again."""
        if trouble and not self._trouble:
            words = f"policy {self._policy.name!r}: {trouble}; {self._stand_in.name!r} stands in"
            self._emit("health.degraded", words, "warning")
        elif self._trouble and not trouble:
            self._emit("health.restored", f"policy {self._policy.name!r} works again")
        self._trouble = trouble

    def _act(self, step: Step, view: HealthView, verdicts: Mapping[str, Verdict]) -> None:
        views = {worker.worker: worker for worker in view.workers}
        for worker in step.readmitted:
            over = {"worker": worker, "reason": "its cool-down is over"}
            self._try(
                worker, "readmitted", "gets events again, on probation", over, lambda w: self._actuator.readmit(w)
            )
        for worker in step.bypassed:
            reason = step.reasons.get(worker, "")
            found = verdicts.get(worker)
            data: dict[str, Any] = {"worker": worker} if found is None else _facts(found, views.get(worker))
            data |= {"reason": reason, "until_s": self.bypass.state(worker).until_s}
            self._try(worker, "bypassed", reason, data, lambda w, r=reason: self._actuator.bypass(w, r))
        if step.spared != self._spared:
            for worker in step.spared:
                words = f"worker {worker} misbehaves but stays, since too few are left: {step.reasons.get(worker, '')}"
                self._emit("health.spared", words, "warning", {"worker": worker})
        self._spared = step.spared

    def _try(self, worker: str, what: str, reason: str, data: Mapping[str, Any], action: Any) -> None:
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


def _facts(verdict: Verdict, view: WorkerView | None) -> dict[str, Any]:
    """Return a verdict with what it goes by, as plain data: predicted and measured times, where they are known."""
    found: dict[str, Any] = {
        "worker": verdict.worker,
        "machine": verdict.machine,
        "policy": verdict.policy,
        "suspicious": verdict.suspicious,
        "score": _plain(verdict.score),
        "reason": verdict.reason,
    }
    if view is not None:
        measured = view.measured or {name: view.signals[name] for name in _TIMES if name in view.signals}
        for name, values in (("measured", measured), ("expected", view.expected), ("predicted", view.predicted)):
            if values:
                found[name] = {target: _plain(value) for target, value in values.items()}
    return found


def _plain(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None
