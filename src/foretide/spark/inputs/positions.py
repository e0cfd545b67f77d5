"""How far a running topology has come, read from what Spark has written down.

Arrivals are measured at the inputs, not by what batches got through: the two differ exactly when it matters.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretide.compile.stages import Stage, StageGraph
from foretide.spark.inputs.contract import InputSpec, Position, TraceInput
from foretide.spark.inputs.edges import EdgeStore
from foretide.spark.inputs.feeds import OWN_KINDS
from foretide.spark.inputs.kafka import KafkaInput
from foretide.spark.settings import EngineSettings
from foretide.store.workspace import Workspace

__all__ = ["InputState", "PositionReader", "reads_frames"]

# Far enough in the future for every event of a trace to be due.
_NEVER_US = 1 << 60


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
    """Reads the positions of all inputs of a topology; its own process, or another one, may run the topology.

    Parameters
    ----------
    graph : StageGraph
        Its stages.
    workspace : Workspace
        Where it runs.
    settings : EngineSettings, optional
        How: says where its queued edges are.
    """

    def __init__(self, graph: StageGraph, workspace: Workspace, settings: EngineSettings | None = None) -> None:
        self._graph, self._workspace = graph, workspace
        self._traces = {
            source.id: TraceInput(InputSpec(source.id, "trace", source.connector.options))
            for source in graph.topology.sources
            if source.connector.kind == "trace"
        }
        self._topics = {
            source.id: KafkaInput(InputSpec(source.id, "kafka", source.connector.options), lenient=True)
            for source in graph.topology.sources
            if source.connector.kind == "kafka"
        }
        edges = EdgeStore(workspace, settings or EngineSettings())
        self._logs = {plan.name: edges.open(plan.name, lenient=True) for plan in graph.queued}

    def read(self) -> dict[str, InputState]:
        """Return the state of every input by its name."""
        return {state.name: state for stage in self._graph.stages for state in self._stage(stage)}

    def last_batch(self, stage: str) -> int:
        """Return the last batch of a stage that Spark knows to be done, -1 before the first."""
        return max(_numbers(self._workspace.checkpoint(stage) / "commits"), default=-1)

    def _stage(self, stage: Stage) -> Iterator[InputState]:
        done, taken = self._positions(stage)
        for source in stage.sources:
            yield self._source(source.id, done.get(source.id), taken.get(source.id))
        for plan in stage.inputs:
            next_done, next_taken = (int(places.get(plan.name, {"next": 0})["next"]) for places in (done, taken))
            yield InputState(plan.name, False, self._logs[plan.name].end_offset(), next_done, admitted=next_taken)

    def _source(self, id: str, position: Position | None, taken: Position | None) -> InputState:
        part = self._traces.get(id) or self._topics.get(id)
        if position is None or part is None:
            return InputState(id, True, 0, 0)
        done = int(position["next"])
        arrived = part.available(position, int(time.time() * 1e6))
        exhausted = done >= part.available(position, _NEVER_US)
        return InputState(id, True, arrived, done, exhausted, admitted=int((taken or position)["next"]))

    def _positions(self, stage: Stage) -> tuple[Mapping[str, Position], Mapping[str, Position]]:
        """Return the positions after the last batch that Spark knows to be done, and after the last one it planned.

        Before the first is done, the former is where the first begins.
        """
        offsets = self._workspace.checkpoint(stage.id) / "offsets"
        done, planned = self.last_batch(stage.id), max(_numbers(offsets), default=-1)
        if planned < 0:
            return {}, {}
        taken = self._named(stage, _last_line(offsets / str(planned)))
        if done < 0:
            return {name: {**place, "next": place.get("first", 0)} for name, place in taken.items()}, taken
        return (taken if done == planned else self._named(stage, _last_line(offsets / str(done)))), taken

    def _named(self, stage: Stage, offset: Any) -> dict[str, Position]:
        """Return an offset as positions by input; one that Spark reads for a stage has the form of its data source."""
        if not reads_frames(stage):
            return dict(offset)
        if stage.sources and (topic := self._topics.get(stage.sources[0].id)) is not None:
            return {topic.name: topic.from_spark(offset)}
        if stage.inputs and "offset" in offset:
            return {stage.inputs[0].name: {"next": int(offset["offset"])}}
        if stage.sources and (trace := self._traces.get(stage.sources[0].id)) is not None:
            started_us = int(offset["started_at_us"])
            return {trace.name: {**trace.begin(started_us), "next": int(offset["next"]), "started_us": started_us}}
        return {}


def reads_frames(stage: Stage) -> bool:
    """Tell whether Spark reads the rows of a stage, rather than its tasks."""
    return any(operator.mode == "dataframe" for operator in stage.operators) or any(
        source.connector.kind not in OWN_KINDS for source in stage.sources
    )


def _numbers(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.glob("[0-9]*") if path.name.isdecimal()]


def _last_line(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8").splitlines()[-1])
