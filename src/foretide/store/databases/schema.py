"""The tables of the store, as numbered steps from an empty database to the present one.

A step that was released is never changed: what comes later is a further step. The statements are meant for any SQL
database; the types of columns stand in braces and are filled in with the database's own names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

__all__ = ["COLUMNS", "MIGRATIONS", "POSTGRES_WORDS", "SQLITE_WORDS", "TIME", "Migration", "statements"]

#: The statements that turn a database of one version into the next.
Migration: TypeAlias = tuple[str, ...]

SQLITE_WORDS: Mapping[str, str] = {"text": "TEXT", "bytes": "BLOB", "real": "REAL", "whole": "INTEGER"}
POSTGRES_WORDS: Mapping[str, str] = {"text": "TEXT", "bytes": "BYTEA", "real": "DOUBLE PRECISION", "whole": "BIGINT"}

# The type of every column, with a question mark if it may be NULL; a key never is.
_TYPES: Mapping[str, Mapping[str, str]] = {
    table: dict(column.split() for column in columns.split(", "))
    for table, columns in {
        "runs": "id text?, name text, status text, created_at_s real, seen_at_s real, clock_offset_s real, "
        "started_at_s real, ended_at_s real?, policy text, forecaster text, trace text, td_s real?, topology text, "
        "layout text, settings text, outcome text, dropped text",
        "measurements": "run_id text, seq whole, ended_at_s real, duration_s real, resolution_s real, "
        "latency_s real?, amounts bytes, cpu bytes?",
        "decisions": "run_id text, seq whole, cycle whole, at_s real, status text, changes whole, document text, "
        "arrays bytes",
        "forecasts": "run_id text, seq whole, series text, model text, made_at_s real, step_s real, document text, "
        "arrays bytes",
        "events": "run_id text, seq whole, at_s real, kind text, severity text, message text, data text",
        "feature_sets": "run_id text, id text, names text",
        "features": "run_id text, seq whole, at_s real, resolution_s real, level text, owner text, machine text, "
        "set_id text, amounts bytes",
        "latencies": "run_id text, seq whole, at_s real, duration_s real, resolution_s real, events whole, "
        "sum_s real, bins bytes",
        "knowledge": "topology text, fingerprint text, kind text, version whole, saved_at_s real, document text",
    }.items()
}
#: The columns of every table, in the order of the rows that the store makes.
COLUMNS: Mapping[str, tuple[str, ...]] = {table: tuple(types) for table, types in _TYPES.items()}
#: The column of time of each table that grows with it.
TIME: Mapping[str, str] = {
    "measurements": "ended_at_s",
    "decisions": "at_s",
    "forecasts": "made_at_s",
    "events": "at_s",
    "features": "at_s",
    "latencies": "at_s",
}


def _create(table: str, key: str = "run_id, seq") -> Migration:
    """Return the statements that make a table, whose rows go with the run that they belong to, and its index."""
    owner = {"run_id": " REFERENCES runs (id) ON DELETE CASCADE"}
    lines = [
        f"{name} {{{type.rstrip('?')}}}{'' if type.endswith('?') else ' NOT NULL'}{owner.get(name, '')}"
        for name, type in _TYPES[table].items()
    ]
    made = f"CREATE TABLE {table} ({', '.join(lines)}, PRIMARY KEY ({key}))"
    index = f"CREATE INDEX {table}_by_time ON {table} (run_id, {TIME[table]})" if table in TIME else None
    return (made,) if index is None else (made, index)


#: Step n (from 1) leads to version n.
MIGRATIONS: tuple[Migration, ...] = (
    (
        *_create("runs", key="id"),
        "CREATE INDEX runs_by_name ON runs (name, created_at_s)",
        *_create("measurements"),
        *_create("decisions"),
        *_create("forecasts", key="run_id, seq, series"),
        *_create("events"),
    ),
    (*_create("feature_sets", key="run_id, id"), *_create("features")),
    _create("latencies"),
    _create("knowledge", key="topology, fingerprint, kind"),
)


def statements(version: int, words: Mapping[str, str], migrations: Sequence[Migration] = MIGRATIONS) -> list[str]:
    """Return what has to run to bring a database of `version` up to date, in the database's own dialect.

    >>> len(statements(len(MIGRATIONS), SQLITE_WORDS))
    0
    """
    return [text.format(**words) for step in migrations[version:] for text in step]
