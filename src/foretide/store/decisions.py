"""Decisions with their reasons, to rows and back.

A row has a JSON document, which says what was decided and why, and one array with all the numbers in it: a term of a
plan has a value for every operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from foretide.records import Action, Forecast, Hiring, Layout, Plan, SharedSlots, Term, Window
from foretide.store.databases.codec import ArrayPack, ArrayShelf, from_json, to_json
from foretide.store.databases.database import Row
from foretide.store.rows import TableRow, forecast_row

__all__ = ["DecisionLike", "FailureLike", "StoredDecision", "StoredFailure", "decision_rows", "stored_decision"]

_WINDOW_COLUMNS = ("arrived", "received", "processed", "queued", "share", "execution_s", "utilisation", "replicas")
_WINDOW_VALUES = ("ended_at_s", "duration_s", "sample_s", "samples")


class FailureLike(Protocol):
    """What stopped a cycle."""

    @property
    def stage(self) -> str:
        """At which step."""

    @property
    def error(self) -> BaseException:
        """What was raised."""

    @property
    def ready(self) -> bool:
        """Whether something is wrong; False if it was only too early."""


class DecisionLike(Protocol):
    """The record of one cycle, as the control loop makes it."""

    @property
    def cycle(self) -> int:
        """Its number."""

    @property
    def at_s(self) -> float:
        """When it ran."""

    @property
    def window(self) -> Window | None:
        """What it saw."""

    @property
    def forecasts(self) -> Mapping[str, Forecast]:
        """What it expected, by source."""

    @property
    def plan(self) -> Plan | None:
        """What it planned, with every term."""

    @property
    def action(self) -> Action | None:
        """The outcome of the plan."""

    @property
    def failure(self) -> FailureLike | None:
        """What stopped it."""


@dataclass(frozen=True)
class StoredFailure:
    """What stopped a cycle: the step, the kind of error and its text."""

    stage: str
    kind: str
    message: str
    ready: bool = True

    def __str__(self) -> str:
        return f"{self.stage}: {self.message}"


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredDecision:
    """The record of one cycle, as read from the store.

    Parameters
    ----------
    seq : int
        Its place in the store.
    cycle, at_s, status
        Its number and instant, and its outcome: ``applied``, ``unchanged``, ``advised``, ``refused``,
        ``skipped`` (too early to decide) or ``failed``.
    window : Window, optional
        What it saw; without the histories, which the measurements hold.
    forecasts : mapping of str to Forecast
        What it expected, by source.
    plan, action : optional
        What it planned, with every term, and the outcome.
    failure : StoredFailure, optional
        What stopped it.
    """

    seq: int
    cycle: int
    at_s: float
    status: str
    window: Window | None = None
    forecasts: Mapping[str, Forecast] = field(default_factory=dict)
    plan: Plan | None = None
    action: Action | None = None
    failure: StoredFailure | None = None


def decision_rows(run_id: str, seq: int, decision: DecisionLike) -> list[TableRow]:
    """Return a decision as a row, and a row for each of its forecasts."""
    arrays = ArrayPack()
    document = {
        "window": None if decision.window is None else _window(decision.window, arrays),
        "plan": None if decision.plan is None else _plan(decision.plan, arrays),
        "action": None if decision.action is None else _action(decision.action, arrays),
        "failure": None if decision.failure is None else _failure(decision.failure),
    }
    changes = 0 if decision.action is None else decision.action.changes
    head = (run_id, seq, decision.cycle, decision.at_s, _status(decision), changes)
    row: TableRow = ("decisions", (*head, to_json(document), arrays.to_bytes()))
    return [row, *(forecast_row(run_id, seq, forecast) for forecast in decision.forecasts.values())]


def stored_decision(row: Row, layout: Layout, forecasts: Mapping[str, Forecast]) -> StoredDecision:
    """Return the decision of a row, given the forecasts that belong to it."""
    _, seq, cycle, at_s, status, _, text, blob = row
    document, arrays = from_json(text), ArrayShelf(blob)
    return StoredDecision(
        seq=seq,
        cycle=cycle,
        at_s=at_s,
        status=status,
        window=document["window"] and _window_of(document["window"], arrays, layout),
        forecasts=forecasts,
        plan=document["plan"] and _plan_of(document["plan"], arrays, layout),
        action=document["action"] and _action_of(document["action"], arrays),
        failure=document["failure"] and StoredFailure(**document["failure"]),
    )


def _status(decision: DecisionLike) -> str:
    if decision.action is not None:
        return decision.action.status
    if decision.failure is not None:
        return "failed" if decision.failure.ready else "skipped"
    return "decided"


def _window(window: Window, arrays: ArrayPack) -> dict[str, Any]:
    columns = {name: arrays.add(getattr(window, name)) for name in _WINDOW_COLUMNS}
    return {
        **{name: getattr(window, name) for name in _WINDOW_VALUES},
        "columns": columns,
        "measurement_ids": window.measurement_ids,
    }


def _window_of(document: Mapping[str, Any], arrays: ArrayShelf, layout: Layout) -> Window:
    columns: dict[str, Any] = {name: arrays.get(place) for name, place in document["columns"].items()}
    columns["replicas"] = columns["replicas"].astype(np.int64)
    return Window(
        layout=layout,
        **{name: document[name] for name in _WINDOW_VALUES},
        arrival_rates=np.empty((0, len(layout.sources))),
        received_rates=np.empty((0, len(layout.operators))),
        **columns,
        measurement_ids=tuple(document["measurement_ids"]),
    )


def _plan(plan: Plan, arrays: ArrayPack) -> dict[str, Any]:
    return {
        "planner": plan.planner,
        "made_at_s": plan.made_at_s,
        "replicas": arrays.add(plan.replicas),
        "demand": None if plan.demand is None else arrays.add(plan.demand),
        "schedule": None if plan.schedule is None else arrays.add(plan.schedule),
        "terms": [
            [term.symbol, term.meaning, term.equation, arrays.add(term.values), term.unit] for term in plan.terms
        ],
        "notes": plan.notes,
        "came_from": plan.came_from,
        "stages": None if plan.stages is None else asdict(plan.stages),
        "hiring": {stage: asdict(rule) for stage, rule in plan.hiring.items()},
        "warnings": plan.warnings,
    }


def _plan_of(document: Mapping[str, Any], arrays: ArrayShelf, layout: Layout) -> Plan:
    demand, schedule = document["demand"], document["schedule"]
    return Plan(
        layout=layout,
        planner=document["planner"],
        made_at_s=document["made_at_s"],
        replicas=arrays.get(document["replicas"]).astype(np.int64),
        demand=None if demand is None else arrays.get(demand),
        schedule=None if schedule is None else arrays.get(schedule).astype(np.int64),
        terms=tuple(
            Term(symbol, meaning, equation, arrays.get(place), unit)
            for symbol, meaning, equation, place, unit in document["terms"]
        ),
        notes=tuple(document["notes"]),
        came_from=tuple(document["came_from"]),
        # Plans were stored without these before they could be slots per stage.
        stages=_stages_of(document.get("stages")),
        hiring={stage: Hiring(**rule) for stage, rule in document.get("hiring", {}).items()},
        warnings=tuple(document.get("warnings", ())),
    )


def _stages_of(document: Mapping[str, Any] | None) -> SharedSlots | None:
    if document is None:
        return None
    return SharedSlots(**{name: _tuples(value) for name, value in document.items()})


def _tuples(value: Any) -> Any:
    """Return lists, and lists in them, as tuples."""
    return tuple(_tuples(one) for one in value) if isinstance(value, list) else value


def _action(action: Action, arrays: ArrayPack) -> dict[str, Any]:
    columns = {name: arrays.add(getattr(action, name)) for name in ("planned", "requested", "observed")}
    fields = {"plan_id": action.plan_id, "at_s": action.at_s, "status": action.status, "detail": action.detail}
    return {**fields, "columns": columns}


def _action_of(document: Mapping[str, Any], arrays: ArrayShelf) -> Action:
    fields = {name: value for name, value in document.items() if name != "columns"}
    columns: dict[str, Any] = {name: arrays.get(place) for name, place in document["columns"].items()}
    return Action(**fields, **columns)


def _failure(failure: FailureLike) -> dict[str, Any]:
    return {
        "stage": failure.stage,
        "kind": type(failure.error).__name__,
        "message": str(failure.error),
        "ready": failure.ready,
    }
