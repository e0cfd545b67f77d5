"""Reading what was recorded, while it is being recorded or long after."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from foretide.events import Event
from foretide.latency import LatencyHistogram
from foretide.records import Forecast, Measurement, Plan
from foretide.store.arrivals import Arrivals, arrivals_of
from foretide.store.databases import sql
from foretide.store.databases.codec import from_json
from foretide.store.databases.database import Connection
from foretide.store.decisions import StoredDecision, stored_decision
from foretide.store.rows import event_of, feature_sample_of, forecast_of, latency_of, measurement_of_row
from foretide.store.samples import FeatureSample, LatencySample, Level, RunInfo

__all__ = ["News", "RecordedRun", "Resumed"]

_EVER = -float("inf")
# Databases refuse to compare with greater numbers.
_MOST_CYCLES = 2**31 - 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Resumed:
    """What a restarted controller needs to know to continue where the last one stopped.

    Parameters
    ----------
    info : RunInfo
        The run.
    plan : Plan, optional
        The plan in force; None if none was ever applied.
    replicas : mapping of str to int
        The replicas last requested, by operator; empty if none were.
    changed_at_s : mapping of str to float
        When the replicas of an operator last changed, if they did.
    measurements : tuple of Measurement
        The last ones, oldest first, to prime a monitor with.
    cycle : int
        The number of the last cycle; 0 before the first.
    seq : int
        The row of the last measurement; 0 before the first. `RecordedRun.news` after it has those that come.
    """

    info: RunInfo
    plan: Plan | None
    replicas: Mapping[str, int]
    changed_at_s: Mapping[str, float]
    measurements: tuple[Measurement, ...]
    cycle: int
    seq: int


@dataclass(frozen=True, eq=False, kw_only=True)
class News:
    """What was stored of a run since a reader last looked.

    Parameters
    ----------
    seq : int
        Up to which row; where the next call begins.
    measurements, decisions, events, latencies, features : tuples
        The new records, oldest first.
    """

    seq: int
    measurements: tuple[Measurement, ...] = ()
    decisions: tuple[StoredDecision, ...] = ()
    events: tuple[Event, ...] = ()
    latencies: tuple[LatencySample, ...] = ()
    features: tuple[FeatureSample, ...] = ()


class RecordedRun:
    """One run in the store; every call reads what is there at that moment.

    Parameters
    ----------
    info : RunInfo
        What is known about it.
    open : callable
        Opens the store for reading.
    """

    def __init__(self, info: RunInfo, open: Callable[[], AbstractContextManager[Connection]]) -> None:
        self.info = info
        self._open = open

    @property
    def id(self) -> str:
        """Its id."""
        return self.info.id

    def measurements(self, since_s: float = _EVER, last: int | None = None) -> list[Measurement]:
        """Return the measurements that ended after `since_s`, oldest first; only the `last` ones, if given.

        Old ones stand for a minute each.
        """
        return [measurement_of_row(row, self.info.layout) for row in self._rows("measurements", since_s, last)]

    def decisions(self, since_s: float = _EVER, last: int | None = None) -> list[StoredDecision]:
        """Return the decisions made after `since_s` with their reasons, oldest first."""
        return self._with_forecasts(self._rows("decisions", since_s, last))

    def decision(self, seq: int) -> StoredDecision | None:
        """Return the decision at a place in the store, with its reasons; None if there is none."""
        rows = self._rows("decisions", _EVER, where={"seq": seq})
        forecasts = [forecast_of(row) for row in self._rows("forecasts", _EVER, where={"seq": seq})]
        by_series = {forecast.series: forecast for forecast in forecasts}
        return stored_decision(rows[0], self.info.layout, by_series) if rows else None

    def decision_of_cycle(self, cycle: int) -> StoredDecision | None:
        """Return the decision of a cycle, with its reasons; None if it is not there."""
        rows = self._rows("decisions", _EVER, 1, where={"cycle": cycle}) if cycle <= _MOST_CYCLES else []
        return self.decision(rows[0][1]) if rows else None

    def forecasts(self, since_s: float = _EVER, series: str | None = None) -> list[Forecast]:
        """Return the forecasts made after `since_s`, of one series or of all, oldest first."""
        return [forecast_of(row) for row in self._rows("forecasts", since_s, where={"series": series})]

    def events(self, since_s: float = _EVER, kind: str | None = None) -> list[Event]:
        """Return what happened after `since_s`, of one kind or of all, oldest first."""
        return [event_of(row) for row in self._rows("events", since_s, where={"kind": kind})]

    def features(
        self, since_s: float = _EVER, level: Level | None = None, owner: str | None = None
    ) -> list[FeatureSample]:
        """Return the features seen after `since_s`, of one level and owner or of all, oldest first."""
        return self._feature_samples(self._rows("features", since_s, where={"level": level, "owner": owner}))

    def latencies(self, since_s: float = _EVER) -> list[LatencySample]:
        """Return the latencies after `since_s`, one histogram for each stretch of time, oldest first."""
        return [latency_of(row) for row in self._rows("latencies", since_s)]

    def latency(self, since_s: float = _EVER) -> LatencyHistogram:
        """Return all latencies after `since_s` in one histogram."""
        whole = LatencyHistogram()
        for sample in self.latencies(since_s):
            whole.merge(sample.histogram)
        return whole

    def cursor(self) -> int:
        """Return the number of the last row; `news` after it are those that come from now on."""
        with self._open() as connection:
            return max(connection.rows(sql.LAST_SEQ[table], (self.id,))[0][0] or 0 for table in sql.TABLES)

    def news(self, after: int, most: int = 1_000, until: int | None = None) -> News:
        """Return what was stored after row `after`, up to row `until`, at most `most` records of each kind.

        Rows are numbered as they come, so that nothing is missed or returned twice, whatever its clock says.
        """
        # What comes while the tables are read, one after another, is left for the next call.
        last = self.cursor() if until is None else until
        if last <= after:
            return News(seq=after)
        tables = [table for table in sql.TABLES if table != "forecasts"]
        with self._open() as connection:
            rows = {table: connection.rows(sql.ROWS_AFTER[table], (self.id, after, most)) for table in tables}
        # If one kind has more, the others wait for it: the next call begins after the last row returned.
        reached = min([last, *(found[-1][1] for found in rows.values() if len(found) == most)])
        rows = {table: [row for row in found if row[1] <= reached] for table, found in rows.items()}
        return News(
            seq=reached,
            measurements=tuple(measurement_of_row(row, self.info.layout) for row in rows["measurements"]),
            decisions=tuple(self._with_forecasts(rows["decisions"])),
            events=tuple(event_of(row) for row in rows["events"]),
            latencies=tuple(latency_of(row) for row in rows["latencies"]),
            features=tuple(self._feature_samples(rows["features"])),
        )

    def latest_plan(self) -> Plan | None:
        """Return the plan in force: the last one that the running system applied; None before the first."""
        acted = self._latest_acted()
        return None if acted is None else acted.plan

    def arrivals(self, bin_s: float | None = None) -> Arrivals:
        """Return what arrived in each bin of time, to be replayed; see `arrivals_of`."""
        return arrivals_of(f"run-{self.id}", self.measurements(), bin_s)

    def resumed(self, history_s: float) -> Resumed:
        """Return what a restarted controller needs to know, with measurements of the last `history_s` seconds."""
        acted = self._latest_acted()
        operators = self.info.layout.operators
        action = None if acted is None else acted.action
        replicas = {} if action is None else dict(zip(operators, action.requested.tolist(), strict=True))
        with self._open() as connection:
            last_s = connection.rows(sql.LAST_TIME["measurements"], (self.id,))[0][0]
        since_s = _EVER if last_s is None else last_s - history_s
        latest, rows = self._rows("decisions", _EVER, 1), self._rows("measurements", since_s)
        return Resumed(
            info=self.info,
            plan=None if acted is None else acted.plan,
            replicas=replicas,
            changed_at_s=self._changes(),
            measurements=tuple(measurement_of_row(row, self.info.layout) for row in rows),
            cycle=latest[0][2] if latest else 0,
            seq=rows[-1][1] if rows else 0,
        )

    def _changes(self) -> dict[str, float]:
        changed: dict[str, float] = {}
        layout = self.info.layout
        before: list[int] | None = None
        for row in self._rows("decisions", _EVER, where={"status": "applied"}):
            action = stored_decision(row, layout, {}).action
            if action is None:
                continue
            after = action.requested.tolist()
            earlier = action.observed.tolist() if before is None else before
            changed |= {
                name: action.at_s for name, old, new in zip(layout.operators, earlier, after, strict=True) if old != new
            }
            before = after
        return changed

    def _latest_acted(self) -> StoredDecision | None:
        with self._open() as connection:
            rows = connection.rows(sql.LATEST_ACTED, (self.id,))
        return stored_decision(rows[0], self.info.layout, {}) if rows else None

    def _with_forecasts(self, rows: list[tuple[Any, ...]]) -> list[StoredDecision]:
        """Return the decisions of rows with the forecasts that belong to them."""
        if not rows:
            return []
        forecasts: dict[int, dict[str, Forecast]] = defaultdict(dict)
        with self._open() as connection:
            found = connection.rows(sql.FORECASTS_FROM, (self.id, rows[0][1]))
        for row in found:
            forecast = forecast_of(row)
            forecasts[row[1]][forecast.series] = forecast
        return [stored_decision(row, self.info.layout, forecasts.get(row[1], {})) for row in rows]

    def _feature_samples(self, rows: list[tuple[Any, ...]]) -> list[FeatureSample]:
        if not rows:
            return []
        with self._open() as connection:
            sets = connection.rows(sql.FEATURE_NAMES, (self.id,))
        names = {set_id: tuple(from_json(text)) for set_id, text in sets}
        return [feature_sample_of(row, names) for row in rows]

    def _rows(
        self, table: str, since_s: float, last: int | None = None, where: Mapping[str, str | int | None] | None = None
    ) -> list[tuple[Any, ...]]:
        given = {column: value for column, value in (where or {}).items() if value is not None}
        since = since_s > _EVER
        values = (self.id, *((since_s,) if since else ()), *given.values(), *(() if last is None else (last,)))
        query = sql.rows_of(table, *given, since=since, last=last is not None)
        with self._open() as connection:
            rows = connection.rows(query, values)
        return rows if last is None else rows[::-1]
