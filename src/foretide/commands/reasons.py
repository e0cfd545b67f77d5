"""Why a decision was made, as plain data and in one line."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np

from foretide.control.decision import changed_counts
from foretide.control.recorded import recalled
from foretide.errors import ConfigError
from foretide.records import Forecast, Plan
from foretide.store import RecordedRun, RunInfo, StoredDecision

__all__ = ["change_of", "decision_account", "find_decision", "has_changed", "reason_of", "require_operator"]

# Decisions that are read at first in search of the last change; then ever more.
_FIRST_LOOK = 32
# A backlog is a reason from this part of the input of an interval on, a change of the input from that part of it on.
_BACKLOG, _DIFFERENCE = 0.1, 0.05
# The symbols under which the planner of slots explains these values.
_TERMS = {
    "input": {"expected_per_s": "λ̂", "low_per_s": "λ̂⁻", "high_per_s": "λ̂⁺"},
    "latency": {"p50_s": "p50", "p95_s": "p95", "promised_s": "τ₀", "planned_for_s": "τ", "broken": "ε"},
}


def find_decision(run: RecordedRun, cycle: int | None) -> StoredDecision:
    """Return the decision of a cycle, or the last one that changed something; without any, the last one.

    Raises
    ------
    ConfigError
        When nothing was decided, or the cycle is not there.
    """
    found = _last_change(run) if cycle is None else run.decision_of_cycle(cycle)
    if found is not None:
        return found
    known = [one.cycle for one in run.decisions()]
    if not known:
        remedy = "only steered runs decide, and old decisions are dropped; `foretide runs list` shows other runs"
        raise ConfigError("RUN", expected="a run with decisions", got=f"{run.id} with none", remedy=remedy)
    near = sorted(sorted(set(known), key=lambda one: abs(one - (cycle or 0)))[:2])
    raise ConfigError(
        "CYCLE",
        expected=f"one of the {len(known)} cycles that the store has of run {run.id}, from {known[0]} to {known[-1]}",
        got=cycle,
        remedy=f"the nearest: {' and '.join(map(str, near))}; `foretide why {run.id} --all` lists them",
    )


def _last_change(run: RecordedRun) -> StoredDecision | None:
    count = _FIRST_LOOK
    while True:
        found = run.decisions(last=count)
        if changed := [one for one in found if has_changed(one)]:
            return changed[-1]
        if len(found) < count:
            return found[-1] if found else None
        count *= 8


def require_operator(info: RunInfo, operator: str) -> None:
    """Raise a `ConfigError` with the nearest name if a run has no such operator."""
    known = info.layout.operators
    if operator not in known:
        close = difflib.get_close_matches(operator, known, n=1)
        remedy = f"did you mean {close[0]!r}?" if close else f"choose one of run {info.id}"
        raise ConfigError("OPERATOR", expected=f"one of {', '.join(known)}", got=repr(operator), remedy=remedy)


def has_changed(decision: StoredDecision) -> bool:
    """Return whether a decision changed something, or would have, had it been taken."""
    action, plan = decision.action, decision.plan
    if action is None or plan is None or action.status == "applied":
        return action is not None and action.status == "applied"
    return not np.array_equal(plan.counted(action.planned), plan.counted(action.observed))


def change_of(decision: StoredDecision) -> str:
    """Return which counts a decision changed, in words; empty if it changed none."""
    action, plan = decision.action, decision.plan
    if action is None or plan is None or not has_changed(decision):
        return ""
    after = action.requested if action.status == "applied" else action.planned
    words = changed_counts(plan, action.observed, after)
    return words if words != "no change" else "work for each slot" if plan.hiring else ""


def reason_of(decision: StoredDecision, info: RunInfo) -> str:
    """Return the one reason for a decision, in a line.

    What went wrong comes first, then warnings and what guards said, a backlog, and the input expected. Of a note only
    its first part is told.
    """
    plan, action = decision.plan, decision.action
    if decision.failure is not None or plan is None:
        return "no plan" if decision.failure is None else str(decision.failure)
    if action is not None and action.detail:
        return action.detail
    if plan.warnings or plan.notes:
        return (plan.warnings or plan.notes)[-1].partition(";")[0]
    seen, expected, backlog = (_input(decision, info)[name] for name in ("seen_per_s", "expected_per_s", "backlog"))
    if seen is None:
        return ""
    if backlog and backlog > _BACKLOG * (expected or seen) * (info.td_s or 1.0):
        return f"backlog of {backlog:,.0f} events"
    if expected is not None and abs(expected - seen) > _DIFFERENCE * max(seen, expected):
        return f"input expected to {'rise' if expected > seen else 'fall'}, {seen:,.0f}/s to {expected:,.0f}/s"
    return f"input of {seen:,.0f}/s" + ("" if expected is None else f", {expected:,.0f}/s expected")


def decision_account(decision: StoredDecision, info: RunInfo, operator: str | None = None) -> dict[str, Any]:
    """Return everything about a decision as plain data; only what concerns `operator`, if it is given."""
    plan, action = decision.plan, decision.action
    return {
        "run": info.id,
        "name": info.name,
        "cycle": decision.cycle,
        "at_s": decision.at_s - info.started_at_s,
        "at": datetime.fromtimestamp(decision.at_s + info.clock_offset_s, UTC).isoformat(timespec="seconds"),
        "policy": info.policy or (plan.planner if plan else ""),
        "forecaster": info.forecaster,
        "status": decision.status,
        "detail": action.detail if action else "",
        "failure": None if decision.failure is None else str(decision.failure),
        "change": change_of(decision),
        "reason": reason_of(decision, info),
        "input": _input(decision, info),
        "latency": _latency(plan),
        "unit": "replicas" if plan is None or plan.stages is None else "slots",
        "counts": [one for one in _counts(decision) if operator is None or operator in one["parts"]],
        "notes": list(plan.notes) if plan else [],
        "warnings": list(plan.warnings) if plan else [],
        "explanations": [one.to_data() for one in recalled(decision).explain(operator)],
    }


def _counts(decision: StoredDecision) -> list[dict[str, Any]]:
    """Return for each stage, or operator, its count before and as planned, and the operators' parts of it."""
    plan, window, action = decision.plan, decision.window, decision.action
    if plan is None:
        return []
    before = action.observed if action else window.replicas if window else None
    requested = None if action is None or action.status != "applied" else plan.counted(action.requested).tolist()
    now = None if before is None else plan.counted(before).tolist()
    members = plan.stages.members if plan.stages else [(at,) for at in range(len(plan.units))]
    return [
        {
            "name": name,
            "now": None if now is None else now[at],
            "planned": planned,
            "requested": None if requested is None else requested[at],
            "hiring": asdict(plan.hiring[name]) if name in plan.hiring else None,
            "parts": {plan.layout.operators[column]: int(plan.replicas[column]) for column in members[at]},
        }
        for at, (name, planned) in enumerate(zip(plan.units, plan.counts.tolist(), strict=True))
    ]


def _input(decision: StoredDecision, info: RunInfo) -> dict[str, float | None]:
    """Return what came, what the planner reckoned with or else the forecasts together, and what waited."""
    window, plan = decision.window, decision.plan
    seen = None if window is None else float(window.arrived.sum()) / window.duration_s
    backlog = None if window is None else float(np.nansum(window.queued))
    planned = _values(plan, _TERMS["input"])
    if planned["expected_per_s"] is None:
        planned = _forecast(decision.forecasts, info.td_s)
    return {"seen_per_s": seen, **planned, "backlog": backlog}


def _forecast(forecasts: Mapping[str, Forecast], td_s: float | None) -> dict[str, float | None]:
    """Return what all sources are expected to send in the next interval, with the widest range that all give."""
    found: dict[str, float | None] = dict.fromkeys(_TERMS["input"])
    if not forecasts:
        return found
    levels = sorted(set.intersection(*(set(one.quantiles) for one in forecasts.values())))
    wanted: dict[str, float | None] = {"expected_per_s": None}
    wanted |= {"low_per_s": levels[0], "high_per_s": levels[-1]} if len(levels) > 1 else {}
    for name, level in wanted.items():
        spans = [(one, td_s or one.step_s * one.mean.size) for one in forecasts.values()]
        found[name] = sum(float(one.interval_events(span_s, 1, level)[0]) / span_s for one, span_s in spans)
    return found


def _latency(plan: Plan | None) -> dict[str, Any] | None:
    """Return the latency that a plan of slots expects, and the promise if there is one."""
    found = _values(plan, _TERMS["latency"])
    if found["p95_s"] is None:
        return None
    promise = next((term.equation for term in plan.terms if term.symbol == "τ₀"), None) if plan else None
    return {**found, "promise": promise}


def _values(plan: Plan | None, symbols: Mapping[str, str]) -> dict[str, float | None]:
    """Return terms that belong to the whole topology, by other names; None where the plan has none."""
    terms = {} if plan is None else {term.symbol: term.values for term in plan.terms}
    values = {name: terms.get(symbol) for name, symbol in symbols.items()}
    return {name: one if isinstance(one, float) and math.isfinite(one) else None for name, one in values.items()}
