"""How far a running topology has come.

Arrivals are measured at the inputs, not by what batches got through: the two differ exactly when it matters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from foretide.compile.stages import Stage, StageGraph
from foretide.spark.inputs.contract import NEVER_US, InputSpec, TraceInput
from foretide.spark.inputs.edges import EdgeStore
from foretide.spark.inputs.kafka import KafkaInput
from foretide.spark.inputs.planned import Position, Positions
from foretide.spark.inputs.topic_edges import topic_inputs

__all__ = ["InputState", "PositionReader"]


@dataclass(frozen=True)
class InputState:
    """How far one input has come.

    Parameters
    ----------
    name : str
        The source's id, or the queued edge's name.
    is_source : bool
        Whether events enter the topology here.
    arrived, done : int
        Rows that have come, and rows that finished batches have read; 0 where only Spark knows.
    exhausted : bool
        Whether all rows that will ever come are done; only a trace, which ends, can be.
    admitted : int
        Rows that batches have taken, the one under way included.
    """

    name: str
    is_source: bool
    arrived: int
    done: int
    exhausted: bool = False
    admitted: int = 0

    @property
    def backlog(self) -> int:
        """Rows that are not through: those that wait, and those of the batch under way."""
        return max(0, self.arrived - self.done)

    @property
    def waiting(self) -> int:
        """Rows that no batch has taken yet."""
        return max(0, self.arrived - max(self.admitted, self.done))


class PositionReader:
    """Reads the positions of all inputs of a topology.

    Parameters
    ----------
    graph : StageGraph
        Its stages.
    edges : EdgeStore
        Where its queued edges are.
    positions : callable
        Returns, for a stage's id, the positions after the last batch that is done and after the last one that was
        planned, see `Feed.positions`.
    """

    def __init__(
        self, graph: StageGraph, edges: EdgeStore, positions: Callable[[str], tuple[Positions, Positions]]
    ) -> None:
        self._graph, self._positions = graph, positions
        self._traces = {
            source.id: TraceInput(InputSpec(source.id, "trace", source.connector.options))
            for source in graph.topology.sources
            if source.connector.kind == "trace"
        }
        topics = {
            source.id: source.connector.options for source in graph.topology.sources if source.connector.kind == "kafka"
        }
        for stage in graph.stages:
            if stage.id in graph.live:
                topics |= topic_inputs(graph, stage, edges.workspace.run_id(), edges.settings.kafka_servers)
        self._topics = {
            name: KafkaInput(InputSpec(name, "kafka", options), lenient=True) for name, options in topics.items()
        }
        self._logs = {plan.name: edges.open(plan.name, lenient=True) for plan in graph.queued}

    def read(self) -> dict[str, InputState]:
        """Return the state of every input by its name."""
        return {state.name: state for stage in self._graph.stages for state in self._stage(stage)}

    def _stage(self, stage: Stage) -> Iterator[InputState]:
        done, taken = self._positions(stage.id)
        for source in stage.sources:
            yield self._source(source.id, done.get(source.id), taken.get(source.id))
        for plan in stage.inputs:
            if plan.name in self._topics:
                yield replace(self._source(plan.name, done.get(plan.name), taken.get(plan.name)), is_source=False)
                continue
            next_done, next_taken = (int(places.get(plan.name, {"next": 0})["next"]) for places in (done, taken))
            yield InputState(plan.name, False, self._logs[plan.name].end_offset(), next_done, admitted=next_taken)

    def _source(self, id: str, position: Position | None, taken: Position | None) -> InputState:
        part = self._traces.get(id) or self._topics.get(id)
        if position is None or part is None:
            return InputState(id, True, 0, 0)
        done = int(position["next"])
        arrived = part.available(position, int(time.time() * 1e6))
        exhausted = done >= part.available(position, NEVER_US)
        return InputState(id, True, arrived, done, exhausted, admitted=int((taken or position)["next"]))
