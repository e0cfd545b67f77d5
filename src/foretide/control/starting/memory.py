"""What a controller has learnt, kept from one run of a topology to the next."""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from foretide.control.loop import ControlLoop
from foretide.control.starting.minutes import minutes_of
from foretide.errors import ForecastError, ForetideError
from foretide.events import Event, EventSink, Severity
from foretide.forecast.registry import forecaster_of
from foretide.store import RunInfo, RunStore, StoredKnowledge, fingerprint
from foretide.topology import Topology

__all__ = ["Keeper", "Learner", "Memory"]

_LOG = logging.getLogger(__name__)
# Cycles from one time that knowledge is kept to the next; what is learnt in between is lost with a driver that dies.
_EVERY = 20
# The states of so many forecasters are quickly kept; of more, a cycle would have to wait.
_FEW = 32
# How far back minutes are read, and how many days there must be.
_WEEKS_S, _FEWEST_DAYS = 15 * 86_400.0, 1.95
# The versions of what is kept besides the planner's knowledge, which has its own.
_VERSION = 1


class Keeper(Protocol):
    """Keeps what was learnt; `RunRecorder` and `RunStore` are two."""

    def learnt(self, topology: Topology, kind: str, version: int, document: Mapping[str, Any]) -> None:
        """Keep a document in place of the one before."""
        ...


class Learner(Protocol):
    """Something else that learns while a topology runs."""

    @property
    def knowledge_version(self) -> int:
        """The version of what `learnt` returns."""
        ...

    def learnt(self) -> Mapping[str, Any] | None:
        """Return what was learnt, None if nothing was."""
        ...

    def resume(self, knowledge: Mapping[str, Any]) -> None:
        """Go on from what was learnt earlier."""
        ...


class Memory:
    """Resumes what was learnt in earlier runs of a topology, and keeps what is learnt in this one.

    The planner's knowledge, the state of each source's forecaster, and the execution times and shares of operators are
    resumed however old they are: they are about the topology. The rates of sources are about the moment. They are
    resumed from a run that ended within the length of a history; minutes of the last weeks tell forecasters the level
    of the day and the week. Neither is done for a replayed trace, which begins anew.

    What cannot be resumed, since it is of another topology or version, or damaged, is left out, and an event says so.

    Parameters
    ----------
    topology : Topology
        What runs.
    past : RunStore, optional
        Where earlier runs are; without it, nothing is resumed.
    keeper : Keeper, optional
        Who keeps what is learnt; without it, nobody does.
    events : EventSink
        Hears ``knowledge.resumed`` and ``knowledge.ignored``.
    now_s : callable
        Tells Unix time.
    others : mapping of str to Learner
        What else learns, by what it is called in the store.
    """

    def __init__(
        self,
        topology: Topology,
        past: RunStore | None,
        keeper: Keeper | None,
        events: EventSink,
        now_s: Callable[[], float] = time.time,
        others: Mapping[str, Learner] | None = None,
    ) -> None:
        self._topology, self._past, self._keeper, self._events = topology, past, keeper, events
        self._now_s, self._others = now_s, dict(others or {})

    def resume(self, loop: ControlLoop) -> None:
        """Hand a loop that has not begun what was learnt; never raises."""
        planner = loop.parts.planner
        learners: dict[str, tuple[int, Callable[[Mapping[str, Any]], None]]] = {
            f"planner {planner.name}": (planner.knowledge_version, planner.resume),
            "operators": (_VERSION, loop.monitor.resume),
            **{kind: (one.knowledge_version, one.resume) for kind, one in self._others.items()},
        }
        for source in self._topology.layout.sources:
            learners[_forecaster(loop, source)] = (_VERSION, partial(_resume_forecaster, loop, source))
        try:
            for kind, learner in learners.items():
                self._try(kind, *learner)
            self._resume_history(loop)
        except ForetideError as error:
            self._tell("knowledge.ignored", "earlier runs", f"the store cannot be read: {error}", "warning")

    def cycle(self, loop: ControlLoop) -> None:
        """Keep what was learnt every so many cycles; the states of very many forecasters only when the run ends."""
        if loop.cycles % _EVERY == 0:
            self.keep(loop, forecasters=len(self._topology.sources) <= _FEW)

    def keep(self, loop: ControlLoop, *, forecasters: bool = True) -> None:
        """Keep what was learnt; never raises."""
        if self._keeper is None or loop.plan_in_force is None:
            return
        try:
            planner = loop.parts.planner
            knowledge = planner.learnt()
            if knowledge is not None:
                self._keep(f"planner {planner.name}", planner.knowledge_version, knowledge)
            self._keep("operators", _VERSION, loop.monitor.learnt())
            for kind, one in self._others.items():
                if (found := one.learnt()) is not None:
                    self._keep(kind, one.knowledge_version, found)
            for source, state in loop.forecasts.states().items() if forecasters else ():
                self._keep(_forecaster(loop, source), _VERSION, {"archive": base64.b64encode(state).decode()})
        except Exception:
            # What was learnt is worth less than the stream that it was learnt from.
            _LOG.warning("what was learnt was not kept", exc_info=True)

    def _keep(self, kind: str, version: int, document: Mapping[str, Any]) -> None:
        assert self._keeper is not None
        self._keeper.learnt(self._topology, kind, version, document)

    def _try(self, kind: str, version: int, resume: Callable[[Mapping[str, Any]], None]) -> None:
        """Resume one document, if there is one, and tell what became of it."""
        found = [] if self._past is None else self._past.knowledge(self._topology.name, kind)
        if not found:
            return
        own = next((one for one in found if one.fingerprint == fingerprint(self._topology)), None)
        if own is None:
            self._tell("knowledge.ignored", kind, "it is of another topology of that name", "warning")
        elif own.version != version:
            reason = f"it is of version {own.version}, and version {version} is needed"
            self._tell("knowledge.ignored", kind, reason, "warning")
        else:
            self._resume(own, resume)

    def _resume(self, own: StoredKnowledge, resume: Callable[[Mapping[str, Any]], None]) -> None:
        try:
            resume(own.document())
        except Exception as error:  # a document may be damaged in any way, and a planner of anyone's may raise anything
            self._tell("knowledge.ignored", own.kind, f"it is damaged or does not fit: {error}", "warning")
        else:
            at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(own.saved_at_s))
            self._tell("knowledge.resumed", own.kind, f"as of {at}", "info")

    def _resume_history(self, loop: ControlLoop) -> None:
        settings, topology = loop.settings, self._topology
        if self._past is None or any(source.connector.kind == "trace" for source in topology.sources):
            return
        since_s = self._now_s() - settings.history * settings.sample_s
        runs = [run for run in self._past.runs() if run.name == topology.name and run.layout == topology.layout]
        last = max((run for run in runs if run.ended_at_s is not None), key=lambda run: run.seen_at_s, default=None)
        measurements = [] if last is None else self._past.run(last.id).measurements(since_s)
        loop.monitor.prime(measurements)
        if last is not None and measurements:
            self._tell("knowledge.resumed", "rates", f"the last {len(measurements)} measured in run {last.id}", "info")
        self._recall(loop, [run for run in runs if run.seen_at_s > self._now_s() - _WEEKS_S])

    def _recall(self, loop: ControlLoop, runs: Sequence[RunInfo]) -> None:
        """Hand forecasters the minutes of earlier runs, where there are two days of them, and say so where not."""
        assert self._past is not None
        since_s = self._now_s() - _WEEKS_S
        measured = [self._past.run(run.id).measurements(since_s) for run in runs]
        for source, past in minutes_of(self._topology.layout.sources, measured).items():
            days = float(np.isfinite(past.values).sum()) * past.step_s / 86_400
            if days < _FEWEST_DAYS:
                reason = f"the level of the day needs two days of history, {days:.1f} are recorded"
                self._tell("knowledge.ignored", f"days of {source}", reason, "info")
                continue
            loop.forecasts.recall(source, past)
            self._tell("knowledge.resumed", f"days of {source}", f"minutes of {days:.1f} days", "info")

    def _tell(self, event: str, kind: str, words: str, severity: Severity) -> None:
        said = "is resumed" if event == "knowledge.resumed" else "is not resumed"
        message = f"what was learnt by {kind!r} {said}: {words}"
        try:
            self._events.emit(Event(self._now_s(), event, message, severity, {"kind": kind}))
        except Exception:
            _LOG.exception("the event sink failed on %s: %s", event, message)


def _forecaster(loop: ControlLoop, source: str) -> str:
    return f"forecaster {loop.parts.forecaster.name} of {source}"


def _resume_forecaster(loop: ControlLoop, source: str, document: Mapping[str, Any]) -> None:
    packed = base64.b64decode(document["archive"], validate=True)
    model, wanted = forecaster_of(packed, f"state of the forecaster of {source!r}"), loop.parts.forecaster
    if model.model_dump() != wanted.model_dump() or model.step_s != loop.settings.sample_s:
        raise ForecastError(
            f"expected a forecaster with the settings of this run, got {model!r} every {model.step_s} s"
        )
    loop.forecasts.resume(source, model)
