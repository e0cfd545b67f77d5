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
    operators = len(window.layout.operators)
    replicas = np.bincount(window.cpu.operator, minlength=operators)[:operators]
    used = np.bincount(window.cpu.operator, weights=window.cpu.used, minlength=operators)[:operators]
    return np.divide(used, replicas, out=np.array(window.utilisation, dtype=np.float64), where=replicas > 0)


def busy_now(situation: Situation) -> Floats:
    """Return the replicas that the last interval kept busy: the demand, for planners that do not compute one."""
    return np.nan_to_num(mean_utilisation(situation)) * situation.replicas
