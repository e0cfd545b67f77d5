"""Replicas set by hand: they override every plan, and decisions record that."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from foretide.records import Plan, Term
from foretide.topology import Topology

__all__ = ["overridden"]


def overridden(plan: Plan, replicas: Mapping[str, int], topology: Topology) -> Plan:
    """Return the plan with the replicas that were set by hand, within the bounds of their operators.

    The plan explains itself: it has a term with what was set, and a note. Operators that the topology does not have are
    left out. A plan for which nothing was set is returned as it is.

    Parameters
    ----------
    plan : Plan
        What planner and guards decided.
    replicas : mapping of str to int
        What was set, by operator.
    topology : Topology
        What runs.

    Examples
    --------
    >>> from foretide.topology import flow
    >>> job = flow("words")
    >>> _ = job.source("in").operator("split", replicas=(1, 8)).operator("count", replicas=(1, 4))
    >>> topology = job.build()
    >>> plan = Plan(layout=topology.layout, planner="static", made_at_s=0.0, replicas=[2, 2])
    >>> held = overridden(plan, {"count": 9}, topology)
    >>> held.by_operator(), held.notes
    ({'split': 2, 'count': 4}, ('set by hand: count 4',))
    """
    columns = {name: topology.layout.operator_index[name] for name in replicas if name in plan.layout.operator_index}
    if not columns:
        return plan
    places = list(columns.values())
    wanted = np.array([replicas[name] for name in columns])
    held = np.array(plan.replicas)
    held[places] = np.clip(wanted, topology.minimum_replicas[places], topology.maximum_replicas[places])
    term = Term(
        "override",
        "replicas after those set by hand",
        "manual override: r = the number set, minimum ≤ r ≤ maximum",
        held.astype(np.float64),
    )
    words = ", ".join(f"{name} {held[column]}" for name, column in columns.items())
    return plan.reassigned(held, term, f"set by hand: {words}")
