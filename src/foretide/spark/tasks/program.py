"""What a Spark task does: read its slice, run operators one after another, hand rows on.

A stage runs as one Spark job per batch: a first round of tasks reads the stage's inputs, and each exchange adds a
round. Rows change tasks as Arrow batches packed into binary cells, one per edge and target, so that Spark moves a few
large values instead of many small rows and every edge can have columns of its own (ADR 0007). What is not for another
task, namely statistics and descriptions of what was written, travels in the same envelope to the driver.
"""

from __future__ import annotations

import json
import pickle
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from foretide.compile.stages import EdgePlan, Stage
from foretide.errors import ConfigError
from foretide.grouping import Assignment, Grouping, hash_columns
from foretide.health.task_features import FeatureOrder, TaskTimes
from foretide.spark.errors import OperatorError
from foretide.spark.tasks.operators import (
    EVENT_TIME_COLUMN,
    OperatorRunner,
    OperatorSpec,
)
from foretide.spark.tasks.statistics import EventTimes
from foretide.topology import DEFAULT_OUTPUT
from foretide.transport.contract import OpenSegment, SegmentInfo, SegmentWriter
from foretide.transport.dead_letters import DeadLetter, dead_letter_batch

__all__ = ["ENVELOPE", "RESULT", "BatchOrder", "EdgeWriter", "Program", "Slice", "StageTask", "prepare", "unpack"]

ENVELOPE = pa.schema([("target", pa.int32()), ("edge", pa.int32()), ("payload", pa.binary())])
"""The columns in which rows change tasks."""

# Executed tuples that a task reports to OSG at most; sketches need no more, and the driver reads them all.
_REPORTED = 4096

#: The edge number of a result: JSON for the driver.
RESULT = -1

#: What changes tasks: a target, the number of an edge, and rows packed for it.
_Cell: TypeAlias = tuple[int, int, "bytes | pa.Buffer"]


class Slice(Protocol):
    """The part of a stage's input that one task reads: small and picklable."""

    @property
    def element(self) -> str:
        """The source or, for a queued edge, its name."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield its rows."""
        ...


class EdgeWriter(Protocol):
    """Where rows leave a stage from inside a task: a log or a sink that tasks write to."""

    def open(self) -> OpenSegment:
        """Start writing."""
        ...


@dataclass(frozen=True)
class BatchOrder:
    """What is particular to one batch; the same for all its tasks.

    Parameters
    ----------
    batch_id, slots : int
        Which batch, and how many tasks run side by side.
    slices : sequence of sequences of Slice
        What each task of the first round reads; empty when rows come from a DataFrame.
    routes : mapping of int to Grouping
        How rows spread at each exchange, by edge number.
    writers : mapping of int to SegmentWriter
        Where rows go that leave the stage, by edge number.
    collected : frozenset of int
        Edges whose rows go to the driver.
    dead_letters : SegmentWriter, optional
        Where failed events go.
    encoders : mapping of int to callable
        What is done to rows before they go to the driver, by edge number.
    """

    batch_id: int
    slots: int
    slices: Sequence[Sequence[Slice]] = ()
    routes: Mapping[int, Grouping] = field(default_factory=dict)
    writers: Mapping[int, SegmentWriter | EdgeWriter] = field(default_factory=dict)
    collected: frozenset[int] = frozenset()
    dead_letters: SegmentWriter | None = None
    encoders: Mapping[int, Callable[[pa.RecordBatch], pa.RecordBatch]] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """What is the same for all batches of a stage."""

    stage: Stage
    operators: Mapping[str, OperatorSpec]
    statistics: bool = True
    features: FeatureOrder | None = None


class StageTask:
    """The function that Spark's `mapInArrow` calls, one object per round of a batch.

    The program is pickled once, on the driver; a worker keeps what it has unpacked, so that later batches cost
    nothing but the copy, and operators may keep what they load.

    Parameters
    ----------
    key : str
        Names the program among all that a worker may see.
    program : bytes
        The pickled `Program`.
    order : BatchOrder
        The batch.
    first : bool
        Whether this is the first round.
    entry : str, optional
        The element whose output the rows of the first round are, where Spark has read them.
    """

    def __init__(self, key: str, program: bytes, order: BatchOrder, *, first: bool, entry: str | None = None) -> None:
        self._key, self._program, self._order = key, program, order
        self._first, self._entry = first, entry

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task of the partition that Spark calls it for."""
        from pyspark import TaskContext

        context = TaskContext.get()
        return self.run(context.partitionId() if context is not None else 0, batches)

    def run(self, replica: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task of one replica: take what came for it, yield what is for others and for the driver."""
        work = _Work(_machine(self._key, self._program), self._order, replica)
        try:
            if not self._first:
                yield from work.take_envelopes(batches)
            elif self._entry is not None:
                work.take_frame(self._entry, batches)
            else:
                for _ in batches:
                    pass
                work.take_slices(self._slices(replica))
            for cells in work.finish():
                yield _envelope(cells)
        except BaseException:
            work.discard()
            raise

    def run_alone(self, replica: int, nothing: Iterable[Any]) -> Iterator[tuple[int, bytes]]:
        """Run the task of one replica in a stage without exchanges: yield edges and cells, all for the driver.

        This is for `RDD.mapPartitionsWithIndex`, which starts a job in half the time of a DataFrame.
        """
        work = _Work(_machine(self._key, self._program), self._order, replica)
        try:
            work.take_slices(self._slices(replica))
            for cells in work.finish():
                yield from ((edge, _as_bytes(payload)) for _, edge, payload in cells)
        except BaseException:
            work.discard()
            raise

    def _slices(self, replica: int) -> Sequence[Slice]:
        return self._order.slices[replica] if replica < len(self._order.slices) else ()


@dataclass
class _Machine:
    """A program ready to run in this worker."""

    program: Program
    runners: dict[str, OperatorRunner]
    edges: dict[int, EdgePlan]


# Programs that a worker keeps ready, the latest used last; a long-lived Spark application may run many topologies.
_KEPT_MACHINES = 64
_MACHINES: dict[str, _Machine] = {}


def _machine(key: str, program: bytes) -> _Machine:
    if key not in _MACHINES:
        try:
            loaded: Program = pickle.loads(program)
        except (ImportError, AttributeError) as error:
            raise OperatorError(
                key.partition("/")[0],
                expected="functions that workers can import",
                got=f"{type(error).__name__}: {error}",
                remedy="ship the module with spark.submit.pyFiles or SparkContext.addPyFile",
            ) from error
        runners = {
            id: OperatorRunner(spec) for id, spec in loaded.operators.items() if spec.operator.mode != "dataframe"
        }
        edges = {plan.number: plan for plan in (*loaded.stage.inputs, *loaded.stage.edges)}
        _MACHINES[key] = _Machine(loaded, runners, edges)
        if len(_MACHINES) > _KEPT_MACHINES:
            del _MACHINES[next(iter(_MACHINES))]
    machine = _MACHINES.pop(key)
    _MACHINES[key] = machine
    return machine


def prepare(key: str, program: bytes) -> None:
    """Load a program in this worker before it is needed; what is wrong with it is left to the first task to report."""
    with suppress(Exception):
        _machine(key, program)


class _Work:
    """One task: rows in, operators, rows out."""

    def __init__(self, machine: _Machine, order: BatchOrder, replica: int) -> None:
        self._machine, self._order, self._replica = machine, order, replica
        self._outgoing = machine.program.stage.outgoing
        self._exchanged = {plan.number for plan in machine.program.stage.exchanges}
        self._parcels: dict[tuple[int, int], list[pa.RecordBatch]] = defaultdict(list)
        self._writers: dict[tuple[int, pa.Schema], OpenSegment] = {}
        self._sinks = {sink.id for sink in machine.program.stage.sinks}
        self._crossed: dict[int, int] = defaultdict(int)
        self._waited_s: dict[str, float] = defaultdict(float)
        self._event_times, self._times, self._sent = EventTimes(), TaskTimes(), 0
        self._executed: dict[int, tuple[list[int], list[float]]] = defaultdict(lambda: ([], []))
        self._unread: list[DeadLetter] = []
        self._routes = {number: route.at_barrier(replica) for number, route in order.routes.items()}
        self._first_id = _first_id(order.batch_id, replica)
        for runner in machine.runners.values():
            runner.reset()

    def take_slices(self, slices: Iterable[Slice]) -> None:
        """Read this task's part of the stage's inputs."""
        inputs = {plan.name: plan for plan in self._machine.program.stage.inputs}
        for part in slices:
            for batch in part.batches():
                if part.element in inputs:
                    self._cross(inputs[part.element], batch)
                else:
                    self._leave(part.element, DEFAULT_OUTPUT, batch)
            # What a source could not make rows of; most kinds have none.
            self._unread += getattr(part, "letters", ())

    def take_frame(self, entry: str, batches: Iterable[pa.RecordBatch]) -> None:
        """Take rows that Spark has read, as the output of the element called `entry`."""
        for batch in batches:
            self._leave(entry, DEFAULT_OUTPUT, batch)

    def take_envelopes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack the rows that came for this task; results of earlier rounds pass through to the driver."""
        for batch in batches:
            for edge, payload in zip(batch["edge"].to_pylist(), batch["payload"], strict=True):
                if edge < 0 or edge in self._order.collected:
                    yield _envelope([(0, edge, payload.as_buffer())])
                else:
                    for rows in unpack(payload.as_buffer()):
                        self._enter(self._machine.edges[edge], rows)

    def finish(self) -> Iterator[list[_Cell]]:
        """Yield what is for other tasks and for the driver."""
        self._times.finishing()
        parcels = [
            (target, number, _pack(alike))
            for (number, target), rows in self._parcels.items()
            for alike in _by_schema(rows)
        ]
        if parcels:
            yield parcels
        self._sent = len(parcels) + len(self._writers)
        written: dict[int, list[Any]] = defaultdict(list)
        for (number, _), writer in self._writers.items():
            written[number].append(_described(writer.close()))
        self._writers.clear()
        yield [(0, RESULT, json.dumps(self._result(written)).encode())]

    def discard(self) -> None:
        """Give up what was written, since the task failed."""
        for writer in self._writers.values():
            writer.discard()

    def _leave(self, element: str, output: str, batch: pa.RecordBatch) -> None:
        """Send the rows of an output down every edge that leaves it."""
        plans = self._outgoing.get((element, output), ())
        if not plans:
            self._arrived(batch)
        for plan in plans:
            self._cross(plan, batch)

    def _cross(self, plan: EdgePlan, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        number = plan.number
        self._crossed[number] += batch.num_rows
        if number in self._exchanged:
            self._spread(plan, batch)
        elif number in self._order.collected:
            encode = self._order.encoders.get(number)
            self._parcels[number, 0].append(batch if encode is None else encode(batch))
            self._arrived(batch)
        elif number in self._order.writers:
            # A file has one schema; rows of an operator that declares none may differ from batch to batch.
            place = number, batch.schema
            if place not in self._writers:
                self._writers[place] = self._order.writers[number].open()
            self._writers[place].append(batch)
            if plan.edge.end in self._sinks:
                self._arrived(batch)
        else:
            self._enter(plan, batch)

    def _enter(self, plan: EdgePlan, batch: pa.RecordBatch) -> None:
        """Run the operator at the end of an edge; a sink there that nobody writes for only counts."""
        runner = self._machine.runners.get(plan.edge.end)
        if runner is None:
            self._arrived(batch)
            return
        if self._machine.program.statistics and EVENT_TIME_COLUMN in batch.schema.names:
            self._waited_s[runner.id] += self._event_times.waited_s(batch[EVENT_TIME_COLUMN], time.time())
        outputs = runner.run(batch)
        if plan.edge.grouping.name == "osg" and plan.number in self._exchanged:
            keys, seconds = self._executed[plan.number]
            keys.extend(_keys(plan, batch, 0).tolist())
            seconds.extend(runner.row_seconds(batch.num_rows))
        for output, parts in outputs.items():
            for part in parts:
                self._leave(runner.id, output, part)

    def _spread(self, plan: EdgePlan, batch: pa.RecordBatch) -> None:
        """Divide rows among the tasks of the next round."""
        first = self._first_id + self._crossed[plan.number] - batch.num_rows
        rows, targets = self._assign(plan, _keys(plan, batch, first))
        order = np.argsort(targets, kind="stable")
        indices = order if rows is None else rows[order]
        counts = np.bincount(targets, minlength=self._order.slots)
        sorted_rows = batch.take(pa.array(indices))
        ends = np.cumsum(counts)
        for target in np.flatnonzero(counts).tolist():
            first = int(ends[target] - counts[target])
            self._parcels[plan.number, target].append(sorted_rows.slice(first, int(counts[target])))

    def _assign(self, plan: EdgePlan, keys: np.ndarray) -> Assignment:
        try:
            return self._routes[plan.number].assign_together(keys)
        except ConfigError as error:
            raise _unroutable(plan, f"{error.expected} in {_fields(plan)}", error.got) from error

    def _arrived(self, batch: pa.RecordBatch) -> None:
        if self._machine.program.statistics and EVENT_TIME_COLUMN in batch.schema.names:
            self._event_times.add(batch[EVENT_TIME_COLUMN])

    def _result(self, written: Mapping[int, Any]) -> dict[str, Any]:
        letters = self._unread + [letter for runner in self._machine.runners.values() for letter in runner.letters]
        dead = (
            self._order.dead_letters.write([dead_letter_batch(letters)])
            if letters and self._order.dead_letters
            else None
        )
        return {
            "replica": self._replica,
            "operators": {
                id: (runner.rows_in, runner.rows_out, runner.busy_s, self._waited_s[id], runner.failed)
                for id, runner in self._machine.runners.items()
                if runner.rows_in
            },
            "edges": self._crossed,
            "executed": {
                number: (keys[-_REPORTED:], times[-_REPORTED:]) for number, (keys, times) in self._executed.items()
            },
            "event_times": self._event_times.to_json(),
            "written": written,
            "dead_letters": _described(dead),
            "worker": self._worker(),
        }

    def _worker(self) -> dict[str, Any] | None:
        """Return who runs this task, its times, and features of the host where they are due (SPEC I3)."""
        program = self._machine.program
        if not program.statistics:
            return None
        return {"stage": _spark_stage(), **self._times.to_json(self._sent, program.features)}


def _spark_stage() -> int:
    """Return the id that Spark gave to the tasks of this round; -1 outside a task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return -1 if context is None else context.stageId()


def _described(info: SegmentInfo | Any | None) -> Any:
    return info.to_json() if isinstance(info, SegmentInfo) else info


def _keys(plan: EdgePlan, batch: pa.RecordBatch, first_id: int) -> np.ndarray:
    """Return the keys by which rows are routed: values of fields, or numbers from `first_id` on."""
    grouping = plan.edge.grouping
    if not grouping.fields:
        return np.arange(first_id, first_id + batch.num_rows, dtype=np.int64)
    missing = [name for name in grouping.fields if name not in batch.schema.names]
    if missing:
        raise _unroutable(plan, f"the field {missing[0]!r}", f"columns {batch.schema.names}")
    columns = [batch[name] for name in grouping.fields]
    try:
        return _replica_numbers(columns[0]) if grouping.name == "direct" else hash_columns(columns)
    except (ConfigError, ValueError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _unroutable(plan, f"values to route by in {_fields(plan)}", error) from error


def _replica_numbers(column: pa.Array) -> np.ndarray:
    if column.null_count:
        raise ValueError(f"{column.null_count} rows without a value")
    return column.cast(pa.int64()).to_numpy(zero_copy_only=False)


def _unroutable(plan: EdgePlan, expected: str, got: object) -> OperatorError:
    return OperatorError(
        plan.edge.start,
        expected=f"{expected}, by which {plan.edge} is grouped ({plan.edge.grouping})",
        got=got,
        remedy="change what the function returns there, or group by another field",
    )


def _fields(plan: EdgePlan) -> str:
    return ", ".join(map(repr, plan.edge.grouping.fields)) or "the rows"


def _first_id(batch_id: int, replica: int) -> int:
    """Return the number of a task's first row, spread so that small batches do not all begin at the same place."""
    return (batch_id * 2_654_435_769 + replica * 2_246_822_507) % (1 << 31)


def _by_schema(batches: Sequence[pa.RecordBatch]) -> Iterable[list[pa.RecordBatch]]:
    alike: dict[pa.Schema, list[pa.RecordBatch]] = defaultdict(list)
    for batch in batches:
        alike[batch.schema].append(batch)
    return alike.values()


def _pack(batches: Sequence[pa.RecordBatch]) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def unpack(payload: pa.Buffer | bytes) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a packed cell."""
    with pa.ipc.open_stream(payload) as reader:
        yield from reader


def _as_bytes(payload: bytes | pa.Buffer) -> bytes:
    return payload if isinstance(payload, bytes) else payload.to_pybytes()


def _envelope(rows: Sequence[_Cell]) -> pa.RecordBatch:
    targets, edges, payloads = zip(*rows, strict=True)
    cells = [_as_bytes(payload) for payload in payloads]
    arrays = [pa.array(targets, pa.int32()), pa.array(edges, pa.int32()), pa.array(cells, pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, schema=ENVELOPE)
