"""Outlets: where the rows of a task leave the topology, from inside the task, without passing the driver (ADR 0026).

A batch is always divided in the same way (`foretide.spark.batches.deals`), so a task of it that runs again makes the
same rows. It sends them in one transaction with the batch's id, under a name that is its own among the tasks of all
batches; where an earlier attempt has, it finds the id there and sends nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import pyarrow as pa

from foretide.spark.errors import OperatorError
from foretide.spark.tasks.contract import Outlet

__all__ = ["OutletSink", "join_rows", "kept_connection"]

T = TypeVar("T")


@runtime_checkable
class OutletSink(Protocol):
    """A sink that tasks may write to themselves."""

    @property
    def outlet(self) -> Outlet | None:
        """What tasks write with; None where the user wants the driver to write."""
        ...


def join_rows(sink: str, batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Return the rows that reached a sink as one table, with the columns of all of them.

    Raises
    ------
    OperatorError
        When a column has several types.
    """
    try:
        return pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise OperatorError(
            sink,
            expected="columns that have one type in all rows that reach it",
            got=error,
            remedy="declare schema= for the operators before it",
        ) from error


# The connection of this worker to each sink, and the name that it goes by there. Tasks wander among workers: to keep
# those with earlier names as well would be to keep many that nobody uses again.
_CONNECTIONS: dict[Hashable, tuple[int, str, Any]] = {}


def kept_connection(key: Hashable, name: str, connect: Callable[[str], T], disconnect: Callable[[T], None]) -> T:
    """Return this process's connection to a sink, made anew where there is none or one by another name."""
    pid, known, connection = _CONNECTIONS.get(key, (0, "", None))
    if pid == os.getpid():
        if known == name:
            return cast(T, connection)
        disconnect(connection)
    made = connect(name)
    _CONNECTIONS[key] = os.getpid(), name, made
    return made
