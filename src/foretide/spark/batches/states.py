"""The states of a stage's operators, from batch to batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretide.compile.stages import Stage
from foretide.grouping import Grouping
from foretide.spark.batches.failures import FAILURE_LOGGER
from foretide.spark.settings import EngineSettings
from foretide.state.changes import StateOrder
from foretide.state.clock import Timing
from foretide.state.deal import Dealt
from foretide.state.ledger import StateLedger
from foretide.store.workspace import Workspace
from foretide.topology import Topology
from foretide.transport.contract import BatchWriter, Commit, Log

__all__ = ["HotKey", "StageStates", "StateSize"]

_PARTITIONS = 64
# A key is hot that has so many times a task's even part of at least so many rows.
_HOT, _ENOUGH_ROWS = 1.5, 1_000


@dataclass(frozen=True)
class HotKey:
    """A key that has so large a part of a batch that its task is late, however many replicas there are.

    >>> str(HotKey("count", "('the',)", 0.6, 4)).partition(",")[0]
    "operator 'count': key ('the'"
    """

    operator: str
    key: str
    part: float
    tasks: int

    @property
    def kind(self) -> tuple[str, str]:
        """What tells one from another."""
        return self.operator, self.key

    def __str__(self) -> str:
        return (
            f"operator {self.operator!r}: key {self.key} has {self.part:.0%} of the rows of a batch that {self.tasks} "
            "tasks share, and one task must do them all; split the key, or add up before the exchange"
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class StateSize:
    """Keys that have a state, and the bytes that they take on a machine, as far as batches have looked."""

    keys: int
    bytes: int


class StageStates:
    """The states that are kept for operators of one stage.

    Parameters
    ----------
    topology : Topology
        The whole.
    stage : Stage
        The stage.
    workspace : Workspace
        Where changelogs and snapshots are.
    settings : EngineSettings
        Whether files are forced to the disk.
    """

    def __init__(self, topology: Topology, stage: Stage, workspace: Workspace, settings: EngineSettings) -> None:
        # Changelogs have writers like edges, and numbers after theirs.
        first, place = len(topology.edges), topology.layout.operator_index
        self._ledgers = [
            StateLedger(
                workspace.place("state", operator.id),
                operator.id,
                workspace.run_id(),
                first + place[operator.id],
                partitions=int(operator.options.get("state_partitions", _PARTITIONS)),
                key=operator.key,
                columns=operator.state,
                timing=Timing.of(operator.options),
                fsync=settings.sync_files,
            )
            for operator in stage.keyed
        ]
        #: Keys that were too hot for one task, by operator and key.
        self.hot_keys: dict[tuple[str, str], HotKey] = {}
        self._into = {
            ledger.operator: [plan.number for plan in stage.exchanges if plan.edge.end == ledger.operator]
            for ledger in self._ledgers
        }

    @property
    def sizes(self) -> dict[str, StateSize]:
        """How large the states are, by operator."""
        return {ledger.operator: StateSize(ledger.keys, ledger.size) for ledger in self._ledgers}

    @property
    def logs(self) -> dict[int, Log]:
        """The changelogs, by the number of their writer."""
        return {ledger.writer: ledger.log for ledger in self._ledgers}

    def deal(self, tasks: int) -> dict[str, NDArray[np.int64]]:
        """Return the task of each partition in a batch of so many tasks, by operator."""
        return {ledger.operator: ledger.deal(tasks) for ledger in self._ledgers}

    def orders(
        self, batch_id: int, dealt: Mapping[str, NDArray[np.int64]], transactions: Mapping[int, BatchWriter]
    ) -> dict[str, StateOrder]:
        """Return what the tasks of a batch are told, by operator."""
        return {
            ledger.operator: ledger.order(batch_id, dealt[ledger.operator], transactions[ledger.writer].committed)
            for ledger in self._ledgers
        }

    def routes(self, tasks: int, orders: Mapping[str, StateOrder]) -> dict[int, Grouping]:
        """Return how rows reach the tasks that have their keys, by the number of the edge."""
        return {number: Dealt(order.deal, tasks) for id, order in orders.items() for number in self._into[id]}

    def learn(self, commits: Mapping[int, Commit], results: Iterable[Mapping[str, Any]], tasks: int) -> None:
        """Take note of a batch of so many tasks that is committed, and of what they report."""
        found = list(results)
        for ledger in self._ledgers:
            reports = [result["states"][ledger.operator] for result in found if ledger.operator in result["states"]]
            ledger.learn(commits[ledger.writer], reports)
            self._look_for_hot_keys(ledger.operator, reports, tasks)

    def _look_for_hot_keys(self, operator: str, reports: Sequence[Mapping[str, Any]], tasks: int) -> None:
        """Warn of a key that no number of tasks makes faster, once."""
        rows = sum(rows for report in reports for rows, _ in report["work"].values())
        key, most = max((report["hottest"] for report in reports), key=lambda hottest: hottest[1], default=("", 0))
        if tasks > 1 and rows >= _ENOUGH_ROWS and most > _HOT * rows / tasks:
            hot = HotKey(operator, key, most / rows, tasks)
            if hot.kind not in self.hot_keys:
                FAILURE_LOGGER.warning("%s", hot)
            self.hot_keys[hot.kind] = hot
