"""What stands in for Spark: a stage run in this process, round by round, and a running topology moved by hand."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from foretide.compile.stages import Stage, StageGraph, compile_stages
from foretide.errors import ConfigError
from foretide.latency import LatencyHistogram
from foretide.records import Hiring
from foretide.spark.batches.drops import Drop
from foretide.spark.batches.routing import Router
from foretide.spark.batches.states import HotKey, StateSize
from foretide.spark.inputs.positions import InputState
from foretide.spark.settings import EngineSettings
from foretide.spark.tasks.cells import RESULT, read_result, sender_of, unpack
from foretide.spark.tasks.contract import BatchOrder, Program, pack_slices
from foretide.spark.tasks.operators import OperatorSpec
from foretide.spark.tasks.program import StageTask
from foretide.spark.tasks.statistics import BatchStatistics, OperatorStatistics
from foretide.store import RuntimeConfig
from foretide.topology import Topology
from foretide.transport.dead_letters import Failure

Rows: TypeAlias = list[dict[str, Any]]


@dataclass(frozen=True)
class RowSlice:
    """Rows that a task reads as its part of an input."""

    element: str
    parts: tuple[pa.RecordBatch, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self.parts


@dataclass
class LocalBatch:
    """What one batch did: what tasks report, what crossed each exchange to whom, what reached the driver."""

    results: list[dict[str, Any]] = field(default_factory=list)
    received: dict[str, dict[int, Rows]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    collected: dict[str, Rows] = field(default_factory=lambda: defaultdict(list))
    senders: set[str] = field(default_factory=set)

    def rows_in(self, operator: str) -> dict[int, int]:
        """Return the rows that each replica of an operator took."""
        counts: dict[int, int] = defaultdict(int)
        for result in self.results:
            if operator in result["operators"]:
                counts[result["replica"]] += result["operators"][operator][0]
        return dict(counts)

    def at(self, sink: str) -> Rows:
        """Return the rows that reached a sink, over all edges into it."""
        return [row for edge, rows in self.collected.items() if edge.endswith(f"-{sink}") for row in rows]


class LocalStage:
    """One stage of a topology, ready to run batches in this process."""

    def __init__(self, topology: Topology, element: str, schemas: Mapping[str, pa.Schema] | None = None) -> None:
        self.stage: Stage = compile_stages(topology).stage_of(element)
        specs = {
            operator.id: OperatorSpec(operator, {"out": schemas[operator.id]} if operator.id in (schemas or {}) else {})
            for operator in self.stage.operators
        }
        self.router = Router(self.stage)
        self._key = f"{self.stage.id}/{uuid.uuid4().hex}"
        self._program = cloudpickle.dumps(Program(self.stage, specs))
        self._plans = {plan.number: plan for plan in (*self.stage.inputs, *self.stage.edges)}

    def run(
        self,
        inputs: Mapping[str, Sequence[pa.RecordBatch]],
        slots: int,
        *,
        batch_id: int = 0,
        config: RuntimeConfig | None = None,
        **order: Any,
    ) -> LocalBatch:
        """Run a batch: `inputs` are dealt to the tasks batch by batch, rows for sinks come to the driver."""
        sinks = {sink.id for sink in self.stage.sinks}
        dealt = [
            [RowSlice(name, tuple(parts[task::slots])) for name, parts in inputs.items() if parts[task::slots]]
            for task in range(slots)
        ]
        collected = frozenset(plan.number for plan in self._plans.values() if plan.edge.end in sinks)
        routes = self.router.routes(slots, config or RuntimeConfig())
        slices = pack_slices(dealt, slots)
        whole = BatchOrder(batch_id, slots, **{"slices": slices, "routes": routes, "collected": collected, **order})
        batch = LocalBatch()
        envelopes = self._round(StageTask(self._key, self._program, whole), slots, {}, batch)
        for round, edges in enumerate(self.stage.carriers, start=1):
            task = StageTask(self._key, self._program, replace(whole, slices=()), round=round)
            targets = max(whole.routes[number].replicas for number in edges)
            envelopes = self._round(task, targets, envelopes, batch)
        self._deliver(envelopes, batch, exchanged=False)
        return batch

    def _round(
        self, task: StageTask, slots: int, envelopes: Mapping[int, list[pa.RecordBatch]], batch: LocalBatch
    ) -> dict[int, list[pa.RecordBatch]]:
        self._deliver(envelopes, batch, exchanged=True)
        sent: dict[int, list[pa.RecordBatch]] = defaultdict(list)
        for replica in range(slots):
            for out in task.run(replica, iter(envelopes.get(replica, []))):
                for place, target in enumerate(out["target"].to_pylist()):
                    assert target >= 0
                    sent[target].append(out.slice(place, 1))
        return sent

    def _deliver(self, envelopes: Mapping[int, list[pa.RecordBatch]], batch: LocalBatch, *, exchanged: bool) -> None:
        for target, parts in envelopes.items():
            for part in parts:
                edge, payload = part["edge"][0].as_py(), part["payload"][0].as_py()
                if edge < 0:
                    if edge == RESULT and not exchanged:
                        batch.results.append(read_result(payload))
                    continue
                plan, rows = self._plans[edge], list(unpack(payload))
                plain = [row for part in rows for row in part.to_pylist()]
                collected = plan.edge.end in {sink.id for sink in self.stage.sinks}
                if exchanged and not collected:
                    batch.received[plan.name][target] += plain
                elif not exchanged:
                    assert collected, f"rows of {plan.name} left after the last round"
                    batch.collected[plan.name] += plain
                    batch.senders |= {sender_of(part) for part in rows}


@pytest.fixture(scope="session")
def local_stage() -> Callable[..., LocalStage]:
    """Return `LocalStage`, which runs a stage of a topology without Spark."""
    return LocalStage


@dataclass
class FakeRun:
    """A running topology, its inputs and batches as a test sets them."""

    topology: Topology
    states: dict[str, InputState] = field(default_factory=dict)
    done: list[BatchStatistics] = field(default_factory=list)
    plan: dict[str, int] = field(default_factory=dict)
    groupings: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    by_hand: dict[str, int] = field(default_factory=dict)
    failed: list[Failure] = field(default_factory=list)
    dropped: list[Drop] = field(default_factory=list)
    hot: list[HotKey] = field(default_factory=list)
    sizes: dict[str, StateSize] = field(default_factory=dict)
    refuse: Exception | None = None
    broken: Exception | None = None
    settings: EngineSettings = field(default_factory=EngineSettings)
    cores: int = 8
    machine_cores: int | None = None
    hires: dict[str, Hiring] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.graph: StageGraph = compile_stages(self.topology)
        initial = zip(self.topology.layout.operators, self.topology.initial_replicas.tolist(), strict=True)
        self.plan = {**dict(initial), **self.plan}

    def batches(self) -> list[BatchStatistics]:
        if self.broken is not None:
            raise self.broken
        return list(self.done)

    def failures(self) -> list[Failure]:
        return list(self.failed)

    def drops(self) -> list[Drop]:
        return list(self.dropped)

    def hot_keys(self) -> list[HotKey]:
        return list(self.hot)

    def state_sizes(self) -> dict[str, StateSize]:
        return dict(self.sizes)

    def replicas(self) -> dict[str, int]:
        return dict(self.plan)

    def progressed(self) -> dict[str, int]:
        return dict(self.counted)

    def overridden(self, now_s: float) -> dict[str, int]:
        return dict(self.by_hand)

    def hiring(self) -> Mapping[str, Hiring]:
        return dict(self.hires)

    def change_replicas(self, replicas: Mapping[str, int], hiring: Mapping[str, Hiring] | None = None) -> int:
        if self.refuse is not None:
            raise self.refuse
        self.plan.update(replicas)
        self.hires = dict(hiring or {})
        return len(self.plan)

    def change_grouping(self, start: str, end: str, **options: Any) -> int:
        if (start, end) not in {(edge.start, edge.end) for edge in self.topology.edges}:
            raise ConfigError(f"edge '{start} -> {end}'", expected="an edge", got="none")
        self.groupings[start, end] = options
        return 1

    def inputs(self) -> dict[str, InputState]:
        if self.broken is not None:
            raise self.broken
        return dict(self.states)

    def work(self, arrived: int, execution_s: Mapping[str, float], seconds: float = 1.0) -> None:
        """Let a stretch of time pass on a line of operators in one stage: events come, and slots do what they can."""
        [source] = self.topology.layout.sources
        before = self.states.get(source) or InputState(source, True, 0, 0)
        slots, each_s = sum(self.plan.values()), sum(execution_s.values())
        total = before.arrived + arrived
        rows = min(total - before.done, int(slots * seconds / each_s))
        done = before.done + rows
        self.states[source] = InputState(source, True, total, done, admitted=done)
        if rows:
            edges = dict.fromkeys(range(len(self.topology.edges)), rows)
            self.finish(
                source,
                {operator: (rows, rows * took) for operator, took in execution_s.items()},
                edges,
                latency={0.5: rows},
            )

    def finish(
        self, stage: str, rows: Mapping[str, tuple[int, float]], edges: Mapping[int, int] | None = None, **more: Any
    ) -> None:
        """Add a batch: for each operator the rows it took and its busy time."""
        number = sum(1 for batch in self.done if batch.stage == stage)
        latency = LatencyHistogram()
        for seconds, count in more.pop("latency", {}).items():
            latency.add([seconds], [count])
        batch = BatchStatistics(stage, number, 1, 1, {}, started_at_s=float(number), **more)
        batch.operators = {
            (operator, 0): OperatorStatistics(rows_in=taken, rows_out=taken, busy_s=busy_s)
            for operator, (taken, busy_s) in rows.items()
        }
        batch.edges.update(edges or {})
        batch.latency = latency
        batch.replicas = dict(self.plan)
        self.done.append(batch)


@pytest.fixture(scope="session")
def fake_run() -> Callable[..., FakeRun]:
    """Return `FakeRun`, a topology that runs nowhere."""
    return FakeRun
