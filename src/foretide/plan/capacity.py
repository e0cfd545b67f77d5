"""How much an operator can process in an interval, given the CPU that its replicas can get (SPEC D2)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from foretide.errors import MetricsError
from foretide.records import CpuUse, Floats

__all__ = ["capacity", "ideal_capacity", "operator_cpu", "reserved_cpu", "usable_cpu"]

# The paper counts CPU in percent of a core; a replica is assumed to get at least one percent, so that a
# crowded core gives a small capacity and not a division by zero.
_LEAST_CPU = 0.01


def ideal_capacity(interval_s: float, latency_s: npt.ArrayLike) -> Floats:
    r"""Return the events that one replica with a core of its own finishes in an interval.

    D2 Eq. 6 of [DABS]_, :math:`IdealCapacity = \Delta/Lat`, where the latency is the mean execution time of one
    event. It is NaN where that is not known, and infinite where an event takes no time.

    >>> ideal_capacity(30.0, [0.01, 0.25])
    array([3000.,  120.])
    """
    with np.errstate(divide="ignore"):
        return interval_s / np.asarray(latency_s, dtype=np.float64)


def usable_cpu(cpu: CpuUse, weight: float = 0.3) -> Floats:
    r"""Return the share of its core that each replica can count on.

    D2 Eq. 7 of [DABS]_, :math:`\lambda\max(Util_X, Resa_X) + \frac1n(1 - \sum_{Y\ne X} Util_Y)` over the n replicas on
    the core, with `weight` for :math:`\lambda`. Departures: what runs there and is no replica counts among the others'
    use and not in n, since the paper's cores run nothing else; and the result is kept within .01 and 1, since a core
    has no more than itself to give and the others' use as measured can exceed it. Rows of no replica are NaN.

    >>> two_on_one_core = CpuUse(operator=[0, 1], core=[0, 0], used=[0.5, 0.2], reserved=[0.4, 0.4])
    >>> usable_cpu(two_on_one_core)
    array([0.55, 0.37])
    """
    _, core = np.unique(cpu.core, return_inverse=True)
    replicas_there = np.maximum(np.bincount(core, weights=cpu.is_replica)[core], 1.0)
    others = np.bincount(core, weights=cpu.used)[core] - cpu.used
    share = weight * np.maximum(cpu.used, cpu.reserved) + (1.0 - others) / replicas_there
    return np.where(cpu.is_replica, np.clip(share, _LEAST_CPU, 1.0), np.nan)


def operator_cpu(cpu: CpuUse | None, operators: int, weight: float = 0.3) -> Floats:
    r"""Return the CPU that an operator can count on at each of its replicas.

    D2 Eq. 8 of [DABS]_: the minimum over its replicas, since events are spread evenly and the slowest replica sets
    the pace. It is 1, a core of its own, where nothing was measured.

    >>> operator_cpu(CpuUse(operator=[0, 0], core=[0, 1], used=[0.5, 1.0], reserved=[0.2, 0.2]), operators=2)
    array([1., 1.])
    """
    return np.ones(operators) if cpu is None else _least_by_operator(cpu, usable_cpu(cpu, weight), operators)


def reserved_cpu(cpu: CpuUse | None, operators: int) -> Floats:
    """Return the CPU reserved for each replica of an operator (ResCPU of D3 Eq. 13).

    It is the minimum over its replicas, kept within .01 and 1; 1 where nothing was measured or nothing is reserved.

    >>> reserved_cpu(CpuUse(operator=[0, 0], core=[0, 1], used=[0.5, 0.9], reserved=[0.5, 0.4]), operators=2)
    array([0.4, 1. ])
    """
    if cpu is None:
        return np.ones(operators)
    reserved = np.where(cpu.reserved > 0, np.clip(cpu.reserved, _LEAST_CPU, 1.0), 1.0)
    return _least_by_operator(cpu, reserved, operators)


def capacity(interval_s: float, latency_s: npt.ArrayLike, cpu: npt.ArrayLike = 1.0) -> Floats:
    r"""Return the events that one replica finishes in an interval with that much of a core.

    D2 Eq. 9 of [DABS]_, :math:`Capacity = \Delta/Lat \times UtilCPU`.

    >>> capacity(30.0, [0.01], [0.55])
    array([1650.])
    """
    events: Floats = ideal_capacity(interval_s, latency_s) * np.asarray(cpu, dtype=np.float64)
    return events


def _least_by_operator(cpu: CpuUse, values: Floats, operators: int) -> Floats:
    if cpu.operator.size and cpu.operator.max() >= operators:
        raise MetricsError(
            f"cpu: expected replicas of {operators} operators, got one of operator number {cpu.operator.max()}; "
            "build the record from the layout of the running topology"
        )
    least = np.full(operators, np.inf)
    np.minimum.at(least, cpu.operator[cpu.is_replica], values[cpu.is_replica])
    return np.where(np.isinf(least), 1.0, least)
