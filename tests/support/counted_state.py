"""A state that counts keys, without Spark: its ledger, and tasks that work on it batch by batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from foretide.depot import joined
from foretide.state.clock import Timing
from foretide.state.keys import encode_keys, partitions_of
from foretide.state.ledger import StateLedger
from foretide.state.reading import read_state
from foretide.state.task import TaskState

SCHEMA = pa.schema([("n", pa.int64())])
SEEN = {"late": 0, "latest_us": None, "columns": ""}


class Counting:
    """Counts keys batch by batch as tasks do, each batch with another number of tasks."""

    def __init__(
        self,
        root: Path,
        partitions: int = 8,
        views: str = "views",
        timing: Timing | None = None,
        batch: int = 0,
        place: str | None = None,
        columns: str = "n long",
    ) -> None:
        # Columns after the first have the number of the batch that wrote them last.
        self.schema = pa.schema([(column.split()[0], pa.int64()) for column in columns.split(",")])
        self.ledger = StateLedger(
            joined(place or str(root), "state", "count"),
            "count",
            "r1",
            7,
            partitions=partitions,
            key=["key"],
            columns=columns,
            timing=timing,
            fsync=False,
        )
        self.views, self.batch = root / views, batch

    def run(self, keys: list[int], tasks: int = 2, *, commit: bool = True, forget: bool = False) -> dict[int, int]:
        """Count keys, negative ones away; return what was counted before."""
        before: dict[int, int] = {}
        deal = self.ledger.deal(tasks)
        transaction = self.ledger.log.begin("stage", self.batch)
        order = self.ledger.order(self.batch, deal, transaction.committed)
        segments, reports = [], []
        column = pa.array([abs(key) for key in keys])
        homes = partitions_of([column], order.partitions)
        for task in range(tasks):
            state = TaskState(order, self.schema, self.views, task)
            mine = np.flatnonzero(deal[homes] == task)
            mine = mine[np.argsort(homes[mine], kind="stable")]
            if mine.size:
                found = state.look_up(homes[mine], encode_keys([column.take(pa.array(mine))]))["n"].to_pylist()
                before |= {abs(keys[at]): n or 0 for at, n in zip(mine.tolist(), found, strict=True)}
                gone = np.array([keys[at] < 0 for at in mine.tolist()])
                after = [None if away else (n or 0) + 1 for n, away in zip(found, gone, strict=True)]
                others = [pa.array([self.batch] * mine.size, pa.int64())] * (len(self.schema) - 1)
                rows = pa.record_batch([pa.array(after, pa.int64()), *others], schema=self.schema)
                state.note(homes[mine], encode_keys([column.take(pa.array(mine))]), gone, rows)
            info = transaction.segment_writer().write(state.rows())
            if info is not None and not forget:
                state.made(info.name)
            segments.append(info)
            taken = {at: list(vars(each).values()) for at, each in state.snapshots().items()}
            work = {home: (1, 1) for home in homes[mine].tolist()}
            report = {"work": work, "seconds": 0.01 * mine.size, "changed": state.changed()}
            reports.append(json.loads(json.dumps({**report, **SEEN, "sizes": state.sizes(), "snapshots": taken})))
        if commit:
            self.ledger.learn(transaction.commit(segments), reports)
            self.batch += 1
        return before


def counted(root: Path, batches: int = 30, **options: Any) -> Counting:
    """Count ten keys in each batch, and two in one of them alone, of which one goes again."""
    counting = Counting(root, **options)
    counting.run([100, 101])
    counting.run([-100])
    for _ in range(batches):
        counting.run(list(range(10)))
    return counting


def expected(batches: int = 30) -> list[dict[str, int]]:
    return [*({"key": key, "n": batches} for key in range(10)), {"key": 101, "n": 1}]


def found(root: str | Path) -> list[dict[str, int]]:
    return sorted(read_state(root, "count").to_pylist(), key=lambda row: int(row["key"]))


def partitions(root: Path) -> int:
    return int(json.loads((root / "state" / "count" / "state.json").read_text())["partitions"])
