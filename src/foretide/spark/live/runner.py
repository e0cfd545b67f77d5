"""Running one live stage: tasks that stay, strands dealt out to them, and what they report."""

from __future__ import annotations

import logging
import math
import queue
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from pyspark.sql import SparkSession

from foretide.background import Background
from foretide.compile.stages import Stage, StageGraph
from foretide.errors import error_from_data
from foretide.kafka.errors import BrokerError, TopicError
from foretide.records.sharing import share_out
from foretide.spark.batches.drops import Drop
from foretide.spark.batches.ends import letter_log
from foretide.spark.batches.programs import pack_program
from foretide.spark.batches.states import HotKey, StateSize
from foretide.spark.inputs.planned import Position, Positions
from foretide.spark.inputs.topic_edges import topic_inputs
from foretide.spark.live.accounts import LiveAccounts
from foretide.spark.live.casualties import Casualties
from foretide.spark.live.channel import ControlServer, Message
from foretide.spark.live.deal import Command, Coordinator, useful_tasks
from foretide.spark.live.letters import LetterKeeper
from foretide.spark.live.order import LiveOrder, SourceOrder, books_of, source_of
from foretide.spark.live.record import check_driver, claim_driver
from foretide.spark.live.resident import ResidentTask
from foretide.spark.live.seats import Seat
from foretide.spark.live.topics import LiveTopics
from foretide.spark.settings import EngineSettings
from foretide.spark.sinks.contract import BatchSink, open_sink
from foretide.spark.tasks.statistics import BatchStatistics, StageTotals
from foretide.store import RuntimeConfig, RuntimeStore
from foretide.store.workspace import Workspace
from foretide.transport.dead_letters import Failure

__all__ = ["LiveRunner"]

_LOG = logging.getLogger(__name__)
# Seconds between two looks at plan and tasks; tasks that say something are heard at once.
_TICK_S = 0.02
_ACCOUNT_S = 1.0
# Seconds between two looks for new partitions, and that the first deal waits for tasks that are still to come.
_PARTITIONS_S, _FIRST_DEAL_S = 5.0, 3.0
# Seconds that such a look may take while no broker answers.
_LOOK_S = 0.5
_STOP_S = 15.0
# Seconds between two notes of how far it has come: in an object store each takes a while.
_WRITTEN_S = 60.0


class LiveRunner(Background):
    """Runs one stage in tasks that stay.

    Parameters
    ----------
    spark : SparkSession
        Where to run.
    graph : StageGraph
        The stages of the topology.
    stage : Stage
        The one to run; `foretide.compile.live` has found that it can be live.
    workspace : Workspace
        The run's directory.
    settings : EngineSettings
        How.
    cores : callable
        Returns how many tasks it may have at most, since they hold the cores of the cluster.
    """

    _name = "foretide-live-stage"

    def __init__(
        self,
        spark: SparkSession,
        graph: StageGraph,
        stage: Stage,
        workspace: Workspace,
        settings: EngineSettings,
        cores: Callable[[], int],
    ) -> None:
        super().__init__()
        self.stage, self.settings = stage, settings
        self._spark, self._workspace = spark, workspace
        self._runtime, self._cores = RuntimeStore(workspace.runtime), cores
        run = workspace.run_id()
        self.sinks: Mapping[str, BatchSink] = {sink.id: open_sink(sink, run) for sink in stage.sinks}
        given = topic_inputs(graph, stage, run, settings.kafka_servers)
        self._topics = LiveTopics(stage, given, workspace, self._group, lambda: self._runtime.read().paused)
        self.program = pack_program(graph.topology, stage, workspace, settings)
        self._accounts = LiveAccounts(stage.id, settings)
        self._outer = {source.id for source in stage.sources}
        self._driver = uuid.uuid4().hex
        self._coordinator, self._casualties = Coordinator(), Casualties()
        self._seats: dict[int, Seat] = {}
        #: The Python processes of its tasks, by task.
        self.processes: dict[str, int] = {}
        self._server: ControlServer | None = None
        self._letters: LetterKeeper | None = None
        self.failure: Exception | None = None
        self._bound_told, self._cores_seen = 0, (-math.inf, 1)

    @property
    def statistics(self) -> deque[BatchStatistics]:
        """What it did lately, second by second."""
        return self._accounts.batches

    @property
    def totals(self) -> StageTotals:
        """What it did since the start."""
        return self._accounts.totals

    @property
    def most_tasks(self) -> int:
        """How many tasks it can have, one for each strand; 0 while that is not known."""
        return len(self._topics.strands)

    @property
    def failures(self) -> Sequence[Failure]:
        """What its operators failed on since the start, one entry for each kind."""
        return tuple(self._accounts.watch.failures.values())

    @property
    def letters_left_out(self) -> int:
        """How many events that failed since the start are counted, but not kept."""
        return self._accounts.letters_left_out

    @property
    def drops(self) -> Sequence[Drop]:
        """Nothing: its queues have no limits."""
        return ()

    @property
    def state_sizes(self) -> Mapping[str, StateSize]:
        """Nothing: it keeps no state."""
        return {}

    @property
    def hot_keys(self) -> Sequence[HotKey]:
        """Nothing: it keeps no state."""
        return ()

    def error(self) -> Exception | None:
        """Return what ended it; None while it runs."""
        return self.failure or self._topics.error()

    def start(self) -> None:
        """Fence off what an earlier driver may have left running, and start the tasks."""
        self._spark.sparkContext.environment["SPARK_SIMPLIFIED_TRACEBACK"] = "1"
        claim_driver(self._workspace.live(self.stage.id), self._driver)
        order = self._order()
        try:
            self._open(order)
        except BaseException:
            assert self._server is not None
            self._server.close()
            self._server = None
            raise
        self._resident = ResidentTask(order, *self.program, 0)
        self._started_s = time.monotonic()
        super().start()
        self._topics.start()

    def stop(self, timeout_s: float = _STOP_S) -> None:
        """End the tasks; each finishes its transactions first."""
        self._topics.stop()
        super().stop(timeout_s)
        if self._server is None:
            return
        self._end_tasks()
        for seat in self._seats.values():
            seat.close(timeout_s)
        try:
            # What tasks said last may still be on its way.
            deadline_s = time.monotonic() + timeout_s
            while self._coordinator.tasks and time.monotonic() < deadline_s:
                self._hear(_TICK_S)
            self._close_account()
            self._topics.write_down()
            if self._letters is not None:
                self._letters.close()
        except Exception as error:
            self.failure = self.failure or error
        self._server.close()
        self._server = self._letters = None

    def settled(self) -> bool:
        """Return whether what was done is accounted for, and no task has a strand that is to rest."""
        return self._coordinator.is_at_rest(self._resting(self._runtime.read())) and self._accounts.is_closed

    def positions(self) -> tuple[Positions, Positions]:
        """Return how far it has committed; what tasks have taken beyond that is not known."""
        found: dict[str, Position] = self._topics.positions()
        return found, found

    def left(self) -> int:
        """Return the backlog, and what sources that end have still to give."""
        return self._topics.left()

    def backlog(self) -> int:
        """Return how many messages wait."""
        return self._topics.backlog()

    def _order(self) -> LiveOrder:
        conf = self._spark.sparkContext.getConf()
        host = conf.get("spark.driver.host") or "127.0.0.1"
        self._server = server = ControlServer(host, conf.get("spark.driver.bindAddress") or host)
        plans = self._topics.plans
        return LiveOrder(
            group=self._group,
            address=server.address,
            token=server.token,
            sources={
                name: SourceOrder(plan, plan.schema(), is_row=name in self._topics.own) for name, plan in plans.items()
            },
            books=books_of(self.stage, plans, self._group, self._workspace.run_id()),
            letter_bytes=self.settings.letter_bytes,
            target_s=self.settings.live_target_s,
            most_rows=self.settings.live_rows,
        )

    @property
    def _group(self) -> str:
        """What all that the stage keeps in Kafka is called after."""
        return f"foretide-{self._workspace.run_id()}-{self.stage.id}"

    def _open(self, order: LiveOrder) -> None:
        """Look at the topics, and take them from an earlier driver."""
        order.books.open()
        known = self._topics.open(order)
        if known:
            for strand in self._topics.strands:
                order.books.fence(order.full_name(strand))
        log = letter_log(self._workspace, self.settings)
        self._letters = LetterKeeper(order.books.letter_queue(), log, self.stage.id)
        self._coordinator = Coordinator.of(self._topics.strands)

    def _run(self) -> None:
        account_s = partitions_s = written_s = time.monotonic()
        try:
            while not self._stop.is_set():
                self._hear(_TICK_S)
                self._steer()
                now_s = time.monotonic()
                if now_s - account_s >= _ACCOUNT_S:
                    account_s = now_s
                    self._close_account()
                    if self._letters is not None:
                        self._letters.copy()
                if now_s - partitions_s >= _PARTITIONS_S:
                    partitions_s = now_s
                    self._look_for_partitions()
                if now_s - written_s >= _WRITTEN_S:
                    written_s = now_s
                    self._topics.write_down()
                    self._topics.forget()
        except Exception as error:
            _LOG.debug("live stage %s failed", self.stage.id, exc_info=True)
            self.failure = error
            self._end_tasks()

    def _hear(self, wait_s: float) -> None:
        """Take in what tasks say, waiting for the first of it."""
        assert self._server is not None
        events = self._server.events
        try:
            task, message = events.get(timeout=wait_s)
            while True:
                self._take_in(task, message)
                task, message = events.get_nowait()
        except queue.Empty:
            return

    def _take_in(self, task: str, message: Message) -> None:
        coordinator, kind = self._coordinator, message.get("is")
        if kind == "report":
            self._topics.reached(message["read"], message["committed"])
            self._accounts.add(message)
        elif kind == "here":
            self.processes[task] = int(message["process"])
            coordinator.joined(task, int(message["seat"]))
        elif kind == "ready":
            coordinator.ready(task, message["strand"])
        elif kind == "released":
            coordinator.released(message["strand"], message["grant"])
            if "lost" in message:
                check_driver(self._workspace.live(self.stage.id), self._driver, self.stage.id)
                _LOG.warning("strand %s was lost and is taken again: %s", message["strand"], message["lost"])
        elif kind == "failed":
            raise error_from_data(message["error"])
        elif kind == "trying":
            partition, offset = message["place"]
            self._casualties.trying(task, message["strand"], (partition, offset))
        elif kind == "tried":
            self._casualties.tried(task)
        elif kind is None:
            if strands := coordinator.owned(task):
                self._casualties.died(task, strands, time.monotonic())
            coordinator.gone(task)
            self.processes.pop(task, None)

    def _end_tasks(self) -> None:
        assert self._server is not None
        for seat in self._seats.values():
            seat.leave()
        for task in self._coordinator.tasks:
            self._server.send(task, {"do": "end"})

    def _steer(self) -> None:
        """See to as many tasks as are planned, and to their strands."""
        config, now_s = self._runtime.read(), time.monotonic()
        wanted = range(self._tasks(config))
        for number in wanted:
            if number not in self._seats or self._seats[number].is_over:
                name = f"foretide-{self._workspace.run_id()}-{self.stage.id}-{number}"
                task = replace(self._resident, seat=number)
                self._seats[number] = Seat(self._spark, name, self.stage.id, task)
        for number, seat in list(self._seats.items()):
            if number not in wanted:
                seat.leave()
                if seat.is_over:
                    del self._seats[number]
        missing = len(wanted) - len(set(self._coordinator.tasks.values()))
        if missing > 0 and now_s - self._started_s < _FIRST_DEAL_S:
            return
        resting = self._resting(config)
        for command in self._coordinator.commands(now_s, wanted, resting):
            self._send(command)
        order = self._resident.order
        for strand in self._coordinator.take_left(resting):
            # Those behind it would wait for the end of its last transaction, and nobody is going to take it.
            order.books.fence(order.full_name(strand))

    def _resting(self, config: RuntimeConfig) -> list[str]:
        """Return the strands that nobody is to have: while sources are paused, theirs; what came from them goes on."""
        strands = self._topics.strands if config.paused else ()
        return [strand for strand in strands if source_of(strand) in self._outer]

    def _send(self, command: Command) -> None:
        assert self._server is not None
        message: Message = {"do": command.do}
        if command.strand:
            starts, ends = self._topics.places(command.strand)
            message |= {"strand": command.strand, "grant": command.grant, "starts": starts, "ends": ends}
            message["careful"] = self._casualties.needs_care(command.strand, time.monotonic())
            message["set_aside"] = self._casualties.set_aside(command.strand)
        self._server.send(command.task, message)

    def _planned(self, config: RuntimeConfig) -> dict[str, int]:
        active = config.active(time.time())
        return {operator.id: active.get(operator.id, operator.replicas.initial) for operator in self.stage.operators}

    def _tasks(self, config: RuntimeConfig) -> int:
        """Return how many tasks are to stay: as planned, but none that no strand is for, or that finds no core."""
        planned, strands = self.stage.slots(self._planned(config)), len(self._topics.strands)
        now_s = time.monotonic()
        if now_s - self._cores_seen[0] > _ACCOUNT_S:
            # Spark is asked now and then: executors may have come.
            self._cores_seen = now_s, self._cores()
        cores = self._cores_seen[1]
        bound = max(1, min(planned, strands, cores))
        if bound < planned and planned != self._bound_told:
            self._bound_told = planned
            why = f"its topics have {strands} strands" if strands <= cores else f"it may hold {cores} cores"
            _LOG.warning("stage %s: %d replicas are planned, %d tasks stay: %s", self.stage.id, planned, bound, why)
        return useful_tasks(bound, strands)

    def _close_account(self) -> None:
        config = self._runtime.read()
        planned = self._planned(config)
        slots = max(1, len(set(self._coordinator.tasks.values())) or len(self._seats))
        most = np.array([operator.replicas.maximum for operator in self.stage.operators], dtype=np.int64)
        parts = share_out(slots, np.array(list(planned.values()), dtype=np.float64), most) if planned else ()
        replicas = dict(zip(planned, (int(part) for part in parts), strict=True))
        self._accounts.close(slots, len(self._topics.strands), replicas, config.version)

    def _look_for_partitions(self) -> None:
        """Take up partitions that were added; their strands are taken anew."""
        try:
            grown = self._topics.refresh(_LOOK_S)
        except TopicError:
            # A broker that has just started may not know all topics at once.
            grown = self._topics.refresh()
        except BrokerError:
            # Tasks wait for it, and say so; here others are to be heard meanwhile.
            return
        for strand in grown:
            for command in self._coordinator.renew(strand, time.monotonic()):
                self._send(command)
