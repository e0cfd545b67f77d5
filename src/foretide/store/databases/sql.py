"""Every statement that the store runs, in one place; ``?`` stands for a value."""

from __future__ import annotations

from collections.abc import Iterable

from foretide.store.databases.schema import COLUMNS, TIME

__all__ = [
    "COUNT",
    "DELETE_BEFORE",
    "DELETE_KEY",
    "DELETE_OLDEST",
    "DELETE_RUN",
    "DELETE_UNCHANGED",
    "FEATURE_NAMES",
    "FORECASTS_FROM",
    "FORGET",
    "INSERT",
    "KNOWLEDGE",
    "LAST_SEQ",
    "LAST_TIME",
    "LATEST_ACTED",
    "OLDER_ROWS",
    "OLDEST_RUN",
    "ROWS_AFTER",
    "RUNS",
    "RUNS_CALLED",
    "SEEN",
    "TABLES",
    "UPSERT_RUN",
    "rows_of",
]

TABLES = tuple(TIME)


def _for_each(text: str, tables: Iterable[str] = TIME) -> dict[str, str]:
    """Return a statement for every table, by its name."""
    return {
        table: text.format(
            table=table,
            columns=", ".join(COLUMNS[table]),
            time=TIME.get(table),
            marks=", ".join("?" * len(COLUMNS[table])),
        )
        for table in tables
    }


_INSERT = _for_each("INSERT INTO {table} ({columns}) VALUES ({marks})", COLUMNS)
_SELECT = _for_each("SELECT {columns} FROM {table}", COLUMNS)

#: A new row of each table. The names of features may be there already; what was learnt replaces what was known.
INSERT = _INSERT | {
    "feature_sets": _INSERT["feature_sets"] + " ON CONFLICT DO NOTHING",
    "knowledge": _INSERT["knowledge"]
    + " ON CONFLICT (topology, fingerprint, kind) DO UPDATE SET "
    + ", ".join(f"{column} = excluded.{column}" for column in COLUMNS["knowledge"][3:]),
}
#: What was learnt about topologies of a name, the latest first, and what is to be forgotten.
KNOWLEDGE = _SELECT["knowledge"] + " WHERE topology = ? AND kind = ? ORDER BY saved_at_s DESC"
FORGET = "DELETE FROM knowledge WHERE saved_at_s < ?"
UPSERT_RUN = (
    _INSERT["runs"]
    + " ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{column} = excluded.{column}" for column in COLUMNS["runs"][1:])
)
SEEN = "UPDATE runs SET seen_at_s = ? WHERE id = ?"
RUNS = _SELECT["runs"] + " ORDER BY created_at_s, id"
#: Runs by their id, the beginning of it, or their name; those with the very id first, then the latest.
RUNS_CALLED = (
    _SELECT["runs"] + " WHERE id = ? OR substr(id, 1, ?) = ? OR name = ? "
    "ORDER BY id = ? DESC, created_at_s DESC, id DESC"
)
#: The run that ended longest ago, except those still being written.
OLDEST_RUN = "SELECT id FROM runs WHERE seen_at_s < ? ORDER BY seen_at_s, id LIMIT 1"
DELETE_RUN = "DELETE FROM runs WHERE id = ?"
#: The last decision that the running system took.
LATEST_ACTED = (
    _SELECT["decisions"] + " WHERE run_id = ? AND status IN ('applied', 'unchanged') ORDER BY seq DESC LIMIT 1"
)
#: The forecasts of a run's decisions from one on.
FORECASTS_FROM = _SELECT["forecasts"] + " WHERE run_id = ? AND seq >= ? ORDER BY seq"
#: The sets of names of a run's features.
FEATURE_NAMES = "SELECT id, names FROM feature_sets WHERE run_id = ?"

#: The first rows of a run after one, by their numbers, up to a limit.
ROWS_AFTER = _for_each("SELECT {columns} FROM {table} WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?")
#: Rows up to an instant that are finer than a resolution, up to a limit.
OLDER_ROWS = _for_each(
    "SELECT {columns} FROM {table} WHERE run_id = ? AND {time} <= ? AND resolution_s < ? ORDER BY {time} LIMIT ?",
    [table for table, columns in COLUMNS.items() if "resolution_s" in columns],
)
#: The last number and the last instant that a row of a run has, and how many rows it has.
LAST_SEQ = _for_each("SELECT MAX(seq) FROM {table} WHERE run_id = ?")
LAST_TIME = _for_each("SELECT MAX({time}) FROM {table} WHERE run_id = ?")
COUNT = _for_each("SELECT COUNT(*) FROM {table} WHERE run_id = ?")
#: Drop one row of a run, those from before an instant, or the first rows up to a limit.
DELETE_KEY = _for_each("DELETE FROM {table} WHERE run_id = ? AND seq = ?")
DELETE_BEFORE = _for_each("DELETE FROM {table} WHERE run_id = ? AND {time} < ?")
DELETE_OLDEST = _for_each(
    "DELETE FROM {table} WHERE run_id = ? AND seq IN (SELECT seq FROM {table} WHERE run_id = ? ORDER BY seq LIMIT ?)"
)
#: Drop the decisions from before an instant that changed nothing, or what belongs to them.
DELETE_UNCHANGED = _for_each(
    "DELETE FROM {table} WHERE run_id = ? AND seq IN "
    "(SELECT seq FROM decisions WHERE run_id = ? AND at_s < ? AND status IN ('unchanged', 'skipped'))"
)


def rows_of(table: str, *conditions: str, since: bool = False, last: bool = False) -> str:
    """Return the query for the rows of a run in the order they came, or the `last` ones, reversed.

    A condition is a column that must have a value; `since` adds an instant after which they must be.
    """
    after = [f"{TIME[table]} > ?"] if since else []
    where = " AND ".join(["run_id = ?", *after, *(f"{column} = ?" for column in conditions)])
    # A sum has no index: the rows are then found by their time and sorted, not read one by one from the first.
    order = "seq DESC LIMIT ?" if last else "seq + 0" if since else "seq"
    return f"{_SELECT[table]} WHERE {where} ORDER BY {order}"
