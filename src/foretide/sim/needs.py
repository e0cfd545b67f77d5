"""The replicas that an input needs: where a warm start begins, and what saved resources are measured against."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from foretide.plan.load import busy_replicas, operator_shares, whole_replicas
from foretide.records import Floats, Ints
from foretide.topology import Topology

__all__ = ["needed_replicas"]


def needed_replicas(
    topology: Topology, rate_per_s: float | Mapping[str, float], execution_s: Floats | None = None
) -> Ints:
    r"""Return the replicas that every operator needs to keep up with an input, within its bounds.

    P4 Eq. 2 of [PASPS]_ with the rate itself in place of a forecast: :math:`\lceil\lambda_i\,et_i\rceil`, at least 1.

    Parameters
    ----------
    topology : Topology
        The operators; shares are those that it declares.
    rate_per_s : float, or mapping of source to float
        The input rate; a plain number is every source's.
    execution_s : array over operators, optional
        Execution times; those declared unless given. An operator without one needs its minimum.

    Examples
    --------
    >>> from foretide.topology import flow
    >>> job = flow("words")
    >>> _ = job.source("in").operator("split", execution_s=0.01).operator("count", execution_s=0.025)
    >>> needed_replicas(job.build(), 250.0).tolist()
    [3, 7]
    """
    sources = topology.layout.sources
    rates = [rate_per_s[source] if isinstance(rate_per_s, Mapping) else rate_per_s for source in sources]
    load = operator_shares(topology.flow, np.array(rates), topology.declared_share)
    times = topology.declared_execution_s if execution_s is None else execution_s
    wanted = np.nan_to_num(whole_replicas(busy_replicas(load, times, 1.0)), nan=1.0)
    needed: Ints = np.clip(wanted, topology.minimum_replicas, topology.maximum_replicas).astype(np.int64)
    return needed
