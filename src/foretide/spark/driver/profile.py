"""Benchmarking operators before deployment (SPEC P7): the execution time of one event, operator by operator.

Operators are called in this process as tasks call them, with events that the topology's own sources would give, and
what each passes on goes to the next. No Spark is started: the times are those of a replica with a core to itself.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator

import pyarrow as pa

from foretide.control.profiles import OperatorProfile, Profile
from foretide.errors import ConfigError
from foretide.spark.batches.declared import operator_spec
from foretide.spark.batches.failures import FAILURE_LOGGER
from foretide.spark.errors import OperatorError
from foretide.spark.inputs.contract import InputSpec, TraceInput
from foretide.spark.tasks.keyed import KeyedRunner
from foretide.spark.tasks.operators import OperatorRunner, Outputs
from foretide.state.memory import MemoryState
from foretide.topology import Operator, Topology
from foretide.transport.dead_letters import failures_of

__all__ = ["profile_topology"]


def profile_topology(topology: Topology, events: int = 2_000, pieces: int = 20, seconds: float = 5.0) -> Profile:
    """Benchmark every operator of a topology.

    Parameters
    ----------
    topology : Topology
        What to benchmark; its sources must be traces, whose events can be made without waiting for them.
    events : int
        Events of each source to try.
    pieces : int
        Calls that they are divided into.
    seconds : float
        The time that an operator may take at most; slow ones see fewer events.

    Raises
    ------
    ConfigError
        When a source is no trace.
    OperatorError
        When an operator breaks its contract, or fails on every event.
    """
    waiting: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    for source in topology.sources:
        if source.connector.kind != "trace":
            raise ConfigError(
                f"source {source.id!r}",
                expected="a source of kind 'trace' to take events from",
                got=f"kind {source.connector.kind!r}",
                remedy="declare execution_s= of the operators instead",
            )
        spec = InputSpec(source.id, "trace", source.connector.options)
        for end in _ends(topology, source.id):
            waiting[end].extend(TraceInput(spec).sample(events, max(1, events // pieces)))
    found: dict[str, OperatorProfile] = {}
    for operator in topology.operators:
        if operator.on_frames or not waiting[operator.id]:
            continue
        trial = _Trial(topology, operator)
        trial.run(waiting[operator.id], seconds)
        found[operator.id] = trial.profile()
        for output, batches in trial.outputs.items():
            for end in _ends(topology, operator.id, output):
                waiting[end].extend(batches)
    return Profile(topology.name, time.time(), found)


class _Trial:
    """One operator under test."""

    def __init__(self, topology: Topology, operator: Operator) -> None:
        self._operator = operator
        spec = operator_spec(topology, operator, 0)
        self._runner = OperatorRunner(spec) if spec.state is None else KeyedRunner(spec)
        self._state = None if spec.state is None else MemoryState(spec.state)
        self._per_event_s: list[float] = []
        self._events = 0
        self.outputs: dict[str, list[pa.RecordBatch]] = defaultdict(list)

    def run(self, batches: Iterable[pa.RecordBatch], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for batch in _warmed_up(list(batches)):
            if time.monotonic() > deadline and len(self._per_event_s) > 1:
                break
            runner = self._runner
            busy_s, failing_s, failed = runner.busy_s, runner.failing_s, runner.failed
            outputs = self._outputs(batch)
            self._events += batch.num_rows
            if finished := batch.num_rows - (runner.failed - failed):
                work_s = runner.busy_s - busy_s - (runner.failing_s - failing_s)
                self._per_event_s.append(work_s / finished)
            for output, parts in outputs.items():
                self.outputs[output].extend(parts)
        self._tell_failures()

    def _outputs(self, batch: pa.RecordBatch) -> Outputs:
        if self._state is None:
            return self._runner.run(batch)
        assert isinstance(self._runner, KeyedRunner)
        return self._runner.run_keyed(batch, self._state, partitions=1)

    def _tell_failures(self) -> None:
        """Warn of events that failed; an operator that fails on all of them cannot be measured."""
        failures = failures_of(self._runner.letters)
        for failure in failures:
            FAILURE_LOGGER.warning("%s", failure, extra={"failure": failure})
        if failures and not self._per_event_s:
            first = failures[0]
            raise OperatorError(
                self._operator.id,
                expected="a function that works on some of the events that it is tried with",
                got=f"{first.cause} on the event {first.event}, and failures on all others",
                remedy="mend it",
            )

    def profile(self) -> OperatorProfile:
        # The first call loads tables and compiles: it says nothing about the ones to come.
        times = self._per_event_s[1:] or self._per_event_s or [0.0]
        given = {
            output: sum(part.num_rows for part in self.outputs.get(output, ())) for output in self._operator.outputs
        }
        events = max(1, self._events)
        return OperatorProfile(
            statistics.median(times), {output: rows / events for output, rows in given.items()}, self._events
        )


def _warmed_up(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches, a short one in front of them."""
    if batches and batches[0].num_rows > 1:
        yield batches[0].slice(0, 1)
        yield batches[0].slice(1)
        yield from batches[1:]
    else:
        yield from batches


def _ends(topology: Topology, start: str, output: str | None = None) -> list[str]:
    operators = topology.layout.operator_index
    return [
        edge.end
        for edge in topology.edges
        if edge.start == start and (output is None or edge.output == output) and edge.end in operators
    ]
