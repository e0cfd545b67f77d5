"""The load that every operator is to expect, and the replicas that it takes (SPEC P4 and P5)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from foretide.errors import ConfigError
from foretide.records import Floats, Ints, Term
from foretide.topology import FlowGraph, Topology

__all__ = [
    "busy_replicas",
    "edge_shares",
    "known_execution_s",
    "measured_execution_s",
    "measured_shares",
    "needed_replicas",
    "operator_shares",
    "queue_load",
    "replica_terms",
    "required_replicas",
    "source_mix",
    "whole_replicas",
]

# A demand of 3.0000000001 is rounding noise of the sums before it, not a reason for a fourth replica.
_ROUNDING = 1e-9
# Less than this of an event counts as none: no share or time per event can be derived from it.
_SOME_EVENTS = 1e-9
# The time of one event if all of them fail: practically 0, but planners divide by it.
_NO_WORK_S = 1e-9


def edge_shares(passed: Floats, processed_at_start: Floats, otherwise: Floats) -> Floats:
    r"""Return the share of every edge, :math:`\theta_i^p = \lambda_i^p / \mu_p` (P5 Eq. 6 of [PASPS]_).

    Where the start processed nothing the share is unknown, and `otherwise` stands in.

    >>> edge_shares(np.array([70.0, 30.0, 5.0]), np.array([100.0, 100.0, 0.0]), np.ones(3))
    array([0.7, 0.3, 1. ])
    """
    known = processed_at_start > 0
    return np.divide(passed, processed_at_start, out=np.array(otherwise, dtype=np.float64), where=known)


def measured_shares(flow: FlowGraph, passed: Floats, taken: Floats, otherwise: Floats) -> Floats:
    """Return the shares of edges that were measured, events passed per event taken; `otherwise` where there were none.

    A source sends all its events down each of its edges, so those shares are never measured: events that wait at the
    source would make them look smaller.
    """
    some = np.where(taken > _SOME_EVENTS, taken, 0.0)
    return edge_shares(passed, np.concatenate((np.zeros(flow.sources), some))[flow.starts], otherwise)


def measured_execution_s(busy_s: Floats, processed: Floats, failed: Floats, otherwise: Floats) -> Floats:
    """Return the execution times that were measured, busy time ÷ events taken, and `otherwise` where they were not.

    An event that fails counts as no work, so it calls for no replicas: the time that goes into it is lost whatever
    their number.

    >>> none = np.zeros(2)
    >>> measured_execution_s(np.array([3.0, 0.0]), np.array([60.0, 0.0]), none, np.array([0.1, 0.2]))
    array([0.05, 0.2 ])
    """
    taken = processed + failed
    known = (taken > _SOME_EVENTS) & ((busy_s > 0) | (failed > 0))
    work_s = np.maximum(busy_s, _NO_WORK_S * taken)
    return np.divide(work_s, taken, out=np.array(otherwise, dtype=np.float64), where=known)


def known_execution_s(topology: Topology) -> Floats:
    """Return the execution times that a topology declares.

    Raises
    ------
    ConfigError
        When an operator does not declare one.
    """
    seconds = topology.declared_execution_s
    unknown = np.flatnonzero(~(seconds > 0))
    if unknown.size:
        raise ConfigError(
            f"operator {topology.layout.operators[unknown[0]]!r}: execution_s",
            expected="more than 0 seconds",
            got="none",
            remedy="declare execution_s=, or measure it with `foretide profile`",
        )
    return seconds


def source_mix(arrivals: Floats) -> Floats:
    r"""Return each source's part of :math:`\lambda_G`, which is θ at a source: 1 if there is only one.

    >>> source_mix(np.array([30.0, 10.0]))
    array([0.75, 0.25])
    """
    total = arrivals.sum()
    mix: Floats = arrivals / total if total > 0 else np.full(arrivals.size, 1.0 / arrivals.size)
    return mix


def operator_shares(flow: FlowGraph, mix: Floats, share: Floats) -> Floats:
    r"""Return the part of all input that reaches each operator.

    P5 Eq. 5 of [PASPS]_, :math:`\theta_i = \sum_p \theta_i^p \theta_p`.
    """
    return flow.propagate(mix, np.zeros(flow.operators), share)


def queue_load(flow: FlowGraph, queued: Floats, share: Floats) -> Floats:
    r"""Return the queued events that each operator will meet: its own and those on their way from upstream.

    P5 Eq. 7 of [PASPS]_, :math:`\hat\lambda^q_i = |q_i| + \sum_p \hat\lambda^q_p \theta_i^p`. Departure: the paper
    prints :math:`\theta_p`; its prose means the edge's share :math:`\theta_i^p`, which is used here (ADR 0003).
    """
    return flow.propagate(np.zeros(flow.sources), queued, share)


def busy_replicas(load: npt.ArrayLike, execution_s: npt.ArrayLike, interval_s: float) -> Floats:
    r"""Return the replicas that `load` events keep busy for an interval, :math:`\hat\lambda_i\,et_i/td` (P4 Eq. 2).

    >>> busy_replicas([100.0], [0.0166], 1.0)
    array([1.66])
    """
    return np.asarray(load, dtype=np.float64) * np.asarray(execution_s, dtype=np.float64) / interval_s


def whole_replicas(busy: npt.ArrayLike) -> Floats:
    """Return `busy` rounded up to whole replicas, at least 1; NaN stays NaN.

    >>> whole_replicas([0.0, 1.66, 3.0000000001])
    array([1., 2., 3.])
    """
    return np.maximum(np.ceil(np.asarray(busy, dtype=np.float64) - _ROUNDING), 1.0)


def required_replicas(load: npt.ArrayLike, execution_s: npt.ArrayLike, interval_s: float) -> Floats:
    r"""Return the fewest replicas that finish `load` events within the interval: P4 Eq. 2, rounded up, at least 1.

    >>> required_replicas([100.0, 91.0, 83.0], [0.0166, 0.025, 0.1], 1.0)
    array([2., 3., 9.])
    """
    return whole_replicas(busy_replicas(load, execution_s, interval_s))


def needed_replicas(
    topology: Topology,
    arrivals: float | Mapping[str, float] | Floats,
    execution_s: Floats | None = None,
    *,
    interval_s: float = 1.0,
    share: Floats | None = None,
    queued: Floats | None = None,
) -> Ints:
    r"""Return the replicas that every operator needs for an input and for what waits, within its bounds.

    P4 and P5 of [PASPS]_ with the actual arrivals in place of a forecast. With the peak of an input this is r_over of
    P8, with the arrivals of an interval what its replica error is measured against.

    Parameters
    ----------
    topology : Topology
        The operators and their bounds.
    arrivals : float, mapping of source to float, or array over sources
        Events that come within the interval; a plain number is every source's.
    execution_s : array over operators, optional
        Execution times; those declared unless given. An operator whose time is not known needs its minimum.
    interval_s : float
        The interval; a second unless given, which makes `arrivals` rates.
    share : array over edges, optional
        Events passed on per event finished; as declared unless given.
    queued : array over operators, optional
        Events that wait when the interval begins.

    Examples
    --------
    >>> from foretide.topology import flow
    >>> job = flow("words")
    >>> _ = job.source("in").operator("split", execution_s=0.01).operator("count", execution_s=0.025)
    >>> needed_replicas(job.build(), 250.0).tolist()
    [3, 7]
    """
    sources = topology.layout.sources
    came = [arrivals[source] for source in sources] if isinstance(arrivals, Mapping) else arrivals
    parts = topology.declared_share if share is None else share
    seconds = topology.declared_execution_s if execution_s is None else execution_s
    waiting = np.zeros(len(topology.operators)) if queued is None else queued
    load = topology.flow.propagate(np.broadcast_to(came, len(sources)), waiting, parts)
    return topology.bounded(np.nan_to_num(required_replicas(load, seconds, interval_s), nan=1.0))


def replica_terms(execution_s: Floats, busy: Floats) -> tuple[Term, Term, Term]:
    """Return the last terms of every planner that follows P4: et, the demand, and the count rounded up."""
    return (
        Term("et", "execution time of one event", "measured: busy time / events processed", execution_s, "s"),
        Term("λ̂·et/td", "replicas kept busy", "P4 Eq. 2 before rounding", busy),
        Term("⌈λ̂·et/td⌉", "replicas required", "P4 Eq. 2: rounded up, at least 1", whole_replicas(busy)),
    )
