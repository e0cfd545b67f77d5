"""Reading a state from outside, as of the last commit of its run."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foretide.depot import joined
from foretide.errors import ConfigError
from foretide.state.changes import DELETED, EXPIRES, KEY, PARTITION, change_schema
from foretide.state.errors import DamagedStateError, changelog_of
from foretide.state.keys import decode_key
from foretide.state.ledger import CHANGES, DESCRIPTION, home_of, read_description, read_snapshots
from foretide.store.workspace import Workspace
from foretide.transport import ArrowLog

__all__ = ["key_columns", "known_states", "latest_changes", "read_state"]

# A busy run takes snapshots every few seconds, and a state is read in less.
_TRIES = 10


def known_states(run: str | Path) -> list[str]:
    """Return the operators whose state is kept in the directory of a run."""
    workspace = Workspace.at(run)
    if not workspace.shared:
        return sorted(path.parent.name for path in workspace.root.glob(f"state/*/{DESCRIPTION}"))
    # Folders are not listed where there are none.
    depot = workspace.depot
    try:
        stages = json.loads(depot.read("topology.json"))["stages"]
    except FileNotFoundError:
        return []
    found = (operator for stage in stages.values() for operator in stage["keeps state of"])
    return sorted(operator for operator in found if depot.size(f"state/{operator}/{DESCRIPTION}") is not None)


def read_state(run: str | Path, operator: str) -> pa.Table:
    """Return the state of an operator: the columns of its key, then those of the state, a row for each key.

    The run may be under way; what its batches have not committed is not there.

    Parameters
    ----------
    run : path
        The directory of the run, or its URI: its ``--path``.
    operator : str
        The operator.

    Raises
    ------
    ConfigError
        When the directory has no state of that operator.
    DamagedStateError
        When files of it are missing, cut short or another's.
    """
    known = known_states(run)
    if operator not in known:
        close = difflib.get_close_matches(operator, known, n=1)
        raise ConfigError(
            f"operator {operator!r}",
            expected=f"one whose state is kept in {run}: {', '.join(known) or 'there is none'}",
            got="another",
            remedy=f"did you mean {close[0]!r}?" if close else "give the directory that the run has as its --path",
        )
    rows = latest_changes(_all_changes(Workspace.at(run).place("state", operator), operator))
    keys = [decode_key(key) for key in rows[KEY].to_pylist()]
    columns = {name: pa.array([key[at] for key in keys]) for at, name in enumerate(key_columns(run, operator))}
    state = rows.drop_columns([PARTITION, KEY, DELETED])
    columns |= {name.removeprefix("state."): state[name] for name in state.column_names}
    return pa.table(columns)


def key_columns(run: str | Path, operator: str) -> list[str]:
    """Return the columns that a state is kept by."""
    return list((read_description(Workspace.at(run).place("state", operator)) or {}).get("key", ()))


def _all_changes(root: str, operator: str) -> pa.Table:
    """Return snapshots, and then the changelog in its order."""
    parts = _read_together(root, operator)
    # Whether states had an end of their lives may have changed on the way, and columns have been added.
    parts = [part.drop_columns([EXPIRES]) if EXPIRES in part.column_names else part for part in parts]
    return pa.concat_tables(parts, promote_options="default") if parts else change_schema(pa.schema([])).empty_table()


def _read_together(root: str, operator: str) -> list[pa.Table]:
    """Return the parts of a state, read again where the run has put a snapshot in the place of another meanwhile."""
    for left in range(_TRIES - 1, -1, -1):
        home = home_of(root)
        snapshots = read_snapshots(home, operator)
        try:
            parts = [snapshot.read_whole(operator, partition) for partition, snapshot in snapshots.items()]
            with changelog_of(operator, joined(home, CHANGES)):
                log = ArrowLog(joined(home, CHANGES))
                for piece in log.segments(log.first_offset(), log.end_offset()):
                    parts += [pa.Table.from_batches([rows]) for rows in piece.read()]
        except (OSError, DamagedStateError):
            if not left:
                raise
        else:
            # What a new snapshot has goes from the changelog only after it is named.
            if (home_of(root), read_snapshots(home, operator)) == (home, snapshots) or not left:
                return parts
    raise AssertionError("the last try returns or raises")


def latest_changes(changes: pa.Table) -> pa.Table:
    """Return the last change of each key, those that are gone left out."""
    codes = changes[KEY].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    last = np.full(codes.max(initial=-1) + 1, -1, dtype=np.int64)
    last[codes] = np.arange(codes.size)
    rows = changes.take(pa.array(last))
    return rows.filter(pc.invert(rows[DELETED]))
