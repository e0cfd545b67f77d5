"""The data source behind a stage: it tells Spark which rows make up the next batch, and nothing else.

Spark keeps the positions in its offset log, replays a batch with the same ones after a failure, and reports how far
inputs have come. The rows themselves are read by the stage's tasks (see `foretide.spark.inputs.contract` and ADR 0007).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from foretide.clock import Clock, SystemClock
from foretide.spark.inputs.contract import InputSpec, Position, StageInput, open_input
from foretide.spark.inputs.faults import leaves_fault, leaving_fault
from foretide.spark.inputs.limits import WatchedLimits
from foretide.store import RuntimeStore
from foretide.store.workspace import FAULT_FILE
from foretide.traces.plan import UNLIMITED_ROWS

__all__ = ["StageDataSource", "StageFeed", "StageStreamReader"]


@dataclass(frozen=True)
class StageFeed:
    """What a stage reads, and where its limits are watched.

    Parameters
    ----------
    inputs : tuple of InputSpec
        The inputs.
    limits_path : str
        The file with the most rows of a batch, see `WatchedLimits`.
    runtime_path : str
        The topology's run-time configuration, see `RuntimeStore`.
    """

    inputs: tuple[InputSpec, ...]
    limits_path: str
    runtime_path: str

    def to_json(self) -> str:
        """Return it as the option of the data source."""
        return json.dumps(asdict(self))

    @property
    def fault_path(self) -> str:
        """Where the reader leaves an error for the driver, see `foretide.spark.inputs.faults`."""
        return str(Path(self.limits_path).with_name(FAULT_FILE))

    @classmethod
    def from_json(cls, text: str) -> StageFeed:
        """Return what `to_json` described."""
        value = json.loads(text)
        specs = tuple(InputSpec(**spec) for spec in value["inputs"])
        return cls(specs, value["limits_path"], value["runtime_path"])


class StageStreamReader(DataSourceStreamReader):
    """Decides which rows of a stage's inputs make up the next batch."""

    def __init__(self, feed: StageFeed, clock: Clock | None = None) -> None:
        self.fault_path = feed.fault_path
        self._clock = clock or SystemClock()
        self._inputs: Mapping[str, StageInput] = {spec.name: open_input(spec) for spec in feed.inputs}
        self._limits = WatchedLimits(feed.limits_path)
        self._runtime = RuntimeStore(feed.runtime_path)
        self._last: dict[str, Position] | None = None
        self._released: dict[str, int] = {}

    @leaves_fault
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the position before the first row of every input."""
        now_us = self._now_us()
        self._last = {name: part.begin(now_us) for name, part in self._inputs.items()}
        return self._last

    @leaves_fault
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends: all that is there, within the limits, each input in proportion."""
        self._last = start
        now_us = self._now_us()
        ready = self._ready(start, now_us)
        self._let_go({name: start[name] for name, rows in ready.items() if not rows})
        total = sum(ready.values())
        if not total:
            return start
        allowed = total if isinstance(limit, ReadAllAvailable) else min(total, self._allowed(limit))
        if not allowed:
            return start
        return {
            name: self._inputs[name].advance(start[name], start[name]["next"] + -(-rows * allowed // total))
            for name, rows in ready.items()
        }

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Leave the limit to the watched file."""
        return ReadMaxRows(UNLIMITED_ROWS)

    @leaves_fault
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the arrivals at every input, whether or not batches could take them."""
        if self._last is None:
            return None
        now_us = self._now_us()
        return {
            name: {**position, "next": self._inputs[name].available(position, now_us)}
            for name, position in self._last.items()
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Give Spark nothing to read."""
        return []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Give Spark nothing to read."""
        return iter(())

    @leaves_fault
    def commit(self, end: dict[str, Any]) -> None:
        """Let inputs drop what was read before the batch that ended at `end`, which may still be replayed."""
        for name, position in end.items():
            self._inputs[name].release(position)

    def _let_go(self, idle: Mapping[str, Position]) -> None:
        """Let inputs without new rows drop all that was read.

        Spark asks for the next batch only after it has written down that the last one is done, but tells us so only
        with the batch after it. A stage that has read a full edge to its end would wait for rows that the stage before
        cannot write, for want of room.
        """
        for name, position in idle.items():
            if self._released.get(name) != position["next"]:
                self._inputs[name].release({**position, "first": position["next"]})
                self._released[name] = position["next"]

    def _ready(self, start: Mapping[str, Position], now_us: int) -> dict[str, int]:
        paused = self._runtime.read().paused
        return {
            name: 0 if paused and part.is_source else max(0, part.available(start[name], now_us) - start[name]["next"])
            for name, part in self._inputs.items()
        }

    def _allowed(self, limit: ReadLimit) -> int:
        watched = self._limits.read().max_rows
        spark = limit.max_rows if isinstance(limit, ReadMaxRows) else UNLIMITED_ROWS
        return spark if watched is None else min(spark, watched)

    def _now_us(self) -> int:
        return int(self._clock.now_s() * 1e6)


class StageDataSource(DataSource):
    """The data source ``foretide-stage``; its option ``feed`` is a `StageFeed` in JSON."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "foretide-stage"

    def schema(self) -> str:
        """Return a schema that is never filled."""
        return "nothing int"

    def streamReader(self, schema: Any) -> StageStreamReader:  # noqa: N802
        """Return the reader."""
        feed = StageFeed.from_json(self.options["feed"])
        with leaving_fault(feed.fault_path):
            return StageStreamReader(feed)
