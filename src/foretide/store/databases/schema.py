"""The tables of the store, as numbered steps from an empty database to the present one.

A step that was released is never changed: what comes later is a further step. The texts are meant for any SQL
database; what differs between them stands in braces and is filled in by the database's own words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

__all__ = ["MIGRATIONS", "POSTGRES_WORDS", "SQLITE_WORDS", "Migration", "statements"]

#: What turns a database of one version into one of the next.
Migration: TypeAlias = tuple[str, ...]

SQLITE_WORDS: Mapping[str, str] = {"bytes": "BLOB", "real": "REAL", "whole": "INTEGER"}
POSTGRES_WORDS: Mapping[str, str] = {"bytes": "BYTEA", "real": "DOUBLE PRECISION", "whole": "BIGINT"}

_RUNS: Migration = (
    """CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        status TEXT NOT NULL,
        created_at_s {real} NOT NULL,
        seen_at_s {real} NOT NULL,
        clock_offset_s {real} NOT NULL,
        started_at_s {real} NOT NULL,
        ended_at_s {real},
        policy TEXT NOT NULL,
        forecaster TEXT NOT NULL,
        trace TEXT NOT NULL,
        td_s {real},
        topology TEXT NOT NULL,
        layout TEXT NOT NULL,
        settings TEXT NOT NULL,
        outcome TEXT NOT NULL,
        dropped TEXT NOT NULL
    )""",
    "CREATE INDEX runs_by_name ON runs (name, created_at_s)",
    """CREATE TABLE measurements (
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        seq {whole} NOT NULL,
        ended_at_s {real} NOT NULL,
        duration_s {real} NOT NULL,
        resolution_s {real} NOT NULL,
        latency_s {real},
        amounts {bytes} NOT NULL,
        cpu {bytes},
        PRIMARY KEY (run_id, seq)
    )""",
    "CREATE INDEX measurements_by_time ON measurements (run_id, ended_at_s)",
    """CREATE TABLE decisions (
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        seq {whole} NOT NULL,
        cycle {whole} NOT NULL,
        at_s {real} NOT NULL,
        status TEXT NOT NULL,
        changes {whole} NOT NULL,
        document TEXT NOT NULL,
        arrays {bytes} NOT NULL,
        PRIMARY KEY (run_id, seq)
    )""",
    "CREATE INDEX decisions_by_time ON decisions (run_id, at_s)",
    """CREATE TABLE forecasts (
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        seq {whole} NOT NULL,
        series TEXT NOT NULL,
        model TEXT NOT NULL,
        made_at_s {real} NOT NULL,
        step_s {real} NOT NULL,
        document TEXT NOT NULL,
        arrays {bytes} NOT NULL,
        PRIMARY KEY (run_id, seq, series)
    )""",
    "CREATE INDEX forecasts_by_time ON forecasts (run_id, made_at_s)",
    """CREATE TABLE events (
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        seq {whole} NOT NULL,
        at_s {real} NOT NULL,
        kind TEXT NOT NULL,
        severity TEXT NOT NULL,
        message TEXT NOT NULL,
        data TEXT NOT NULL,
        PRIMARY KEY (run_id, seq)
    )""",
    "CREATE INDEX events_by_time ON events (run_id, at_s)",
)

_FEATURES: Migration = (
    """CREATE TABLE feature_sets (
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        id TEXT NOT NULL,
        names TEXT NOT NULL,
        PRIMARY KEY (run_id, id)
    )""",
    """CREATE TABLE features (
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        seq {whole} NOT NULL,
        at_s {real} NOT NULL,
        resolution_s {real} NOT NULL,
        level TEXT NOT NULL,
        owner TEXT NOT NULL,
        machine TEXT NOT NULL,
        set_id TEXT NOT NULL,
        amounts {bytes} NOT NULL,
        PRIMARY KEY (run_id, seq)
    )""",
    "CREATE INDEX features_by_time ON features (run_id, at_s)",
)

_LATENCIES: Migration = (
    """CREATE TABLE latencies (
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        seq {whole} NOT NULL,
        at_s {real} NOT NULL,
        duration_s {real} NOT NULL,
        resolution_s {real} NOT NULL,
        events {whole} NOT NULL,
        sum_s {real} NOT NULL,
        bins {bytes} NOT NULL,
        PRIMARY KEY (run_id, seq)
    )""",
    "CREATE INDEX latencies_by_time ON latencies (run_id, at_s)",
)

#: Step n (from 1) leads to version n.
MIGRATIONS: tuple[Migration, ...] = (_RUNS, _FEATURES, _LATENCIES)


def statements(version: int, words: Mapping[str, str], migrations: Sequence[Migration] = MIGRATIONS) -> list[str]:
    """Return what has to run to bring a database of `version` up to date, in a database's own words.

    >>> len(statements(len(MIGRATIONS), SQLITE_WORDS))
    0
    """
    return [text.format(**words) for step in migrations[version:] for text in step]
