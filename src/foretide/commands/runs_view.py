"""Recorded runs for a terminal, and as plain data for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from foretide.commands.reasons import change_of, reason_of
from foretide.commands.terminal import plain_table
from foretide.store import RecordedRun, RunInfo, StoredDecision

__all__ = [
    "decision_entry",
    "decisions_table",
    "duration",
    "run_details",
    "run_entry",
    "run_view",
    "runs_table",
    "seconds",
]

_STYLES = {"running": "green", "finished": "", "failed": "red", "interrupted": "yellow", "lost": "red"}
_ABOUT_WORKERS = tuple(f"health.{what}" for what in ("suspected", "bypassed", "readmitted", "spared", "refused"))
_PARTS = ("measured", "predicted")
_SHOWN_WORKERS = 20
_SEVERITIES = {"info": "dim", "warning": "yellow", "error": "red"}


def run_entry(info: RunInfo, now_s: float) -> dict[str, Any]:
    """Return a run as plain data."""
    lasted_s = None if info.ended_at_s is None else info.ended_at_s - info.started_at_s
    return {
        "id": info.id,
        "name": info.name,
        "status": _status(info, now_s),
        "began": datetime.fromtimestamp(info.created_at_s, UTC).isoformat(timespec="seconds"),
        "seconds": lasted_s,
        "policy": info.policy,
        "forecaster": info.forecaster,
        "trace": info.trace,
        "td_s": info.td_s,
        "outcome": dict(info.outcome),
        "dropped": dict(info.dropped),
    }


def runs_table(runs: Sequence[RunInfo], now_s: float) -> Table:
    """Return runs as a table."""
    table = _table("run", "name", "status", "began (UTC)", "lasted", "policy", "forecaster", "td", "trace")
    for entry in (run_entry(info, now_s) for info in runs):
        table.add_row(
            entry["id"],
            entry["name"],
            Text(entry["status"], style=_STYLES[entry["status"]]),
            entry["began"][:19].replace("T", " "),
            duration(entry["seconds"]),
            entry["policy"],
            entry["forecaster"],
            seconds(entry["td_s"]),
            entry["trace"],
        )
    return table


def run_details(run: RecordedRun, last: int, now_s: float) -> dict[str, Any]:
    """Return everything shown about a run as plain data."""
    decisions = run.decisions(last=last) if last else []
    events = run.events()[-last:] if last else []
    latency = run.latency()
    return {
        **run_entry(run.info, now_s),
        "operators": _operators(run),
        "latency": {name: _finite(value) for name, value in _latencies(latency).items()},
        "decisions": [decision_entry(decision, run.info) for decision in decisions],
        "workers": _workers(run),
        "events": [
            {"at_s": event.at_s - run.info.started_at_s, "kind": event.kind, "severity": event.severity}
            | {"message": event.message}
            for event in events
        ],
        "settings": dict(run.info.settings),
    }


def run_view(details: Mapping[str, Any]) -> RenderableType:
    """Return the details of a run for a terminal."""
    parts: list[RenderableType] = [_head(details), Text(), _operators_table(details["operators"])]
    if details["latency"]["events"]:
        parts += [Text(), _latency_line(details["latency"])]
    if details["outcome"]:
        parts += [Text(), _pairs("outcome", details["outcome"])]
    if details["decisions"]:
        parts += [Text(), decisions_table(details["decisions"])]
    if details["workers"]:
        parts += [Text(), _workers_table(details["workers"])]
    if details["events"]:
        parts += [Text(), _events_table(details["events"])]
    if details["dropped"]:
        lost = ", ".join(f"{count:,} {kind}" for kind, count in details["dropped"].items())
        parts += [Text(), Text(f"not stored: {lost}", style="yellow")]
    return Group(*parts)


def _status(info: RunInfo, now_s: float) -> str:
    return "lost" if info.status == "running" and not info.is_alive(now_s) else info.status


def _operators(run: RecordedRun) -> list[dict[str, Any]]:
    """Return what the last measurement and the plan in force say about each operator."""
    plan, measured = run.latest_plan(), run.measurements()
    found, dropped = measured[-1:], sum((one.dropped for one in measured), np.zeros(len(run.info.layout.operators)))
    planned: Mapping[str, int] = {} if plan is None else plan.by_operator()
    entries = []
    for column, operator in enumerate(run.info.layout.operators):
        entry: dict[str, Any] = {"operator": operator, "planned": planned.get(operator)}
        for measurement in found:
            entry |= {
                "replicas": int(measurement.replicas[column]),
                "processed_per_s": float(measurement.processed[column] / measurement.duration_s),
                "queued": float(measurement.queued[column]),
                "dropped": float(dropped[column]),
            }
        entries.append(entry)
    return entries


def _workers(run: RecordedRun) -> list[dict[str, Any]]:
    """Return every decision about a worker: who, when, what and why, with predicted and measured times."""
    return [
        {"at_s": event.at_s - run.info.started_at_s, "decision": event.kind.removeprefix("health."), **event.data}
        for kind in _ABOUT_WORKERS
        for event in run.events(kind=kind)
    ]


def _latencies(histogram: Any) -> dict[str, float]:
    quantiles = {f"p{100 * level:.0f}_s": histogram.quantile_s(level) for level in (0.5, 0.95, 0.99)}
    return {"events": histogram.count, "mean_s": histogram.mean_s, **quantiles}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def decision_entry(decision: StoredDecision, info: RunInfo) -> dict[str, Any]:
    """Return a decision in short as plain data: what it changed, and why."""
    action = decision.action
    names = info.layout.operators
    counts = {
        column: dict(zip(names, getattr(action, column).tolist(), strict=True))
        for column in ("planned", "requested", "observed")
        if action is not None
    }
    return {
        "cycle": decision.cycle,
        "at_s": decision.at_s - info.started_at_s,
        "status": decision.status,
        **counts,
        "change": change_of(decision),
        "reason": reason_of(decision, info),
        "notes": [] if decision.plan is None else list(decision.plan.notes),
        "detail": "" if action is None else action.detail,
        "failure": None if decision.failure is None else str(decision.failure),
    }


def _head(details: Mapping[str, Any]) -> Text:
    facts = [details["policy"], details["forecaster"], details["trace"]]
    facts += [f"td {seconds(details['td_s'])}"] if details["td_s"] else []
    return Text.assemble(
        (details["name"], "bold"),
        (f"  {details['id']}  ", "dim"),
        (details["status"], _STYLES[details["status"]]),
        f"\nbegan {details['began']}, lasted {duration(details['seconds'])}",
        (f"\n{', '.join(text for text in facts if text)}" if any(facts) else "", "dim"),
    )


def _operators_table(operators: Sequence[Mapping[str, Any]]) -> Table:
    lossy = ("dropped",) if any(entry.get("dropped") for entry in operators) else ()
    table = _table("operator", "planned", "replicas", "processed/s", "queued", *lossy)
    for entry in operators:
        values = (entry.get(name) for name in ("planned", "replicas", "processed_per_s", "queued", *lossy))
        table.add_row(entry["operator"], *("–" if value is None else f"{value:,.0f}" for value in values))
    return table


def _workers_table(workers: Sequence[Mapping[str, Any]]) -> Table:
    table = _table("at", "worker", "decision", "why", "measured", "predicted")
    for entry in sorted(workers, key=lambda entry: entry["at_s"])[-_SHOWN_WORKERS:]:
        times = (", ".join(f"{name} {_shown(value)}" for name, value in entry.get(part, {}).items()) for part in _PARTS)
        table.add_row(duration(entry["at_s"]), str(entry["worker"]), entry["decision"], entry.get("reason", ""), *times)
    return table


def _latency_line(latency: Mapping[str, Any]) -> Text:
    shown = ", ".join(f"{name} {seconds(latency[f'{name}_s'])}" for name in ("mean", "p50", "p95", "p99"))
    return Text(f"latency of {latency['events']:,} events: {shown}")


def _pairs(title: str, values: Mapping[str, Any]) -> Text:
    return Text(f"{title}: " + ", ".join(f"{name} {_shown(value)}" for name, value in values.items()))


def decisions_table(decisions: Sequence[Mapping[str, Any]], *, brief: bool = False) -> Table:
    """Return decisions as a table; if `brief`, each in one line, however narrow the terminal is."""
    table = _table("cycle", "at", "decision", "change", "why")
    for column in table.columns if brief else ():
        column.no_wrap, column.overflow = True, "ellipsis"
    for entry in decisions:
        table.add_row(
            str(entry["cycle"]), duration(entry["at_s"]), entry["status"], entry["change"], Text(entry["reason"])
        )
    return table


def _events_table(events: Sequence[Mapping[str, Any]]) -> Table:
    table = _table("at", "event", "message")
    for entry in events:
        style = _SEVERITIES[entry["severity"]]
        table.add_row(duration(entry["at_s"]), Text(entry["kind"], style=style), entry["message"])
    return table


def _table(first: str, *others: str) -> Table:
    table = plain_table(first)
    for name in others:
        table.add_column(name, overflow="fold")
    return table


def duration(length_s: float | None) -> str:
    """Return a length of time as minutes and seconds, with hours where there are any."""
    if length_s is None:
        return "–"
    whole = int(length_s)
    hours = f"{whole // 3600}:" if abs(whole) >= 3600 else ""
    return f"{hours}{whole // 60 % 60:02d}:{whole % 60:02d}"


def seconds(value: float | None) -> str:
    """Return a short time with its unit."""
    if value is None:
        return "–"
    return f"{value:g} s" if value >= 1 else f"{value * 1000:.0f} ms"


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
