"""Running an application by hand: every operator in this process, piece by piece, without Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest

from foretide.apps import SINK, App
from foretide.spark.tasks.operators import OperatorRunner, OperatorSpec
from foretide.topology import Topology

#: Stand-ins for operators that keep state: from all batches that reached one to those that leave it.
FrameOperators = Mapping[str, Callable[[list[pa.RecordBatch]], list[pa.RecordBatch]]]


class HandRun:
    """What every operator took and gave, and what reached the sink."""

    def __init__(self, topology: Topology, events: pa.Table, piece: int, frames: FrameOperators) -> None:
        self.rows_in: dict[str, int] = {}
        self.crossed: dict[tuple[str, str], int] = defaultdict(int)
        self.failed = 0
        self._topology = topology
        self._waiting: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        for source in topology.sources:
            for batch in events.to_batches(max_chunksize=piece):
                self._leave(source.id, "out", batch)
        for operator in topology.operators:
            batches = self._waiting[operator.id]
            self.rows_in[operator.id] = sum(batch.num_rows for batch in batches)
            if operator.id in frames:
                for batch in frames[operator.id](batches):
                    self._leave(operator.id, "out", batch)
                continue
            runner = OperatorRunner(OperatorSpec(operator, {}))
            for batch in batches:
                for output, parts in runner.run(batch).items():
                    for part in parts:
                        self._leave(operator.id, output, part)
            self.failed += runner.failed

    def share(self, start: str, output: str) -> float:
        """Return events out per event in, for one output."""
        return self.crossed[start, output] / self.rows_in[start]

    def stored(self, sink: str = SINK) -> pa.Table:
        """Return what a sink holds."""
        return pa.concat_tables(map(pa.Table.from_batches, ([batch] for batch in self._waiting[sink])))

    def _leave(self, element: str, output: str, batch: pa.RecordBatch) -> None:
        self.crossed[element, output] += batch.num_rows
        for edge in self._topology.outgoing.get(element, ()):
            if edge.output == output and batch.num_rows:
                self._waiting[edge.end].append(batch)


@pytest.fixture(scope="session")
def run_by_hand() -> Callable[..., HandRun]:
    """Return a function that runs an application on its own events."""

    def run(
        app: App[Any], options: Mapping[str, Any], *, piece: int = 100, frames: FrameOperators | None = None
    ) -> Any:
        events = app.read_options(options).events()
        return HandRun(app.build(options), events, piece, frames or {})

    return run


@pytest.fixture
def short_trace(tmp_path: Any) -> str:
    """Return the path of a trace with 1000 events."""
    path = tmp_path / "short.csv"
    path.write_text("second,events_per_second\n0,600\n1,400\n", encoding="utf-8")
    return str(path)
