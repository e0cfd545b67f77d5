"""How busy the replicas of every operator were, for planners that react to it (SPEC D5, P3)."""

from __future__ import annotations

import numpy as np

from foretide.plan.base import Situation
from foretide.records import Floats

__all__ = ["busy_now", "mean_utilisation"]


def mean_utilisation(situation: Situation) -> Floats:
    """Return the mean CPU that the replicas of each operator used; if none was measured, their busy time (P3)."""
    window = situation.window
    if window.cpu is None:
        return window.utilisation
    operators, own = len(window.layout.operators), window.cpu.is_replica
    operator = window.cpu.operator[own]
    replicas = np.bincount(operator, minlength=operators)[:operators]
    used = np.bincount(operator, weights=window.cpu.used[own], minlength=operators)[:operators]
    return np.divide(used, replicas, out=np.array(window.utilisation, dtype=np.float64), where=replicas > 0)


def busy_now(situation: Situation) -> Floats:
    """Return the replicas that the last interval kept busy: the demand, for planners that do not compute one.

    It goes by busy time: a replica that waits within an event computes nothing and serves nobody else.
    """
    return np.nan_to_num(situation.window.utilisation) * situation.replicas
