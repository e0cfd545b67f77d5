"""A topology on Spark, from start to stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.sql import SparkSession

from foretide.compile.stages import Stage, StageGraph, compile_stages
from foretide.errors import ConfigError
from foretide.latency import LatencyHistogram
from foretide.records import Hiring
from foretide.spark.batches.drops import Drop
from foretide.spark.batches.routing import check_options
from foretide.spark.batches.stage_runner import StageRunner
from foretide.spark.batches.states import HotKey, StateSize
from foretide.spark.driver.checkpoint import check_checkpoint, claim_checkpoints
from foretide.spark.driver.query_progress import ProgressLog
from foretide.spark.driver.reign import Reign
from foretide.spark.driver.repartition import check_partitions
from foretide.spark.driver.sharing import check_executors, check_stores, share_credentials, shared_places
from foretide.spark.inputs.edges import EdgeStore
from foretide.spark.inputs.positions import InputState, PositionReader
from foretide.spark.live.checking import live_graph
from foretide.spark.live.runner import LiveRunner
from foretide.spark.machine import machine_cores, on_this_machine
from foretide.spark.pool.pool import ReplicaPool
from foretide.spark.settings import EngineSettings
from foretide.spark.sinks.contract import BatchSink
from foretide.spark.tasks.statistics import BatchStatistics, OperatorStatistics, StageTotals
from foretide.store import RuntimeStore
from foretide.store.workspace import Workspace
from foretide.topology import Topology
from foretide.topology.options import OWN_KINDS
from foretide.transport import ArrowLog
from foretide.transport.dead_letters import Failure

__all__ = ["RunningTopology", "start"]

_LOG = logging.getLogger(__name__)
_POLL_S = 0.05
# Looks in a row that must find nothing under way.
_ENOUGH = 3


def start(
    topology: Topology, spark: SparkSession, path: str | Path, settings: EngineSettings | None = None
) -> RunningTopology:
    """Start a topology on Spark, or go on where it stopped.

    Parameters
    ----------
    topology : Topology
        What to run.
    spark : SparkSession
        Where; `create_session` makes one with the settings that Foretide relies on.
    path : path
        The directory of checkpoints and queued edges, or the URI of a folder in an object store. Where something goes
        through files, executors must see it, too. A topology that ran there before continues exactly where it was.
    settings : EngineSettings
        How.

    Raises
    ------
    CheckpointError
        When another topology ran in `path`.
    """
    running = RunningTopology(topology, spark, path, settings)
    running.start()
    return running


class RunningTopology:
    """A handle on a topology that runs on Spark.

    Use it as a context manager to stop it in any case.
    """

    def __init__(
        self, topology: Topology, spark: SparkSession, path: str | Path, settings: EngineSettings | None = None
    ) -> None:
        self.topology = topology
        self.settings = settings or EngineSettings()
        self.graph: StageGraph = live_graph(compile_stages(topology), self.settings)
        self._workspace = Workspace.at(path)
        _check_live(self.graph, self._workspace)
        self._workspace.depot.check()
        self._places = shared_places(self.graph, self._workspace.place(), self.settings)
        check_stores(place for place in self._places if place.folder != self._workspace.place())
        share_credentials(spark, [self._workspace.place(), *(str(place.folder) for place in self._places)])
        self._hold = self._workspace.hold()
        # Before anything is read that the driver before might still change.
        self._reign = Reign(self._workspace.depot)
        claim_checkpoints(spark, self._workspace, self.settings.checkpoint)
        check_checkpoint(self.graph, self._workspace)
        check_partitions(self.graph, self._workspace, spark, self.settings.checkpoint)
        self._runtime = RuntimeStore(self._workspace.runtime, self._workspace.depot if self._workspace.shared else None)
        self._runtime.restore()
        slots = sum(operator.replicas.maximum for operator in topology.operators)
        self._spark, self._progress = spark, ProgressLog() if self._foreign_sources() else None
        self._stages = [self._runner(stage) for stage in self.graph.stages]
        by_stage = {runner.stage.id: runner for runner in self._stages}
        edges = EdgeStore(self._workspace, self.settings)
        self._positions = PositionReader(self.graph, edges, lambda stage: by_stage[stage].positions())
        self._pool = ReplicaPool(spark, slots, dict(runner.program for runner in self._stages))

    @property
    def spark(self) -> SparkSession:
        """Where it runs."""
        return self._spark

    @property
    def cores(self) -> int:
        """Tasks that run side by side: as many as Spark has cores, and no more than live stages have strands."""
        cores = int(self._spark.sparkContext.defaultParallelism)
        live = [runner for runner in self._stages if isinstance(runner, LiveRunner)]
        strands = sum(runner.most_tasks for runner in live) if len(live) == len(self._stages) else 0
        return min(cores, strands) if strands else cores

    @property
    def machine_cores(self) -> int | None:
        """Cores that all tasks share, where they run on this machine."""
        return machine_cores(str(self._spark.sparkContext.master))

    @property
    def workspace(self) -> Workspace:
        """Where it keeps what must outlive it."""
        return self._workspace

    def start(self) -> None:
        """Start the query of every stage, downstream first, so that readers are registered before rows come.

        Raises
        ------
        ConfigError
            When executors on other machines have another Python or Foretide, or do not see a directory that they need;
            or when live stages would wait for a core for ever.
        """
        check_executors(self._spark, self._places)
        self._check_cores()
        self._runtime.change(paused=False)
        if self._progress is not None:
            self._spark.streams.addListener(self._progress)
        if self.settings.warm_pool and self.graph.live:
            # Tasks that stay hold their slots: others that would keep workers from idling had to wait for them.
            self._pool.warm_up()
        elif self.settings.warm_pool:
            self._pool.start()
        for runner in reversed(self._stages):
            runner.start()

    def change_replicas(self, replicas: Mapping[str, int], hiring: Mapping[str, Hiring] | None = None) -> int:
        """Give operators other numbers of replicas from the next batch on; return the version of that plan.

        Stages in `hiring` hire slots for each batch; the replicas of their operators are then what is expected.

        Raises
        ------
        ConfigError
            When an operator is unknown or the number is out of its bounds.
        """
        for id, count in replicas.items():
            if id not in self.topology.layout.operator_index:
                raise ConfigError(f"replicas of {id!r}", expected=f"one of {self.topology.layout.operators}", got=id)
            bounds = self.topology.operator(id).replicas
            if not 0 <= count <= bounds.maximum:
                expected = f"between {bounds.minimum} and {bounds.maximum} replicas"
                raise ConfigError(f"replicas of {id!r}", expected=expected, got=count)
        self._check_slots({**self.replicas(), **replicas})
        return self._runtime.change(replicas=dict(replicas), hiring=dict(hiring or {})).version

    def hiring(self) -> Mapping[str, Hiring]:
        """Return how stages hire slots for their batches; those that are missing have fixed slots."""
        return self._runtime.read().hiring

    def _check_slots(self, replicas: Mapping[str, int]) -> None:
        """Refuse a stage with fewer slots than one of its operators must have replicas."""
        for stage in self.graph.stages:
            least = max(stage.operators, key=lambda operator: operator.replicas.minimum, default=None)
            slots = sum(replicas[operator.id] for operator in stage.operators)
            if least is not None and slots < least.replicas.minimum:
                expected = f"at least {least.replicas.minimum} in its stage together"
                raise ConfigError(f"replicas of {least.id!r}", expected=expected, got=slots)

    def replicas(self) -> dict[str, int]:
        """Return the replicas of every operator that the next batch will have."""
        active = self._runtime.read().active(time.time())
        return {operator.id: active.get(operator.id, operator.replicas.initial) for operator in self.topology.operators}

    def was_planned(self) -> bool:
        """Return whether replicas were set in this directory before, by a plan or by hand."""
        return bool(self._runtime.read().replicas)

    def overridden(self, now_s: float) -> dict[str, int]:
        """Return the replicas that are set by hand at an instant, by operator."""
        return self._runtime.overridden(now_s)

    def change_grouping(self, start: str, end: str, **options: Any) -> int:
        """Change options of the grouping between two elements from the next batch on, such as ``weights``.

        Raises
        ------
        ConfigError
            When rows are not exchanged there, or the grouping does not take such options.
        """
        names = [
            plan.name
            for stage in self.graph.stages
            for plan in stage.exchanges
            if plan.edge.start == start and plan.edge.end == end
        ]
        if not names:
            raise ConfigError(f"edge '{start} -> {end}'", expected="an edge at which rows are exchanged", got="none")
        for plan in (plan for stage in self.graph.stages for plan in stage.exchanges if plan.name in names):
            check_options(plan, options)
        return self._runtime.change(groupings=dict.fromkeys(names, options)).version

    def wait(self, seconds: float | None = None) -> None:
        """Return after `seconds`, or when all input of finite sources is through; raise what ended a stage."""
        deadline_s = None if seconds is None else time.monotonic() + seconds
        idle = 0
        while deadline_s is None or time.monotonic() < deadline_s:
            self.check()
            idle = idle + 1 if deadline_s is None and self._idle() else 0
            if idle >= _ENOUGH:
                return
            time.sleep(_POLL_S)

    def check(self) -> None:
        """Raise the error that ended a stage, if one did."""
        for runner in self._stages:
            if (error := runner.error()) is not None:
                raise error

    def drain(self, timeout_s: float = 60.0) -> bool:
        """Let sources admit nothing new and wait until what is inside is through; return whether it is."""
        self._runtime.change(paused=True)
        deadline_s, quiet = time.monotonic() + timeout_s, 0
        while time.monotonic() < deadline_s:
            self.check()
            # A batch may have been about to be planned as the pause came.
            quiet = quiet + 1 if self._quiet() else 0
            if quiet >= _ENOUGH:
                return True
            time.sleep(_POLL_S)
        return False

    def stop(self, *, drain: bool = True) -> None:
        """Stop the queries, upstream first; what a drain does not finish goes on at the next start."""
        self._pool.stop()
        try:
            if drain:
                self.drain()
        finally:
            for runner in self._stages:
                runner.stop()
            if self._progress is not None:
                self._spark.streams.removeListener(self._progress)
            self._reign.release()
            self._hold.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(drain=kind is None)

    def batches(self) -> list[BatchStatistics]:
        """Return the statistics of the latest batches of every stage, in the order of their start.

        Each stage keeps ``settings.kept_batches`` of them; `totals` covers all.
        """
        found = [batch for runner in self._stages for batch in list(runner.statistics)]
        return sorted(found, key=lambda batch: batch.started_at_s)

    def by_operator(self) -> dict[str, OperatorStatistics]:
        """Return the totals of every operator."""
        return {operator.id: OperatorStatistics() for operator in self.topology.operators} | self.totals().operators

    def latency(self) -> LatencyHistogram:
        """Return the latency of all events that reached an end of the topology."""
        return self.totals().latency

    def totals(self) -> StageTotals:
        """Return what all stages did since the start, added up."""
        return sum((runner.totals for runner in self._stages), StageTotals())

    def failures(self) -> list[Failure]:
        """Return what operators failed on since the start, one entry for each operator and kind."""
        return [failure for runner in self._stages for failure in runner.failures]

    def letters_left_out(self) -> int:
        """Return how many events that failed since the start are counted, but not among the dead letters."""
        return sum(runner.letters_left_out for runner in self._stages)

    def drops(self) -> list[Drop]:
        """Return what was dropped since the start, one entry for each queue and reason."""
        return [drop for runner in self._stages for drop in runner.drops]

    def state_sizes(self) -> dict[str, StateSize]:
        """Return how large the states are, by operator, as of the last batch."""
        return {id: size for runner in self._stages for id, size in runner.state_sizes.items()}

    def hot_keys(self) -> list[HotKey]:
        """Return the keys of states that were too hot for one task since the start."""
        return [hot for runner in self._stages for hot in runner.hot_keys]

    def inputs(self) -> dict[str, InputState]:
        """Return how far every input has come: sources by their ids, queued edges by their names."""
        return self._positions.read()

    def progressed(self) -> dict[str, int]:
        """Return the rows that came to each source that only Spark can count, as its progress tells."""
        if self._progress is None:
            return {}
        names = {source: f"{self.topology.name}/{stage}" for source, stage in self._foreign_sources().items()}
        totals = {source: self._progress.named(name) for source, name in names.items()}
        return {source: 0 if found is None else found.arrived for source, found in totals.items()}

    def sink(self, id: str) -> BatchSink:
        """Return a sink."""
        return next(runner.sinks[id] for runner in self._stages if id in runner.sinks)

    @property
    def dead_letters(self) -> ArrowLog:
        """The log of events that operators gave up on."""
        return ArrowLog(self._workspace.place("dead-letters"), edge="dead letters")

    def _runner(self, stage: Stage) -> StageRunner | LiveRunner:
        if stage.id not in self.graph.live:
            return StageRunner(self._spark, self.graph, stage, self._workspace, self.settings, check=self._reign.check)
        return LiveRunner(self._spark, self.graph, stage, self._workspace, self.settings, self._live_tasks)

    def _live_tasks(self) -> int:
        """Return how many tasks a live stage may have: its part of the cores, of which batches need one."""
        spare = len(self.graph.live) < len(self.graph.stages)
        return max(1, (self.cores - spare) // len(self.graph.live))

    def _check_cores(self) -> None:
        """Refuse live stages that have no core each; on a cluster executors may come for them."""
        context, live = self._spark.sparkContext, sorted(self.graph.live)
        beside = len(live) < len(self.graph.stages)
        needed = len(live) + beside
        if live and on_this_machine(str(context.master)) and needed > context.defaultParallelism:
            raise ConfigError(
                f"live stages {', '.join(live)}",
                expected=f"{needed} cores, one for each{' and one for stages in batches' if beside else ''}",
                got=f"{context.defaultParallelism} ({context.master})",
                remedy=f"give it more (--master 'local[{needed}]'), or join stages: an inline shuffle parts none",
            )

    def _foreign_sources(self) -> dict[str, str]:
        """Return the sources that Spark reads, each with its stage."""
        return {
            source.id: stage.id
            for stage in self.graph.stages
            for source in stage.sources
            if source.connector.kind not in OWN_KINDS
        }

    def _idle(self) -> bool:
        return all(runner.left() == 0 for runner in self._stages) and self._settled()

    def _quiet(self) -> bool:
        inner = all(runner.backlog() == 0 for runner in self._stages if not runner.stage.sources)
        return inner and self._settled()

    def _settled(self) -> bool:
        return all(runner.settled() for runner in self._stages)


def _check_live(graph: StageGraph, workspace: Workspace) -> None:
    """Refuse live stages in an object store: how their topics are cut must outlive the driver, and is a file."""
    if graph.live and workspace.shared:
        raise ConfigError(
            f"live stages {', '.join(sorted(graph.live))}",
            expected="a run in a directory, where they keep how their topics are cut",
            got=workspace.shared,
            remedy="give --path a directory of the driver's: executors need not see it for live stages",
        )
