"""Every statement that the store runs, in one place; ``?`` stands for a value."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "DELETE_RUN",
    "FORECASTS_FROM",
    "INSERT",
    "LATEST_ACTED",
    "OLDEST_RUN",
    "RUNS",
    "RUNS_CALLED",
    "SEEN",
    "TABLES",
    "TIME",
    "UPSERT_RUN",
    "count_rows",
    "delete_before",
    "delete_key",
    "delete_oldest",
    "delete_unchanged",
    "feature_names",
    "last_seq",
    "last_time",
    "older_rows",
    "rows_after",
    "rows_of",
]

#: The columns of every table, in the order of the rows that the store makes.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "measurements": ("run_id", "seq", "ended_at_s", "duration_s", "resolution_s", "latency_s", "amounts", "cpu"),
    "decisions": ("run_id", "seq", "cycle", "at_s", "status", "changes", "document", "arrays"),
    "forecasts": ("run_id", "seq", "series", "model", "made_at_s", "step_s", "document", "arrays"),
    "events": ("run_id", "seq", "at_s", "kind", "severity", "message", "data"),
    "feature_sets": ("run_id", "id", "names"),
    "features": ("run_id", "seq", "at_s", "resolution_s", "level", "owner", "machine", "set_id", "amounts"),
    "latencies": ("run_id", "seq", "at_s", "duration_s", "resolution_s", "events", "sum_s", "bins"),
}
RUN_COLUMNS = (
    *("id", "name", "status", "created_at_s", "seen_at_s", "clock_offset_s", "started_at_s", "ended_at_s"),
    *("policy", "forecaster", "trace", "td_s", "topology", "layout", "settings", "outcome", "dropped"),
)
#: The column of time of each table that grows with it.
TIME: Mapping[str, str] = {
    "measurements": "ended_at_s",
    "decisions": "at_s",
    "forecasts": "made_at_s",
    "events": "at_s",
    "features": "at_s",
    "latencies": "at_s",
}
TABLES = tuple(TIME)


def _insert(table: str, columns: tuple[str, ...]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


#: A new row of each table. The names of features may be there already.
INSERT: Mapping[str, str] = {
    table: _insert(table, columns) + (" ON CONFLICT DO NOTHING" if table == "feature_sets" else "")
    for table, columns in COLUMNS.items()
}
UPSERT_RUN = (
    _insert("runs", RUN_COLUMNS)
    + " ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{column} = excluded.{column}" for column in RUN_COLUMNS[1:])
)
SEEN = "UPDATE runs SET seen_at_s = ? WHERE id = ?"
RUNS = f"SELECT {', '.join(RUN_COLUMNS)} FROM runs ORDER BY created_at_s, id"
#: Runs by their id, the beginning of it, or their name; those with the very id first, then the latest.
RUNS_CALLED = (
    f"SELECT {', '.join(RUN_COLUMNS)} FROM runs WHERE id = ? OR substr(id, 1, ?) = ? OR name = ? "
    "ORDER BY id = ? DESC, created_at_s DESC, id DESC"
)
#: The last decision that the running system took.
LATEST_ACTED = (
    f"SELECT {', '.join(COLUMNS['decisions'])} FROM decisions "
    "WHERE run_id = ? AND status IN ('applied', 'unchanged') ORDER BY seq DESC LIMIT 1"
)
#: The forecasts of a run's decisions from one on.
FORECASTS_FROM = f"SELECT {', '.join(COLUMNS['forecasts'])} FROM forecasts WHERE run_id = ? AND seq >= ? ORDER BY seq"
#: The run that is over for longest, but for those that are being written.
OLDEST_RUN = "SELECT id FROM runs WHERE seen_at_s < ? ORDER BY seen_at_s, id LIMIT 1"
DELETE_RUN = "DELETE FROM runs WHERE id = ?"


def rows_of(table: str, *conditions: str, since: bool = False, last: bool = False) -> str:
    """Return the query for the rows of a run in the order they came, or the `last` so many, reversed.

    A condition is a column that must have a value; `since` adds an instant after which they must be.
    """
    after = [f"{TIME[table]} > ?"] if since else []
    where = " AND ".join(["run_id = ?", *after, *(f"{column} = ?" for column in conditions)])
    # A sum has no index: the rows are then found by their time and sorted, not read one by one from the first.
    order = "seq DESC LIMIT ?" if last else "seq + 0" if since else "seq"
    return f"SELECT {', '.join(COLUMNS[table])} FROM {table} WHERE {where} ORDER BY {order}"


def rows_after(table: str) -> str:
    """Return the query for the first rows of a run after one, by their numbers, so many of them."""
    return f"SELECT {', '.join(COLUMNS[table])} FROM {table} WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?"


def feature_names() -> str:
    """Return the query for the sets of names of a run's features."""
    return "SELECT id, names FROM feature_sets WHERE run_id = ?"


def last_seq(table: str) -> str:
    """Return the query for the last number that a row of a run has."""
    return f"SELECT MAX(seq) FROM {table} WHERE run_id = ?"


def older_rows(table: str) -> str:
    """Return the query for rows up to an instant that are finer than a resolution."""
    return (
        f"SELECT {', '.join(COLUMNS[table])} FROM {table} "
        f"WHERE run_id = ? AND {TIME[table]} <= ? AND resolution_s < ? ORDER BY {TIME[table]} LIMIT ?"
    )


def delete_before(table: str) -> str:
    """Return the statement that drops rows of a run from before an instant."""
    return f"DELETE FROM {table} WHERE run_id = ? AND {TIME[table]} < ?"


def delete_unchanged(table: str) -> str:
    """Return the statement that drops decisions before an instant that changed nothing, or what belongs to them."""
    idle = "at_s < ? AND status IN ('unchanged', 'skipped')"
    if table == "decisions":
        return f"DELETE FROM decisions WHERE run_id = ? AND {idle}"
    return f"DELETE FROM {table} WHERE run_id = ? AND seq IN (SELECT seq FROM decisions WHERE run_id = ? AND {idle})"


def delete_key(table: str) -> str:
    """Return the statement that drops one row."""
    return f"DELETE FROM {table} WHERE run_id = ? AND seq = ?"


def delete_oldest(table: str) -> str:
    """Return the statement that drops the first rows of a run, so many."""
    return (
        f"DELETE FROM {table} WHERE run_id = ? "
        f"AND seq IN (SELECT seq FROM {table} WHERE run_id = ? ORDER BY seq LIMIT ?)"
    )


def count_rows(table: str) -> str:
    """Return the query for the number of rows of a run."""
    return f"SELECT COUNT(*) FROM {table} WHERE run_id = ?"


def last_time(table: str) -> str:
    """Return the query for the last instant of a run."""
    return f"SELECT MAX({TIME[table]}) FROM {table} WHERE run_id = ?"
