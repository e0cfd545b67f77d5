"""Running an operator that keeps state by key: all rows of a key in one call, with the state it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from foretide.errors import ConfigError
from foretide.spark.errors import OperatorError
from foretide.spark.tasks.keyed_rows import KeyedRows, StateChange, all_null, keys_of, places_of
from foretide.spark.tasks.operators import (
    EVENT_TIME_COLUMN,
    OperatorRunner,
    OperatorSpec,
    Outputs,
    from_arrow,
    from_pandas,
    from_rows,
)
from foretide.state.clock import Timing
from foretide.state.keys import decode_keys, encode_keys
from foretide.state.memory import KeyStates
from foretide.traces.replay import EVENT_TIME

__all__ = ["KeyedRunner"]


class KeyedRunner(OperatorRunner):
    """Runs an operator with a key: its function gets rows and the state of their keys, and gives rows and new state."""

    def __init__(self, spec: OperatorSpec) -> None:
        super().__init__(spec)
        assert spec.state is not None
        self._key, self._columns, self._timing = spec.operator.key, spec.state, Timing.of(spec.operator.options)
        self._together: Callable[[KeyedRows], tuple[Outputs, StateChange]] = {
            "arrow": self._arrow,
            "pandas": self._pandas,
            "rows": self._key_by_key,
        }[spec.operator.mode]

    def reset(self) -> None:
        """Reset the counts for a new task."""
        super().reset()
        #: Rows and keys by partition.
        self.work: dict[int, tuple[int, int]] = {}
        self.hottest: tuple[str, int] = "", 0
        #: Rows that came too late, the latest event in microseconds, and the columns of rows if nobody knew them.
        self.late = 0
        self.latest_us: int | None = None
        self.columns = ""

    def run_keyed(self, rows: pa.RecordBatch | None, state: KeyStates, partitions: int) -> Outputs:
        """Return what the operator makes of keys that are due, and of all rows that a task has for it.

        The states that change are noted. Keys that are due come first: the watermark had passed before the rows came.
        """
        with self._timed():
            rows = None if rows is None else self._united(rows)
            outputs = self._call_due(rows, state)
            if rows is not None:
                self.rows_in += rows.num_rows
                if self._timing.timer and not state.columns:
                    self.columns = rows.schema.serialize().to_pybytes().hex()
                rows = self._in_time(rows, state.watermark_us)
                if rows.num_rows:
                    for name, parts in self._run_rows(rows, state, partitions).items():
                        outputs.setdefault(name, []).extend(parts)
        return outputs

    def _united(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with the columns of all inputs, also of those that a task has no rows of."""
        for field in self.spec.united or ():
            if field.name not in rows.schema.names:
                rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
        return rows

    def _run_rows(self, rows: pa.RecordBatch, state: KeyStates, partitions: int) -> Outputs:
        """Call the function for rows and the states of their keys."""
        columns = [self._column(rows, name) for name in self._key]
        try:
            keys, number, homes = keys_of(columns, self._key, partitions)
            encoded = encode_keys(keys.columns)
        except ConfigError as error:
            raise OperatorError(self.id, expected=error.expected, got=error.got, remedy=error.remedy) from error
        piece = KeyedRows(rows, number, keys, state.look_up(homes, encoded))
        self._count(piece, homes)
        outputs: Outputs = {}
        for base, change in self._run(piece, outputs):
            if change.numbers.size:
                places = change.numbers + base
                # Nearly always all keys change.
                chosen = encoded if places.size == len(encoded) else [encoded[at] for at in places.tolist()]
                state.note(homes[places], chosen, all_null(change.state), change.state)
        self._finish(rows, outputs)
        return outputs

    def _call_due(self, rows: pa.RecordBatch | None, state: KeyStates) -> Outputs:
        """Call the function for keys that are due, without rows; a timer that is left as it was goes."""
        due = state.due()
        if due is None:
            return {}
        schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(state.columns))) if rows is None else rows.schema
        none = pa.RecordBatch.from_pylist([], schema=schema)
        types = [schema.field(name).type for name in self._key]
        keys = pa.RecordBatch.from_arrays(decode_keys(due.keys, types), names=list(self._key))
        outputs: Outputs = {}
        changes = self._run(KeyedRows(none, np.empty(0, dtype=np.int64), keys, due.state), outputs)
        after = self._after_call(due.state, changes)
        state.note(due.partitions, due.keys, all_null(after), after)
        if EVENT_TIME_COLUMN in schema.names:
            latest = self._completed_at(rows, due.state, state.now_us)
            for parts in outputs.values():
                parts[:] = [_with_event_time(part, latest) for part in parts]
        self._finish(none, outputs)
        return outputs

    def _completed_at(self, rows: pa.RecordBatch | None, due: pa.RecordBatch, now_us: int) -> pa.Scalar:
        """Return the event time of what timers bring: theirs, or where clocks differ that of the latest event."""
        if self._timing.time == EVENT_TIME_COLUMN:
            return pc.max(due[self._timing.timer]).cast(EVENT_TIME.type)
        return pa.scalar(now_us).cast(EVENT_TIME.type) if rows is None else pc.max(rows[EVENT_TIME_COLUMN])

    def _after_call(self, before: pa.RecordBatch, changes: Sequence[tuple[int, StateChange]]) -> pa.RecordBatch:
        """Return the states of keys that were called: those that the function gave, and the others without timers."""
        chosen, first = np.arange(before.num_rows), before.num_rows
        for base, change in changes:
            chosen[change.numbers + base] = first + np.arange(change.numbers.size)
            first += change.numbers.size
        both = pa.Table.from_batches([before, *(change.state for _, change in changes)]).take(pa.array(chosen))
        [after] = both.combine_chunks().to_batches()
        place = self._columns.get_field_index(self._timing.timer)
        rests = pc.fill_null(pc.equal(after[place], before[place]), fill_value=False)
        timers = pc.if_else(rests, pa.scalar(None, after[place].type), after[place])
        return after.set_column(place, self._columns.field(place), timers)

    def _in_time(self, rows: pa.RecordBatch, watermark_us: int | None) -> pa.RecordBatch:
        """Return the rows that are not late, and take note of the latest event and of how many are late."""
        if self._timing.watermark_s is None:
            return rows
        name = self._timing.time
        if name not in rows.schema.names or not pa.types.is_timestamp(rows.schema.field(name).type):
            raise OperatorError(
                self.id,
                expected=f"a column {name!r} of timestamps, which its watermark goes by",
                got=f"columns {', '.join(f'{field.name} {field.type}' for field in rows.schema)}",
                remedy="name the column with event_time=, or leave watermark_s= out",
            )
        times = rows[name].cast(pa.timestamp("us")).view(pa.int64())
        self.latest_us = pc.max(times).as_py()
        if watermark_us is None:
            return rows
        late = pc.fill_null(pc.less(times, watermark_us), fill_value=False)
        self.late = pc.sum(late).as_py() or 0
        return rows.filter(pc.invert(late)) if self.late else rows

    def _count(self, piece: KeyedRows, homes: NDArray[np.int64]) -> None:
        """Count rows and keys by partition, and find the key that has most."""
        by_key = np.bincount(piece.number, minlength=piece.keys.num_rows)
        rows, keys = np.bincount(homes, weights=by_key), np.bincount(homes)
        self.work = {int(at): (int(rows[at]), int(keys[at])) for at in np.flatnonzero(keys)}
        hot = int(by_key.argmax())
        self.hottest = str(tuple(piece.keys.slice(hot, 1).to_pylist()[0].values())), int(by_key[hot])

    def _run(self, piece: KeyedRows, outputs: Outputs) -> list[tuple[int, StateChange]]:
        """Call the function, and where it raises for halves of the keys, until those at fault stand alone.

        Return the changes with the number of the first key of each.
        """
        waiting, changes = [(0, piece)], []
        while waiting:
            base, part = waiting.pop()
            try:
                made, change = self._tried(part, self.spec.retries if part is piece or part.keys.num_rows == 1 else 0)
            except OperatorError:
                raise
            except Exception as error:
                if part.keys.num_rows > 1:
                    first, second = part.halves()
                    waiting += [(base + first.keys.num_rows, second), (base, first)]
                    continue
                # A key that was due has no rows.
                failed = part.rows if part.rows.num_rows else part.given
                for row in range(failed.num_rows):
                    self._give_up(failed.slice(row, 1), error)
                continue
            changes.append((base, change))
            for name, batches in made.items():
                outputs.setdefault(name, []).extend(batches)
        return changes

    def _tried(self, piece: KeyedRows, retries: int) -> tuple[Outputs, StateChange]:
        while True:
            started = perf_counter()
            try:
                return self._together(piece)
            except Exception as error:
                self.failing_s += perf_counter() - started
                if isinstance(error, OperatorError) or not retries:
                    raise
                retries -= 1

    def _arrow(self, piece: KeyedRows) -> tuple[Outputs, StateChange]:
        result, state = self._pair(self._function(piece.rows, piece.given))
        outputs = self._collect(result, from_arrow)
        if state is None:
            return outputs, self._unchanged
        if isinstance(state, pa.Table):
            state = state.combine_chunks().to_batches()[0] if state.num_rows else self._nothing(piece)
        if not isinstance(state, pa.RecordBatch):
            raise self._bad_state(f"{type(state).__name__} instead of a batch of columns")
        keys = [self._state_column(state, name) for name in self._key]
        columns = [name for name in self._columns.names if name in state.schema.names]
        return outputs, self._change(piece, places_of(piece.keys.columns, keys), state.select(columns))

    def _pandas(self, piece: KeyedRows) -> tuple[Outputs, StateChange]:
        import pandas as pd

        keys, frame, rows_in = piece.keys.to_pandas(), piece.state.to_pandas(), piece.rows.to_pandas()
        # Of a null, pandas makes None or NaN, and finds the one where the other is by chance only; what groups by a key
        # makes NaN.
        nulls = [name for name in self._key if piece.keys[name].null_count]
        for part in (keys, rows_in) if nulls else ():
            part[nulls] = part[nulls].mask(part[nulls].isna(), np.nan)
        frame.index = pd.Index(keys.iloc[:, 0]) if len(self._key) == 1 else pd.MultiIndex.from_frame(keys)
        given = frame.index
        result, state = self._pair(self._function(rows_in, frame))
        outputs = self._collect(result, from_pandas)
        if state is None:
            return outputs, self._unchanged
        if not isinstance(state, pd.DataFrame):
            raise self._bad_state(f"{type(state).__name__} instead of a frame indexed by key")
        try:
            columns = [name for name in self._columns.names if name in state.columns]
            schema = pa.schema([self._columns.field(name) for name in columns])
            rows = pa.RecordBatch.from_pandas(state[columns], schema=schema, preserve_index=False)
        except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError) as error:
            raise self._bad_state(str(error)) from error
        if list(state.index.names) != list(given.names):
            raise self._bad_state(f"a frame indexed by {list(state.index.names)}")
        if state.index is given or state.index.equals(given):
            return outputs, self._change(piece, None, rows)
        after = state.index.where(state.index.notna(), np.nan) if nulls and len(self._key) == 1 else state.index
        return outputs, self._change(piece, given.get_indexer(after), rows)

    def _key_by_key(self, piece: KeyedRows) -> tuple[Outputs, StateChange]:
        """Call the function for one key after another: with the key, its rows, and its state or None."""
        order = np.argsort(piece.number, kind="stable")
        rows = piece.rows.take(pa.array(order)).to_pylist()
        ends = np.cumsum(np.bincount(piece.number, minlength=piece.keys.num_rows)).tolist()
        keys = list(zip(*(column.to_pylist() for column in piece.keys.columns), strict=True))
        known, states = piece.known.tolist(), piece.state.to_pylist()
        made: dict[str, list[Mapping[str, Any]]] = {}
        numbers, changed, first = list[int](), list[Mapping[str, Any]](), 0
        many, output = len(self.spec.operator.outputs) > 1, self.spec.operator.outputs[0]
        for number, end in enumerate(ends):
            own, state = rows[first:end], states[number] if known[number] else None
            key = keys[number] if len(self._key) > 1 else keys[number][0]
            result, after = self._pair(self._function(key, own, state))
            first = end
            if after is None:
                if known[number]:
                    numbers.append(number)
                    changed.append({})
            elif isinstance(after, Mapping):
                numbers.append(number)
                changed.append(after)
            else:
                raise self._bad_state(f"{type(after).__name__} instead of a row or None")
            if result is not None:
                parts = result.items() if many and isinstance(result, Mapping) else ((output, result),)
                for name, part in parts:
                    made.setdefault(name, []).extend(self._each_row(name, part, own[-1] if own else {}))
        unknown = {name for after in changed for name in after} - set(self._columns.names)
        if unknown:
            raise self._bad_state(f"a column {min(unknown)!r}")
        try:
            state = pa.RecordBatch.from_pylist(changed, schema=self._columns)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise self._bad_state(str(error)) from error
        return self._collect(made, from_rows), StateChange(np.array(numbers, dtype=np.int64), state)

    def _change(self, piece: KeyedRows, numbers: NDArray[np.int64] | None, state: pa.RecordBatch) -> StateChange:
        """Return the change to the states of some keys, by their numbers; None for all keys in their order."""
        missing = [name for name in self._columns.names if name not in state.schema.names]
        if missing:
            raise self._bad_state(f"columns {state.schema.names} without {missing}")
        try:
            arrays = [state[name].cast(self._columns.field(name).type) for name in self._columns.names]
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise self._bad_state(str(error)) from error
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._columns)
        if numbers is None:
            numbers = np.arange(piece.keys.num_rows)
        else:
            if (numbers < 0).any():
                raise self._bad_state(f"row {int(np.argmin(numbers))} of a key of which there are no rows")
            order = np.argsort(numbers, kind="stable")
            numbers, rows = numbers[order], rows.take(pa.array(order))
            if (np.diff(numbers) == 0).any():
                raise self._bad_state("two rows of one key")
        # A key that had no state and gets none has not changed.
        changed = piece.known[numbers] | ~all_null(rows)
        if changed.all():
            return StateChange(numbers, rows)
        return StateChange(numbers[changed], rows.take(pa.array(np.flatnonzero(changed))))

    @property
    def _unchanged(self) -> StateChange:
        return StateChange(np.empty(0, dtype=np.int64), pa.RecordBatch.from_pylist([], schema=self._columns))

    def _nothing(self, piece: KeyedRows) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], schema=pa.schema([*piece.keys.schema, *self._columns]))

    def _pair(self, result: Any) -> tuple[Any, Any]:
        if not (isinstance(result, tuple) and len(result) == 2):
            raise OperatorError(
                self.id,
                expected="a function that returns two things, its output and the new state",
                got=type(result).__name__,
                remedy="return (output, state); None for either of them where there is none",
            )
        return result

    def _column(self, rows: pa.RecordBatch, name: str) -> pa.Array:
        if name not in rows.schema.names:
            raise OperatorError(
                self.id,
                expected=f"a column {name!r}, which its state is kept by",
                got=f"columns {rows.schema.names}",
                remedy="change key=, or what the operators before it return",
            )
        return rows[name]

    def _state_column(self, state: pa.RecordBatch, name: str) -> pa.Array:
        if name not in state.schema.names:
            raise self._bad_state(f"columns {state.schema.names} without the key {name!r}")
        return state[name]

    def _bad_state(self, got: str) -> OperatorError:
        columns = ", ".join(f"{field.name} {field.type}" for field in self._columns)
        return OperatorError(
            self.id,
            expected=f"a state of columns {columns} for keys that it was given",
            got=got,
            remedy="change the state that the function returns, or state=",
        )


def _with_event_time(rows: pa.RecordBatch, at: pa.Scalar) -> pa.RecordBatch:
    """Return rows with an event time: their own, or else this one."""
    if EVENT_TIME_COLUMN in rows.schema.names:
        return rows
    return rows.append_column(EVENT_TIME_COLUMN, pa.repeat(at, rows.num_rows))
