"""The states of a stage's operators, from batch to batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from foretide.compile.stages import Stage
from foretide.grouping import Grouping
from foretide.spark.settings import EngineSettings
from foretide.state.changes import StateOrder
from foretide.state.deal import Dealt
from foretide.state.ledger import StateLedger
from foretide.store.workspace import Workspace
from foretide.topology import Topology
from foretide.transport.contract import BatchWriter, Commit, Log

__all__ = ["StageStates"]

_PARTITIONS = 64


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
                workspace.state(operator.id),
                operator.id,
                workspace.run_id(),
                first + place[operator.id],
                partitions=int(operator.options.get("state_partitions", _PARTITIONS)),
                key=operator.key,
                columns=operator.state,
                fsync=settings.sync_files,
            )
            for operator in stage.keyed
        ]
        self._into = {
            ledger.operator: [plan.number for plan in stage.exchanges if plan.edge.end == ledger.operator]
            for ledger in self._ledgers
        }

    @property
    def logs(self) -> dict[int, Log]:
        """The changelogs, by the number of their writer."""
        return {ledger.writer: ledger.log for ledger in self._ledgers}

    def orders(self, tasks: int, transactions: Mapping[int, BatchWriter]) -> dict[str, StateOrder]:
        """Return what the tasks of a batch are told, by operator."""
        return {
            ledger.operator: ledger.order(ledger.deal(tasks), transactions[ledger.writer].committed)
            for ledger in self._ledgers
        }

    def routes(self, tasks: int, orders: Mapping[str, StateOrder]) -> dict[int, Grouping]:
        """Return how rows reach the tasks that have their keys, by the number of the edge."""
        return {number: Dealt(order.deal, tasks) for id, order in orders.items() for number in self._into[id]}

    def learn(self, commits: Mapping[int, Commit], results: Iterable[Mapping[str, Any]]) -> None:
        """Take note of a batch that is committed, and of what its tasks report."""
        found = list(results)
        for ledger in self._ledgers:
            ledger.learn(commits[ledger.writer], [result["states"][ledger.operator] for result in found])
