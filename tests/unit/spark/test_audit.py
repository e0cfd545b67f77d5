"""Counting lost and repeated events in sinks that were filled here."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from topologies import line

from foretide.spark.driver.audit import Audit, SinkAudit
from foretide.spark.sinks.contract import MemorySink, open_sink
from foretide.topology import Topology


def ending_in(kind: str, path: Path | None = None, selectivity: float | None = 1.0) -> Topology:
    declared: dict[str, Any] = {} if selectivity is None else {"selectivity": selectivity}
    options: dict[str, Any] = {} if path is None else {"path": str(path)}
    return line("a", source={"kind": "trace", "trace": "pasps_dns"}, sink={"kind": kind, **options}, **declared)


def fill(topology: Topology, *batches: list[int], first: int = 0) -> Any:
    """Write batches of ids into the sink of a topology, and return a run that knows it."""
    sink = open_sink(topology.sinks[0], "r1")
    for number, ids in enumerate(batches, start=first):
        rows = pa.table({"id": ids})
        if sink.collects:
            sink.commit(number, (), rows)
            continue
        file: Any = sink.task_writer(number).open()  # type: ignore[union-attr]
        file.append(rows.to_batches()[0])
        sink.commit(number, [file.close()], None)
    return SimpleNamespace(topology=topology, sink=lambda id: sink)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "parquet"])
def test_lost_and_repeated_events_are_counted(kind: str, tmp_path: Path) -> None:
    topology = ending_in(kind, None if kind == "memory" else tmp_path / "out")
    audit = SinkAudit(topology)
    running = fill(topology, [0, 1, 2], [2, 5])
    assert audit.count(running, 6, "r1") == Audit(expected=6, lost=2, duplicated=1)


def test_what_a_database_held_before_does_not_count(tmp_path: Path) -> None:
    topology = ending_in("sqlite", tmp_path / "out.db")
    fill(topology, [0, 1, 2])
    audit = SinkAudit(topology)
    running = fill(topology, [0, 1], first=1)
    assert audit.count(running, 2, "r1") == Audit(expected=2, lost=0, duplicated=0)


@pytest.mark.parametrize(
    "topology", [ending_in("none"), ending_in("memory", selectivity=0.5), ending_in("memory", selectivity=None)]
)
def test_where_events_do_not_become_one_row_each_there_is_nothing_to_compare(topology: Topology) -> None:
    running = SimpleNamespace(topology=topology, sink=lambda id: MemorySink())
    assert SinkAudit(topology).count(running, 1, "r1") is None


def test_a_sink_that_stayed_empty_has_lost_all(tmp_path: Path) -> None:
    topology = ending_in("memory")
    running = SimpleNamespace(topology=topology, sink=lambda id: MemorySink())
    assert SinkAudit(topology).count(running, 3, "r1") == Audit(expected=3, lost=3, duplicated=0)
    assert SinkAudit(topology).count(running, 3, "r1", dropped=3) == Audit(3, lost=0, duplicated=0, dropped=3)
