"""The function that Spark calls for each task of a stage.

A stage runs as one Spark job per batch: a first round of tasks reads the stage's inputs, and each exchange adds a
round. What is not for another task, namely statistics and descriptions of what was written, travels in the same
envelope to the driver (ADR 0007).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa

from foretide.errors import ForetideError
from foretide.spark.errors import OperatorError
from foretide.spark.tasks.cells import as_bytes, envelope, error_cell
from foretide.spark.tasks.contract import BatchOrder, Program
from foretide.spark.tasks.operators import OperatorRunner, OperatorSpec
from foretide.spark.tasks.work import Machine, Work

__all__ = ["StageTask", "machine_of", "prepare"]


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
    round : int
        How many exchanges came before.
    entry : str, optional
        The element whose output the rows of the first round are, where Spark has read them.
    """

    def __init__(
        self, key: str, program: bytes, order: BatchOrder, *, round: int = 0, entry: str | None = None
    ) -> None:
        self._key, self._program, self._order = key, program, order
        self._round, self._entry = round, entry

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task of the partition that Spark calls it for."""
        from pyspark import TaskContext

        context = TaskContext.get()
        return self.run(context.partitionId() if context is not None else 0, batches)

    def run(self, replica: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task of one replica: take what came for it, yield what is for others and for the driver."""
        try:
            with self._work(replica) as work:
                if self._round:
                    yield from work.take_envelopes(batches)
                elif self._entry is not None:
                    work.take_frame(self._entry, batches)
                elif self._order.slices:
                    work.take_slices(pickle.loads(self._order.slices[replica]))
                for cells in work.finish():
                    yield envelope(cells)
        except ForetideError as error:
            yield envelope([error_cell(error)])
        for _ in batches:  # Spark gives up a worker that leaves some of its input
            pass

    def run_alone(self, replica: int, slices: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Run the task of one replica in a stage without exchanges: yield edges and cells, all for the driver.

        It is handed what it reads, packed: with many tasks, an order with the slices of all would grow with each.

        This is for `RDD.mapPartitionsWithIndex`, which starts a job in half the time of a DataFrame.
        """
        try:
            with self._work(replica) as work:
                work.take_slices(part for packed in slices for part in pickle.loads(packed))
                for cells in work.finish():
                    yield from ((edge, as_bytes(payload)) for _, edge, payload in cells)
        except ForetideError as error:
            _, edge, payload = error_cell(error)
            yield edge, as_bytes(payload)

    @contextmanager
    def _work(self, replica: int) -> Iterator[Work]:
        """Give the work of one task; where it fails, nothing that it wrote is left."""
        work = Work(machine_of(self._key, self._program), self._order, replica, self._round)
        try:
            yield work
        except BaseException:
            work.discard()
            raise


# Programs that a worker keeps ready, the latest used last; a long-lived Spark application may run many topologies.
_KEPT_MACHINES = 64
_MACHINES: dict[str, Machine] = {}


def machine_of(key: str, program: bytes) -> Machine:
    """Return a program ready to run in this worker, which keeps it under its key."""
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
        runners = {id: _runner(spec) for id, spec in loaded.operators.items() if not spec.operator.on_frames}
        edges = {plan.number: plan for plan in (*loaded.stage.inputs, *loaded.stage.edges)}
        _MACHINES[key] = Machine(loaded, runners, edges)
        if len(_MACHINES) > _KEPT_MACHINES:
            del _MACHINES[next(iter(_MACHINES))]
    machine = _MACHINES.pop(key)
    _MACHINES[key] = machine
    return machine


def _runner(spec: OperatorSpec) -> OperatorRunner:
    if spec.state is None:
        return OperatorRunner(spec)
    from foretide.spark.tasks.keyed import KeyedRunner

    return KeyedRunner(spec)


def prepare(key: str, program: bytes) -> None:
    """Load a program in this worker before it is needed; what is wrong with it is left to the first task to report.

    An operator that is an object may have a method `warm_up`, which is called once, to load what its first event needs.
    """
    with suppress(Exception):
        if key not in _MACHINES:
            for spec in machine_of(key, program).program.operators.values():
                warm_up = getattr(spec.operator.function, "warm_up", None)
                if callable(warm_up):
                    warm_up()
