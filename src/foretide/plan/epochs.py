"""The replicas that every operator needs in each of several epochs, for the planners of SPEC B3.

An epoch is one interval of the control loop. Queues do not count: the cost model of [BGElasor]_ has none, since it
keeps capacity at or above the input at all times. The guard `CatchUp` adds what is needed to work them off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretide.plan.base import Situation
from foretide.plan.load import busy_replicas, operator_shares, whole_replicas
from foretide.records import Floats, Ints, Term
from foretide.topology import FlowGraph

__all__ = ["EpochNeeds", "epoch_loads", "epoch_needs", "need_terms"]

# As many epochs of needs as a plan spells out; the default horizon fits.
_SHOWN = 12


def epoch_loads(flow: FlowGraph, arrivals: Floats, share: Floats) -> Floats:
    r"""Return the events that reach every operator (columns) in each epoch (rows).

    P5 Eq. 4-5 with the arrivals by source (columns) in each epoch (rows). Since the load follows the arrivals at the
    sources, an operator that is starved by a congested one before it still gets what it will need.
    """
    epochs, sources = arrivals.shape
    if epochs <= sources:
        return np.stack([operator_shares(flow, row, share) for row in arrivals])
    # The load is linear in the arrivals: one pass per source serves any number of epochs.
    unit = np.stack([operator_shares(flow, row, share) for row in np.eye(sources)])
    loads: Floats = arrivals @ unit
    return loads


@dataclass(frozen=True, eq=False)
class EpochNeeds:
    """The needs of the epochs ahead.

    Parameters
    ----------
    loads, busy : arrays of shape (epochs, operators)
        Events to process, and the replicas that they keep busy; NaN where the execution time is not known.
    needs : array of int of shape (epochs, operators)
        The replicas needed, within the operators' bounds; the present number where it is not known.
    unknown : array of bool over operators
        Where the execution time is not known.
    """

    loads: Floats
    busy: Floats
    needs: Ints
    unknown: npt.NDArray[np.bool_]

    def wanted(self, timetable: Ints) -> Floats:
        """Return the first row of a timetable, NaN where the execution time is not known."""
        return np.where(self.unknown, np.nan, timetable[0].astype(np.float64))


def epoch_needs(situation: Situation, arrivals: Floats) -> EpochNeeds:
    """Return the needs for the arrivals by source (columns) in each epoch (rows)."""
    window, topology = situation.window, situation.topology
    loads = epoch_loads(topology.flow, arrivals, window.share)
    busy = busy_replicas(loads, window.execution_s, window.duration_s)
    unknown = np.isnan(window.execution_s)
    wanted = np.where(unknown, situation.replicas, whole_replicas(busy))
    return EpochNeeds(loads, busy, topology.bounded(wanted), unknown)


def need_terms(ahead: EpochNeeds) -> tuple[Term, ...]:
    """Return one term for the need of each epoch ahead, for as many epochs as stay readable."""
    return tuple(
        Term(f"need_{epoch}", f"replicas needed in epoch {epoch}", "B3 step 1: ⌈λ̂·et/td⌉ within bounds", row)
        for epoch, row in enumerate(ahead.needs[:_SHOWN].astype(np.float64), start=1)
    )
