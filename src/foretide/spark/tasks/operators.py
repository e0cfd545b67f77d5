"""Running a user's function on Arrow batches, whatever it takes: rows, pandas or Arrow.

This code runs in Spark's Python workers. An event on which the function raises is retried and then set aside, the
others go on; a function that breaks its contract stops the stage with an error that names it.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter, thread_time
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq

from foretide.spark.errors import OperatorError
from foretide.spark.tasks.places import line_of
from foretide.spark.tasks.thread_times import stalled_s
from foretide.topology import Operator
from foretide.traces.replay import EVENT_TIME
from foretide.transport.dead_letters import DeadLetter

__all__ = [
    "EVENT_TIME_COLUMN",
    "OperatorRunner",
    "OperatorSpec",
    "Outputs",
    "from_arrow",
    "from_pandas",
    "from_rows",
]

#: What an operator made of a batch: batches by output.
Outputs: TypeAlias = dict[str, list[pa.RecordBatch]]

EVENT_TIME_COLUMN = EVENT_TIME.name
_NULL = pa.null()


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """What a worker needs to know of an operator.

    Parameters
    ----------
    operator : Operator
        What was declared.
    schemas : mapping of str to Schema
        The columns of its outputs, those that are declared.
    retries : int
        How often it is called again for rows on which it raised.
    state : Schema, optional
        The columns of the state that is kept for it by key.
    united : Schema, optional
        The columns of its inputs together, where it has a key and several of them.
    """

    operator: Operator
    schemas: Mapping[str, pa.Schema]
    retries: int = 1
    state: pa.Schema | None = None
    united: pa.Schema | None = None


class OperatorRunner:
    """Runs one operator in a worker and counts what it costs.

    Attributes
    ----------
    rows_in, rows_out, busy_s, cpu_s, stalled_s, failed, failing_s
        Totals since `reset`. `cpu_s` is the time that this thread computed in `busy_s` (SPEC D2), `stalled_s` that for
        which it waited for a core, `failing_s` the part of `busy_s` that went into calls that raised.
    """

    def __init__(self, spec: OperatorSpec) -> None:
        self.spec, self.id = spec, spec.operator.id
        self._function = function = _with_tables(_resolve(spec.operator), spec.operator)
        self._row_seconds: list[float] = []
        mode = spec.operator.mode
        self._call: Callable[[pa.RecordBatch], Outputs] = {
            "arrow": lambda batch: self._collect(function(batch), from_arrow),
            "pandas": lambda batch: self._collect(function(batch.to_pandas()), from_pandas),
            "rows": lambda batch: self._rows(function, batch),
        }[mode]
        self.reset()

    def reset(self) -> None:
        """Reset the counts for a new task."""
        self.rows_in = self.rows_out = self.failed = 0
        self.busy_s = self.cpu_s = self.stalled_s = self.failing_s = self._last_s = 0.0
        self.letters: list[DeadLetter] = []

    def run(self, batch: pa.RecordBatch) -> Outputs:
        """Return what the operator makes of `batch`; events it fails on become dead letters."""
        self.rows_in += batch.num_rows
        before_s = self.busy_s
        with self._timed():
            try:
                outputs = self._attempt(batch)
            except OperatorError:
                raise
            except Exception as error:
                outputs = self._again(batch, error, self.spec.retries)
        self._last_s = self.busy_s - before_s
        self._finish(batch, outputs)
        return outputs

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Count the time of the block, unless it raises; what was computed and stalled lies within what passed."""
        started, computed, stalled = perf_counter(), thread_time(), stalled_s()
        yield
        self.stalled_s += stalled_s() - stalled
        self.cpu_s += thread_time() - computed
        self.busy_s += perf_counter() - started

    def _finish(self, batch: pa.RecordBatch, outputs: Outputs) -> None:
        """Give outputs what travels along unasked, and count them."""
        _keep_event_time(batch, outputs)
        _keep_types(batch, outputs)
        self.rows_out += sum(part.num_rows for parts in outputs.values() for part in parts)

    def row_seconds(self, rows: int) -> list[float]:
        """Return how long each row of the last batch took: measured for a function of rows, else their mean."""
        if len(self._row_seconds) == rows:
            return list(self._row_seconds)
        return [self._last_s / max(rows, 1)] * rows

    def _attempt(self, batch: pa.RecordBatch) -> Outputs:
        """Call the function, and take note of the time if that was in vain."""
        started = perf_counter()
        try:
            return self._call(batch)
        except Exception:
            self.failing_s += perf_counter() - started
            raise

    def _again(self, batch: pa.RecordBatch, error: Exception, retries: int) -> Outputs:
        """Try a failed batch again, then halve it, until the events at fault stand alone."""
        for _ in range(retries):
            try:
                return self._attempt(batch)
            except OperatorError:
                raise
            except Exception as latest:
                error = latest
        if batch.num_rows <= 1:
            self._give_up(batch, error)
            return {}
        half = batch.num_rows // 2
        merged: Outputs = {}
        for part in (batch.slice(0, half), batch.slice(half)):
            try:
                outputs = self._attempt(part)
            except OperatorError:
                raise
            except Exception as latest:
                outputs = self._again(part, latest, self.spec.retries if part.num_rows == 1 else 0)
            for name, batches in outputs.items():
                merged.setdefault(name, []).extend(batches)
        return merged

    def _give_up(self, batch: pa.RecordBatch, error: Exception) -> None:
        self.failed += batch.num_rows
        event = json.dumps(batch.to_pylist()[0] if batch.num_rows else None, default=str)
        self.letters.append(DeadLetter(self.id, type(error).__name__, str(error), event, line_of(error)))

    def _rows(self, function: Callable[..., Any], batch: pa.RecordBatch) -> Outputs:
        """Apply a function of one row: it gives a row, rows, nothing, or a mapping of outputs to those."""
        rows: dict[str, list[Mapping[str, Any]]] = {}
        many = len(self.spec.operator.outputs) > 1
        self._row_seconds.clear()
        before = perf_counter()
        for row in batch.to_pylist():
            result = function(row)
            now = perf_counter()
            self._row_seconds.append(now - before)
            before = now
            if result is None:
                continue
            parts = (
                result.items() if many and isinstance(result, Mapping) else ((self.spec.operator.outputs[0], result),)
            )
            for name, part in parts:
                rows.setdefault(name, []).extend(self._each_row(name, part, row))
        return self._collect(rows, from_rows)

    def _each_row(self, name: str, part: Any, parent: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yield the rows that came of `parent`, which pass on its event time unless they set their own."""
        rows = (part,) if isinstance(part, Mapping) else () if part is None else part
        if not isinstance(rows, Iterable):
            raise self._misfit(name, f"{type(part).__name__} instead of a row")
        for row in rows:
            if not isinstance(row, Mapping):
                raise self._misfit(name, f"{type(row).__name__} instead of a row")
            if EVENT_TIME_COLUMN in parent and EVENT_TIME_COLUMN not in row:
                yield {**row, EVENT_TIME_COLUMN: parent[EVENT_TIME_COLUMN]}
            else:
                yield row

    def _collect(self, result: Any, convert: Callable[[Any, pa.Schema | None], list[pa.RecordBatch]]) -> Outputs:
        if result is None:
            return {}
        operator = self.spec.operator
        by_output = result if isinstance(result, dict) else {operator.outputs[0]: result}
        outputs: Outputs = {}
        for name, part in by_output.items():
            if name not in operator.outputs:
                raise OperatorError(
                    self.id,
                    expected=f"outputs among {list(operator.outputs)}",
                    got=f"the output {name!r}",
                    remedy="declare it in outputs=, or correct the name that the function returns",
                )
            if part is not None:
                outputs[name] = [self._checked(name, batch) for batch in self._converted(name, part, convert)]
        return outputs

    def _converted(
        self, name: str, part: Any, convert: Callable[[Any, pa.Schema | None], list[pa.RecordBatch]]
    ) -> list[pa.RecordBatch]:
        schema = self.spec.schemas.get(name)
        try:
            return convert(part, schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, AttributeError, KeyError) as error:
            raise self._misfit(name, f"{type(part).__name__}: {error}") from error

    def _checked(self, name: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return `batch` in the declared columns and types, or say what is wrong with it."""
        declared = self.spec.schemas.get(name)
        if declared is None or batch.schema.equals(declared):
            return batch
        schema = _and_event_time(declared, batch.schema.names)
        missing = [column for column in schema.names if column not in batch.schema.names]
        if missing:
            raise self._misfit(name, f"columns {batch.schema.names} without {missing}")
        try:
            return pa.RecordBatch.from_arrays(
                [batch[column].cast(schema.field(column).type) for column in schema.names], schema=schema
            )
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise self._misfit(name, f"{_columns(batch.schema)} ({error})") from error

    def _misfit(self, name: str, got: str) -> OperatorError:
        schema = self.spec.schemas.get(name)
        expected = _columns(schema) if schema is not None else "a batch of columns"
        return OperatorError(
            self.id,
            expected=f"{expected} on output {name!r}",
            got=got,
            remedy="change what the function returns, or the schema= declared for it",
        )


def _resolve(operator: Operator) -> Callable[..., Any]:
    function = operator.function
    if callable(function):
        return function
    if not isinstance(function, str):
        got = "none" if function is None else type(function).__name__
        raise OperatorError(
            operator.id, expected="a function to run on Spark", got=got, remedy="declare the operator with one"
        )
    module, _, name = function.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise OperatorError(
            operator.id,
            expected=f"a function {function!r} that workers can import",
            got=f"{type(error).__name__}: {error}",
            remedy="ship its module with spark.submit.pyFiles or SparkContext.addPyFile, or correct the name",
        ) from error
    if not callable(found):
        raise OperatorError(
            operator.id, expected=f"a function {function!r}", got=repr(found), remedy="correct the name"
        )
    return found


def from_arrow(part: Any, schema: pa.Schema | None) -> list[pa.RecordBatch]:
    """Return what a function of Arrow batches gave."""
    return [part] if isinstance(part, pa.RecordBatch) else list(part.to_batches())


def from_pandas(part: Any, schema: pa.Schema | None) -> list[pa.RecordBatch]:
    """Return what a function of pandas frames gave."""
    columns = None if schema is None else _and_event_time(schema, part.columns)
    return [pa.RecordBatch.from_pandas(part, schema=columns, preserve_index=False)]


def from_rows(part: Any, schema: pa.Schema | None) -> list[pa.RecordBatch]:
    """Return rows that a function gave."""
    if schema is None or not part:
        # Arrow would take the columns of the first row for those of all.
        names = dict.fromkeys(name for row in part for name in row)
        columns = {name: [row.get(name) for row in part] for name in names}
        return [pa.RecordBatch.from_pydict(columns, schema=schema)] if part else []
    columns = _and_event_time(schema, part[0])
    for row in part:
        if missing := [name for name in schema.names if name not in row]:
            raise KeyError(f"a row with columns {list(row)} without {missing}")
    return [pa.RecordBatch.from_pylist(part, schema=columns)]


def _and_event_time(schema: pa.Schema, columns: Iterable[str]) -> pa.Schema:
    """Return `schema` and the event time, which travels along unasked where it is there."""
    if EVENT_TIME_COLUMN in schema.names or EVENT_TIME_COLUMN not in columns:
        return schema
    return schema.append(EVENT_TIME)


def _keep_event_time(batch: pa.RecordBatch, outputs: Outputs) -> None:
    """Give event times to outputs that lack them: those of `batch` row by row, or else its latest.

    An output with another number of rows is an aggregate or a selection; what completed it is the latest event.
    """
    if EVENT_TIME_COLUMN not in batch.schema.names:
        return
    times = batch[EVENT_TIME_COLUMN]
    for parts in outputs.values():
        alike = len(parts) == 1 and parts[0].num_rows == batch.num_rows
        for place, part in enumerate(parts):
            if EVENT_TIME_COLUMN not in part.schema.names:
                filled = times if alike else pa.repeat(pc.max(times), part.num_rows)
                parts[place] = part.append_column(EVENT_TIME_COLUMN, filled)


def _keep_types(batch: pa.RecordBatch, outputs: Outputs) -> None:
    """Give a column without any value the type that it has in `batch`: there is nothing else to infer it from."""
    for parts in outputs.values():
        for place, part in enumerate(parts):
            untyped = [number for number, type in enumerate(part.schema.types) if type == _NULL]
            for number in untyped:
                name = part.schema.names[number]
                if name in batch.schema.names:
                    empty = pa.nulls(part.num_rows, batch.schema.field(name).type)
                    parts[place] = parts[place].set_column(number, name, empty)


def _with_tables(function: Callable[..., Any], operator: Operator) -> Callable[..., Any]:
    """Give the function the static tables declared for the operator, each loaded once per worker.

    A table is a path of a Parquet or CSV file, or a function that returns anything.
    """
    tables: Mapping[str, Any] = operator.options.get("tables", {})
    if not tables:
        return function
    return partial(function, **{name: _load_table(operator.id, name, table) for name, table in tables.items()})


def _load_table(operator: str, name: str, table: Any) -> Any:
    try:
        if callable(table):
            return table()
        return pv.read_csv(table) if str(table).endswith(".csv") else pq.read_table(table)
    except Exception as error:
        raise OperatorError(
            operator,
            expected=f"a table {name!r} that workers can load",
            got=f"{type(error).__name__}: {error}",
            remedy="give a path that every worker can read, or a function that returns the table",
        ) from error


def _columns(schema: pa.Schema) -> str:
    return "columns " + ", ".join(f"{field.name} {field.type}" for field in schema)
