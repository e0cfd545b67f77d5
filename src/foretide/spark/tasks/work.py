"""The work of one task: rows in, operators one after another, rows out, and what was measured on the way."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import SparkFiles

from foretide.compile.stages import EdgePlan
from foretide.errors import ConfigError
from foretide.grouping import Assignment
from foretide.health.task_features import TaskTimes
from foretide.spark.tasks.cells import (
    TO_DRIVER,
    Cell,
    by_schema,
    envelope,
    pack,
    result_cell,
    sender_of,
    signed,
    unpack,
)
from foretide.spark.tasks.contract import BatchOrder, Outlet, Program, Slice
from foretide.spark.tasks.keyed import KeyedRunner
from foretide.spark.tasks.keys import field_names, first_row_id, row_keys, unroutable
from foretide.spark.tasks.operators import EVENT_TIME_COLUMN, OperatorRunner
from foretide.spark.tasks.statistics import EventTimes, OperatorStatistics
from foretide.state.changes import Snapshot, StateOrder
from foretide.state.task import TaskState
from foretide.topology import DEFAULT_OUTPUT
from foretide.transport.contract import OpenSegment, SegmentInfo
from foretide.transport.dead_letters import DeadLetter, failures_of, letters_within

__all__ = ["Machine", "Work"]

# Executed tuples that a task reports to OSG at most; sketches need no more, and the driver reads them all.
_REPORTED = 4096


@dataclass
class Machine:
    """A program ready to run in this worker."""

    program: Program
    runners: dict[str, OperatorRunner]
    edges: dict[int, EdgePlan]


class Work:
    """One task: rows in, operators, rows out."""

    def __init__(self, machine: Machine, order: BatchOrder, replica: int, round: int = 0) -> None:
        self._machine, self._order, self._replica, self._round = machine, order, replica, round
        stage = machine.program.stage
        self._outgoing = stage.outgoing
        self._exchanged = {plan.number for plan in stage.exchanges}
        self._parcels: dict[tuple[int, int], list[pa.RecordBatch]] = defaultdict(list)
        self._writers: dict[tuple[int, pa.Schema], OpenSegment] = {}
        self._sinks = {sink.id for sink in stage.sinks}
        self._crossed: dict[int, int] = defaultdict(int)
        self._waited_s: dict[str, float] = defaultdict(float)
        self._event_times, self._times, self._sent, self._bytes = EventTimes(), TaskTimes(), 0, 0
        self._executed: dict[int, tuple[list[int], list[float]]] = defaultdict(lambda: ([], []))
        self._on_frames: dict[str, tuple[float, ...]] = {}
        self._unread: list[DeadLetter] = []
        self._snapshots: dict[str, dict[int, Snapshot]] = {}
        # Operators with a key run once in a batch, after the exchange that brings their rows.
        self._states = {
            id: _task_state(machine, given, replica) for id, given in order.states.items() if round in stage.depths(id)
        }
        self._held: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        # What leaves the topology from here, by the number of its edge, and whether the driver is to send it.
        self._leaving: dict[int, list[pa.RecordBatch]] = defaultdict(list)
        self._left_to_driver = False
        self._too_old: dict[str, int] = defaultdict(int)
        self._routes = {number: route.at_barrier(replica) for number, route in order.routes.items()}
        self._first_id = first_row_id(order.batch_id, replica)
        for runner in machine.runners.values():
            runner.reset()

    def take_slices(self, slices: Iterable[Slice]) -> None:
        """Read this task's part of the stage's inputs."""
        inputs = {plan.name: plan for plan in self._machine.program.stage.inputs}
        for part in slices:
            for batch in part.batches():
                self._bytes += batch.nbytes
                if part.element in inputs:
                    self._cross(inputs[part.element], batch)
                else:
                    self._leave(part.element, DEFAULT_OUTPUT, batch)
            # What a source could not make rows of; most kinds have none.
            self._unread += getattr(part, "letters", ())
            # Rows that their queue's age limit leaves out.
            if left_out := getattr(part, "too_old", 0):
                self._too_old[part.element] += left_out

    def take_frame(self, entry: str, batches: Iterable[pa.RecordBatch]) -> None:
        """Take rows that Spark has read, as the output of the element called `entry`.

        Where that is an operator, its time is that for which its rows are waited for.
        """
        done, began = OperatorStatistics(), time.perf_counter()
        for batch in batches:
            done.busy_s += time.perf_counter() - began
            done.rows_out += batch.num_rows
            self._leave(entry, DEFAULT_OUTPUT, batch)
            began = time.perf_counter()
        done.busy_s += time.perf_counter() - began
        if entry in self._machine.program.operators:
            self._on_frames[entry] = astuple(done)

    def take_envelopes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack the rows that came for this task; results of earlier rounds pass through to the driver."""
        for batch in batches:
            for edge, payload in zip(batch["edge"].to_pylist(), batch["payload"], strict=True):
                if edge == TO_DRIVER:
                    self._left_to_driver = True
                elif edge < 0 or edge in self._order.collected or edge in self._order.outlets:
                    yield envelope([(0, edge, payload.as_buffer())])
                else:
                    for rows in unpack(payload.as_buffer()):
                        self._enter(self._machine.edges[edge], rows)
        self._run_keyed()

    def finish(self) -> Iterator[list[Cell]]:
        """Yield what is for other tasks and for the driver."""
        self._times.finishing()
        # An event that failed may yet stop the stage, and succeed when the batch runs again by a mended function. So
        # what was made beside it is not sent before the driver has judged; without failures, a repeat makes the same.
        self._left_to_driver |= bool(self._unread) or any(runner.failed for runner in self._machine.runners.values())
        self._leave_to_driver()
        parcels = [
            (target, number, pack(alike))
            for (number, target), rows in self._parcels.items()
            for alike in by_schema(rows)
        ]
        parcels += [(target, TO_DRIVER, b"") for target in range(self._next_tasks() if self._left_to_driver else 0)]
        if parcels:
            yield parcels
        changes = self._write_changes()
        self._sent = len(parcels) + len(self._writers)
        written: dict[int, list[Any]] = defaultdict(list)
        for (number, _), writer in self._writers.items():
            info = writer.close()
            written[number].append(_described(info))
            if number in changes and isinstance(info, SegmentInfo):
                changes[number].made(info.name)
        self._writers.clear()
        self._send()
        yield [result_cell(self._result(written))]

    @property
    def _name(self) -> str:
        """What this task is called among those of a batch."""
        return f"{self._round}-{self._replica}"

    def _next_tasks(self) -> int:
        """Return how many tasks the next round has, where outlets wait for a word from this one."""
        rounds = self._machine.program.stage.carriers
        if not self._order.outlets or self._round >= len(rounds):
            return 0
        return max(self._order.routes[number].replicas for number in rounds[self._round])

    def _leave_to_driver(self) -> None:
        """Let rows go to the driver that this task had sent, if nothing had failed."""
        if self._left_to_driver:
            for number, rows in self._leaving.items():
                self._parcels[number, 0] += [signed(batch, self._name) for batch in rows]
            self._leaving.clear()

    def _send(self) -> None:
        """Send what leaves the topology from here, for each sink in one transaction."""
        leaving: dict[str, tuple[Outlet, list[pa.RecordBatch]]] = {}
        for number, rows in self._leaving.items():
            outlet = self._order.outlets[number]
            leaving.setdefault(outlet.sink, (outlet, []))[1].extend(rows)
        for outlet, rows in leaving.values():
            outlet.send(self._order.batch_id, self._name, rows)

    def _run_keyed(self) -> None:
        """Run the operators with a key once all rows have come, and without rows where keys may be due."""
        for id, state in self._states.items():
            runner, given, batches = self._machine.runners[id], self._order.states[id], self._held.pop(id, ())
            assert isinstance(runner, KeyedRunner)
            if batches or given.timing.marks:
                # In the same order whenever the batch runs: Spark brings what tasks have sent in any.
                rows = _together(sorted(batches, key=sender_of))
                for output, parts in runner.run_keyed(rows, state, given.partitions).items():
                    for part in parts:
                        self._leave(id, output, part)
            self._snapshots[id] = state.snapshots()

    def _write_changes(self) -> dict[int, TaskState]:
        """Write the changes to states aside; return whose they are, by the number of their writer."""
        found: dict[int, TaskState] = {}
        for id, state in self._states.items():
            rows, number = state.rows(), self._order.states[id].writer
            if rows:
                self._writers[number, rows[0].schema] = writer = self._order.writers[number].open()
                for batch in rows:
                    writer.append(batch)
                found[number] = state
        return found

    def _state_report(self, id: str) -> dict[str, Any]:
        """Return what a task reports of an operator's state."""
        runner, state = self._machine.runners[id], self._states[id]
        assert isinstance(runner, KeyedRunner)
        return {
            "work": runner.work,
            "seconds": runner.busy_s - runner.stalled_s,
            "hottest": runner.hottest,
            "changed": state.changed(),
            "sizes": state.sizes(),
            "late": runner.late,
            "latest_us": runner.latest_us,
            "columns": runner.columns,
            "snapshots": {at: list(astuple(taken)) for at, taken in self._snapshots.get(id, {}).items()},
        }

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
        elif number in self._order.outlets:
            outlet = self._order.outlets[number]
            if number not in self._leaving:
                outlet.expect(self._order.batch_id, self._name)
            self._leaving[number].append(outlet.encode(batch))
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
        if runner.id in self._states:
            # All rows of a key come together, from whichever tasks.
            self._held[runner.id].append(batch)
            return
        outputs = runner.run(batch)
        if plan.edge.grouping.name == "osg" and plan.number in self._exchanged:
            keys, seconds = self._executed[plan.number]
            keys.extend(row_keys(plan, batch, 0).tolist())
            seconds.extend(runner.row_seconds(batch.num_rows))
        for output, parts in outputs.items():
            for part in parts:
                self._leave(runner.id, output, part)

    def _spread(self, plan: EdgePlan, batch: pa.RecordBatch) -> None:
        """Divide rows among the tasks of the next round."""
        first = self._first_id + self._crossed[plan.number] - batch.num_rows
        rows, targets = self._assign(plan, row_keys(plan, batch, first))
        order = np.argsort(targets, kind="stable")
        indices = order if rows is None else rows[order]
        counts = np.bincount(targets)
        sorted_rows = batch.take(pa.array(indices))
        ends = np.cumsum(counts)
        for target in np.flatnonzero(counts).tolist():
            first = int(ends[target] - counts[target])
            part = sorted_rows.slice(first, int(counts[target]))
            if plan.edge.end in self._order.states:
                part = signed(part, self._name)
            self._parcels[plan.number, target].append(part)

    def _assign(self, plan: EdgePlan, keys: np.ndarray) -> Assignment:
        try:
            return self._routes[plan.number].assign_together(keys)
        except ConfigError as error:
            raise unroutable(plan, f"{error.expected} in {field_names(plan)}", error.got) from error

    def _arrived(self, batch: pa.RecordBatch) -> None:
        if self._machine.program.statistics and EVENT_TIME_COLUMN in batch.schema.names:
            self._event_times.add(batch[EVENT_TIME_COLUMN])

    def _result(self, written: Mapping[int, Any]) -> dict[str, Any]:
        letters = self._unread + [letter for runner in self._machine.runners.values() for letter in runner.letters]
        kept, left_out = letters_within(letters, self._order.letter_bytes)
        return {
            "replica": self._replica,
            "operators": {
                id: (
                    *(runner.rows_in, runner.rows_out, runner.busy_s, self._waited_s[id]),
                    *(runner.failed, runner.failing_s, runner.cpu_s, runner.stalled_s),
                )
                for id, runner in self._machine.runners.items()
                if runner.rows_in or runner.rows_out
            }
            | self._on_frames,
            "edges": self._crossed,
            "bytes": self._bytes,
            "too_old": self._too_old,
            "executed": {
                number: (keys[-_REPORTED:], times[-_REPORTED:]) for number, (keys, times) in self._executed.items()
            },
            "event_times": self._event_times.to_json(),
            "written": written,
            "letters": [asdict(letter) for letter in kept],
            "letters_left_out": left_out,
            "failures": [failure.to_json() for failure in failures_of(letters)],
            "worker": self._worker(),
            "states": {id: self._state_report(id) for id in self._states},
        }

    def _worker(self) -> dict[str, Any] | None:
        """Return who runs this task, its times, and features of the host where they are due (SPEC I3)."""
        program = self._machine.program
        if not program.statistics:
            return None
        return {"stage": _spark_stage(), **self._times.to_json(self._sent, program.features)}


def _task_state(machine: Machine, order: StateOrder, replica: int) -> TaskState:
    schema = machine.program.operators[order.operator].state
    assert schema is not None
    return TaskState(order, schema, Path(SparkFiles.getRootDirectory()) / "foretide-state", replica)


def _together(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch | None:
    """Return rows as one batch, with the columns of all of them; None where there are none."""
    if not batches:
        return None
    tables = [pa.Table.from_batches([batch.replace_schema_metadata()]) for batch in batches]
    [rows] = pa.concat_tables(tables, promote_options="permissive").combine_chunks().to_batches()
    return rows


def _spark_stage() -> int:
    """Return the id that Spark gave to the tasks of this round; -1 outside a task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return -1 if context is None else context.stageId()


def _described(info: SegmentInfo | Any | None) -> Any:
    return info.to_json() if isinstance(info, SegmentInfo) else info
