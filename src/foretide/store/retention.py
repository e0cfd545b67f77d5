"""How long the store keeps what: everything at first, one row a minute later, then nothing; and never too much."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from foretide.records import Layout
from foretide.store.databases import sql
from foretide.store.databases.database import Connection, Row
from foretide.store.merging import RESOLUTION_S, merge_features, merge_latencies, merge_measurements, minute_of
from foretide.store.rows import TableRow, run_info_of
from foretide.store.samples import RunInfo
from foretide.store.settings import StoreSettings

__all__ = ["Tidied", "delete_run", "make_room", "tidy"]

# Rows that one transaction touches, so that other writers get their turn.
_CHUNK = 2_000
_HOUR_S, _DAY_S = 3_600.0, 86_400.0
# A run that reported this recently is still being written.
_ACTIVE_S = 60.0
# Parts of the bound: above the first, room is made until the second is reached.
_HIGH, _LOW = 0.9, 0.75

Merge = Callable[[str, Layout, Sequence[Row]], list[TableRow]]
_MERGES: dict[str, Merge] = {
    "measurements": merge_measurements,
    "features": merge_features,
    "latencies": merge_latencies,
}


@dataclass(frozen=True)
class Tidied:
    """What tidying up did.

    Parameters
    ----------
    merged : int
        Rows that went into rows of a minute.
    dropped : int
        Rows that were dropped.
    runs : int
        Runs that were dropped as a whole.
    """

    merged: int = 0
    dropped: int = 0
    runs: int = 0


def tidy(connection: Connection, settings: StoreSettings, now_s: float) -> Tidied:
    """Merge and drop what is old enough, and the oldest runs where the store is too large; `now_s` is Unix time."""
    merged = dropped = runs = 0
    for info in [run_info_of(row) for row in connection.rows(sql.RUNS)]:
        if info.seen_at_s < now_s - settings.keep_runs_days * _DAY_S:
            dropped += delete_run(connection, info.id)
            runs += 1
            continue
        loop_now_s = now_s - info.clock_offset_s
        kept_from_s = loop_now_s - settings.keep_days * _DAY_S
        dropped += sum(connection.write(sql.DELETE_BEFORE[table], (info.id, kept_from_s)) for table in sql.TABLES)
        raw_from_s = RESOLUTION_S * math.floor((loop_now_s - settings.raw_hours * _HOUR_S) / RESOLUTION_S)
        dropped += _drop_idle(connection, info.id, raw_from_s)
        merged += sum(_merge(connection, info, table, raw_from_s) for table in _MERGES)
    dropped += connection.write(sql.FORGET, (now_s - settings.keep_runs_days * _DAY_S,))
    if connection.size_bytes() > _HIGH * settings.max_bytes:
        runs += make_room(connection, settings, now_s)
    if merged or dropped or runs:
        connection.compact()
    return Tidied(merged, dropped, runs)


def make_room(connection: Connection, settings: StoreSettings, now_s: float) -> int:
    """Drop the oldest runs until the store is well below its bound, then the oldest parts of those still running.

    Returns
    -------
    int
        How many runs were dropped or shortened.
    """
    touched = 0
    while connection.size_bytes() > _LOW * settings.max_bytes:
        oldest = connection.rows(sql.OLDEST_RUN, (now_s - _ACTIVE_S,))
        if oldest:
            delete_run(connection, oldest[0][0])
            touched += 1
            continue
        shortened = sum(_shorten(connection, row[0]) for row in connection.rows(sql.RUNS))
        touched += shortened
        if not shortened:
            break
    connection.compact()
    return touched


def delete_run(connection: Connection, run_id: str) -> int:
    """Drop a run with everything that belongs to it, a part at a time; return how many rows that were."""
    dropped = 0
    for table in sql.TABLES:
        while count := connection.write(sql.DELETE_OLDEST[table], (run_id, run_id, _CHUNK)):
            dropped += count
    connection.write(sql.DELETE_RUN, (run_id,))
    return dropped


def _shorten(connection: Connection, run_id: str) -> bool:
    """Drop the first quarter of all that a run recorded, and return whether there was anything."""
    dropped = 0
    for table in sql.TABLES:
        count = connection.rows(sql.COUNT[table], (run_id,))[0][0]
        dropped += connection.write(sql.DELETE_OLDEST[table], (run_id, run_id, math.ceil(count / 4)))
    return dropped > 0


def _drop_idle(connection: Connection, run_id: str, instant_s: float) -> int:
    """Drop old decisions that changed nothing, with their forecasts; those that did are kept with their reasons."""
    with connection.transaction():
        return sum(
            connection.write(sql.DELETE_UNCHANGED[table], (run_id, run_id, instant_s))
            for table in ("forecasts", "decisions")
        )


def _merge(connection: Connection, info: RunInfo, table: str, before_s: float) -> int:
    """Put rows from before an instant together, a minute at a time; return how many there were."""
    merged = 0
    while rows := connection.rows(sql.OLDER_ROWS[table], (info.id, before_s, RESOLUTION_S, _CHUNK)):
        # The last minute of a full chunk may go on in the next one.
        minute = minute_of(rows[-1][2])
        whole = [row for row in rows if minute_of(row[2]) != minute] if len(rows) == _CHUNK else rows
        rows = whole or rows
        with connection.transaction():
            connection.write_many(sql.DELETE_KEY[table], [row[:2] for row in rows])
            connection.write_many(sql.INSERT[table], [row for _, row in _MERGES[table](info.id, info.layout, rows)])
        merged += len(rows)
    return merged
