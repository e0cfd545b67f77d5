"""Running one stage: a streaming query, and one Spark job per batch."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from foretide.compile.queues import queue_limits
from foretide.compile.stages import Stage, StageGraph
from foretide.depot import open_depot
from foretide.errors import ForetideError
from foretide.records.sharing import share_out
from foretide.spark.batches.admission import Admission, Reading
from foretide.spark.batches.checkpoint_files import (
    checkpoint_location,
    is_unfinished,
    last_batch,
    quick_checkpoint_files,
)
from foretide.spark.batches.deals import Deal, DealBook
from foretide.spark.batches.drops import Drop, DropWatch, too_old_of
from foretide.spark.batches.ends import StageEnds
from foretide.spark.batches.failures import FailureWatch
from foretide.spark.batches.job import StageJob
from foretide.spark.batches.programs import pack_program
from foretide.spark.batches.routing import Router
from foretide.spark.batches.spark_account import SparkAccount, SparkWork, add_spark_work
from foretide.spark.batches.state_settings import state_settings
from foretide.spark.batches.states import HotKey, StageStates, StateSize
from foretide.spark.errors import BatchError, BatchInterrupted
from foretide.spark.inputs.edges import EdgeStore
from foretide.spark.inputs.faults import read_fault
from foretide.spark.inputs.feeds import SliceFeed, open_feed
from foretide.spark.inputs.frames import FirstRound
from foretide.spark.inputs.limits import RuntimeLimits, write_limits
from foretide.spark.inputs.planned import Positions
from foretide.spark.inputs.processors import output_mode
from foretide.spark.machine import machine_cores
from foretide.spark.settings import EngineSettings
from foretide.spark.sinks.contract import BatchSink
from foretide.spark.tasks.contract import BatchOrder, pack_slices
from foretide.spark.tasks.statistics import BatchStatistics, StageTotals
from foretide.store import RuntimeConfig, RuntimeStore
from foretide.store.workspace import Workspace
from foretide.topology import Operator, is_processor
from foretide.transport.contract import BatchWriter
from foretide.transport.dead_letters import Failure

__all__ = ["StageRunner"]

# A task may always hand back a few events that failed, however many tasks there are.
_LEAST_LETTER_BYTES = 1 << 14


class StageRunner:
    """Runs one stage: its streaming query, and in each batch the job that does the work.

    Parameters
    ----------
    spark : SparkSession
        Where to run.
    graph : StageGraph
        The stages of the topology.
    stage : Stage
        The one to run.
    workspace : Workspace
        Where checkpoints and logs are.
    settings : EngineSettings
        How.
    check : callable
        Raises where the stage is not to go on; called before each batch.
    """

    def __init__(
        self,
        spark: SparkSession,
        graph: StageGraph,
        stage: Stage,
        workspace: Workspace,
        settings: EngineSettings,
        *,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.stage, self.settings, self._check = stage, settings, check
        self._spark, self._topology, self._workspace = spark, graph.topology, workspace
        self._runtime = RuntimeStore(workspace.runtime)
        self._admission, self._reading = Admission(settings), Reading()
        edges = EdgeStore(workspace, settings)
        limits = queue_limits(graph, settings.every_queue, settings.queues)
        self._feed = open_feed(graph.topology, stage, edges, limits)
        self._drops = DropWatch(stage, limits)
        self._router = Router(stage)
        self._stopping = threading.Event()
        self._states = StageStates(graph.topology, stage, workspace, settings)
        self._ends = StageEnds(
            stage, workspace, settings, edges, self._stopping, self._states.logs, repeatable=self._feed.dealt
        )
        deals = workspace.place("stages", stage.id, "deals")
        self._deals = DealBook(open_depot(deals, fsync=settings.sync_files), stage.id)
        program = pack_program(graph.topology, stage, workspace, settings)
        self._job = StageJob(spark, stage.id, stage.carriers, program, settings.batch_attempts, self._stopping)
        self.statistics: deque[BatchStatistics] = deque(maxlen=settings.kept_batches)
        self.totals = StageTotals()
        self._account = SparkAccount(spark)
        self._watch = FailureWatch(settings)
        self.query: StreamingQuery | None = None
        self.busy = False
        self._last_batch: int | None = None
        self.failure: Exception | None = None

    @property
    def program(self) -> tuple[str, bytes]:
        """What its tasks run, with the key that workers keep it under."""
        return self._job.program

    @property
    def sinks(self) -> Mapping[str, BatchSink]:
        """Its sinks, by id."""
        return self._ends.sinks

    @property
    def failures(self) -> Sequence[Failure]:
        """What its operators failed on since the start, one entry for each kind."""
        return tuple(self._watch.failures.values())

    @property
    def letters_left_out(self) -> int:
        """How many events that failed since the start are counted, but not kept."""
        return self._ends.letters_left_out

    @property
    def drops(self) -> Sequence[Drop]:
        """What its queues dropped since the start, one entry for each queue and reason."""
        return tuple(self._drops.drops.values())

    @property
    def state_sizes(self) -> Mapping[str, StateSize]:
        """How large the states are that it keeps by key, or Spark for it, by operator."""
        head = self._head
        if head is None or not (head.on_frames and head.stateful) or self.query is None:
            return self._states.sizes
        progress = self.query.lastProgress
        parts = progress.stateOperators if progress is not None else ()
        keys, size = (sum(getattr(part, name) for part in parts) for name in ("numRowsTotal", "memoryUsedBytes"))
        return {head.id: StateSize(keys, size)}

    @property
    def hot_keys(self) -> Sequence[HotKey]:
        """Keys of its states that were too hot for one task."""
        return tuple(self._states.hot_keys.values())

    def start(self) -> None:
        """Start the streaming query."""
        # As Spark SQL sets it for its functions: workers with another environment would be others, and not warm.
        self._spark.sparkContext.environment["SPARK_SIMPLIFIED_TRACEBACK"] = "1"
        self._write_limit()
        self._workspace.fault(self.stage.id).unlink(missing_ok=True)
        location = checkpoint_location(self._workspace, self.stage.id, self.settings.checkpoint)
        writer = (
            self._feed.open(self._spark)
            .writeStream.foreachBatch(self.run_batch)
            .queryName(f"{self._topology.name}/{self.stage.id}")
            .option("checkpointLocation", location)
            .trigger(processingTime=f"{int(self.settings.trigger_s * 1000)} milliseconds")
        )
        head = self._head
        if head is not None and is_processor(head.function):
            writer = writer.outputMode(output_mode(head))
        elif head is not None and "output_mode" in head.options:
            writer = writer.outputMode(head.options["output_mode"])
        with quick_checkpoint_files(self._spark, location), state_settings(self._spark, head):
            self.query = writer.start()

    def run_batch(self, frame: DataFrame, batch_id: int) -> None:
        """Run one batch, from positions to commit; Spark calls this with the same id again after a failure."""
        self.busy = True
        self._last_batch = batch_id
        try:
            self._run_batch(frame, batch_id)
        except Exception as error:
            of_spark = isinstance(error, BatchError) or not isinstance(error, ForetideError)
            if of_spark and self._stopping.is_set():
                raise BatchInterrupted from None
            # Where Spark's tasks read the rows, the text of a stack trace is all that it hands on.
            left = read_fault(self._workspace.fault(self.stage.id)) if of_spark else None
            self.failure = left or error
            raise
        finally:
            self.busy = False

    def stop(self) -> None:
        """Stop the query; a batch that waits, for room on a full edge or for a sink that is away, is given up.

        It runs again at the next start.
        """
        self._stopping.set()
        self._ends.close()
        if self.query is not None:
            self.query.stop()

    def error(self) -> Exception | None:
        """Return what ended it; None while it runs."""
        if self.query is None or (error := self.query.exception()) is None:
            return None
        return self.failure or read_fault(self._workspace.fault(self.stage.id)) or error

    def settled(self) -> bool:
        """Return whether no batch is under way or planned, and Spark has written down that the last one is done.

        Before that, a stop would make the batch run again at the next start.
        """
        if self.busy or self.query is None:
            return not self.busy
        if self._is_planned():
            return False
        if self._last_batch is None:
            return True
        # Spark reports a batch after it has written down that it is done.
        progress = self.query.lastProgress
        return progress is not None and progress.batchId >= self._last_batch

    def _is_planned(self) -> bool:
        """Return whether Spark has begun a batch that is not done; it may not have called for it yet.

        What only Spark can read does not pause: there is nearly always such a batch.
        """
        if not isinstance(self._feed, SliceFeed) or self.query is None:
            return False
        if self.settings.checkpoint or self._workspace.shared:
            return is_unfinished(self.query)
        checkpoint = self._workspace.checkpoint(self.stage.id)
        return last_batch(checkpoint / "offsets") != last_batch(checkpoint / "commits")

    def positions(self) -> tuple[Positions, Positions]:
        """Return how far it has read: after the last batch that is through, and after the last one planned."""
        return self._feed.positions()

    def left(self) -> int:
        """Return the backlog, and what finite sources have still to give."""
        return self._feed.left(self.query)

    def backlog(self) -> int:
        """Return how many rows its inputs hold that no finished batch has read."""
        return self._feed.backlog(self.query)

    def _run_batch(self, frame: DataFrame, batch_id: int) -> None:
        started_at_s = time.time()
        self._check()
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.stage.id)
        rows = self._feed.begin()
        if self._ends.committed(batch_id):
            self._feed.finished()
            return
        config = self._runtime.read()
        deal = self._deals.settle(batch_id, lambda: self._deal(config, rows))
        self._admission.expect(deal.slots)
        transactions = self._ends.begin(batch_id)
        first = self._feed.first_round(frame, deal.reading)
        done = self._job.run(lambda: self._order(batch_id, deal, first, transactions), first)
        letters = self._feed.letters()
        self._watch.look(done.results, rows or {}, letters)
        too_old = too_old_of(done.results, self._feed.too_old())
        commits = self._ends.commit(batch_id, done.results, done.collected, transactions, letters)
        self._states.learn(commits, done.results, deal.tasks)
        dropped = self._drops.look(self._feed.dropped(), too_old, done.results)
        self._feed.finished()
        work = self._account.of_batch(done.results) if first.entry is not None else SparkWork()
        if rows is None:  # only Spark has read them
            rows = {self.stage.sources[0].id: work.records}
        batch = BatchStatistics(self.stage.id, batch_id, config.version, deal.slots, rows, started_at_s)
        batch.replicas, batch.dropped = dict(deal.replicas), dropped
        batch.take(done.results, time.time())
        if (head := self._head) is not None and head.on_frames:
            taken = sum(rows.values()) - sum(too_old.values()) - len(letters)
            add_spark_work(batch, head.id, taken, work, machine_cores(str(self._spark.sparkContext.master)))
        self._learn(batch, done.results)

    @property
    def _head(self) -> Operator | None:
        """Its first operator, the only one that may work on DataFrames."""
        return self.stage.operators[0] if self.stage.operators else None

    @property
    def _cores(self) -> int:
        return int(self._spark.sparkContext.defaultParallelism)

    def _reading_tasks(self, rows: Mapping[str, int] | None, tasks: int) -> int:
        """Return how many tasks read the inputs: where an exchange follows anyway, no more than there is work for."""
        if rows is None or not self._feed.dealt or not self.stage.rounds:
            return tasks
        return self._reading.tasks(sum(rows.values()), tasks)

    def _slots(self, config: RuntimeConfig, rows: Mapping[str, int] | None) -> tuple[dict[str, int], int]:
        """Return each operator's part of the slots of a batch, and all of them: hired by its rows, or as planned."""
        now_s = time.time()
        active, rule = config.active(now_s), config.hiring.get(self.stage.id)
        planned = {operator.id: active.get(operator.id, operator.replicas.initial) for operator in self.stage.operators}
        by_hand = any(operator.id in config.overridden(now_s) for operator in self.stage.operators)
        if rule is None or rows is None or by_hand:
            return planned, self.stage.slots(planned)
        slots = rule.slots(sum(rows.values()))
        most = np.array([operator.replicas.maximum for operator in self.stage.operators], dtype=np.int64)
        parts = share_out(slots, np.array(list(planned.values()), dtype=np.float64), most)
        return dict(zip(planned, parts.tolist(), strict=True)), slots

    def _deal(self, config: RuntimeConfig, rows: Mapping[str, int] | None) -> Deal:
        """Divide a batch as things are now."""
        replicas, slots = self._slots(config, rows)
        tasks = slots * self.settings.tasks_per_slot
        return Deal(
            replicas,
            slots,
            tasks,
            self._reading_tasks(rows, tasks),
            self._router.routes(tasks, config, self._cores),
            self._states.deal(tasks),
            frozenset(self._ends.outlets),
        )

    def _order(
        self, batch_id: int, deal: Deal, first: FirstRound, transactions: Mapping[int, BatchWriter]
    ) -> BatchOrder:
        states = self._states.orders(batch_id, deal.partitions, transactions)
        return BatchOrder(
            batch_id,
            deal.tasks,
            slices=pack_slices(first.slices, deal.tasks) if first.entry is None else (),
            routes={**deal.routes, **self._states.routes(deal.tasks, states)},
            states=states,
            writers=self._ends.writers(batch_id, transactions),
            collected=self._ends.collected,
            encoders=self._ends.encoders,
            letter_bytes=max(self.settings.letter_bytes // deal.tasks, _LEAST_LETTER_BYTES),
            outlets=self._ends.outlet_edges,
        )

    def _learn(self, batch: BatchStatistics, results: Sequence[Mapping[str, Any]]) -> None:
        self._router.learn(results)
        self.statistics.append(batch)
        self.totals += StageTotals.of(batch)
        side_by_side = min(batch.slots, self._cores)
        # Without statistics, only the whole of the batch can tell what an operator on DataFrames costs.
        on_frames = not self.settings.statistics and any(operator.on_frames for operator in self.stage.operators)
        busy_s = sum(part.busy_s for part in batch.operators.values())
        work_s = batch.duration_s if on_frames else busy_s / side_by_side
        rows = sum(batch.rows.values())
        self._admission.learn(rows, batch.duration_s, work_s, batch.slots)
        self._admission.weigh(rows, sum(result["bytes"] for result in results))
        first = [part for id, part in batch.by_operator().items() if id in self.stage.readers]
        self._reading.learn(rows, sum(part.busy_s for part in first))
        rule = self._runtime.read().hiring.get(self.stage.id)
        if rule is not None:
            # The next batch may take as many rows as the most slots get through.
            self._admission.expect(rule.most)
        self._write_limit(batch)

    def _write_limit(self, last: BatchStatistics | None = None) -> None:
        limits = RuntimeLimits(self._admission.limit, last_batch=None if last is None else last.figures())
        write_limits(self._workspace.limits(self.stage.id), limits)
