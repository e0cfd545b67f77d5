"""Checking statements over seeds: which is lowest, which is below which, and how near to the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from foretide.experiments.reproduce.comparison import Comparison, Metric
from foretide.experiments.reproduce.contract import Check

__all__ = ["ascending", "below", "each_seed", "lowest", "within"]

#: Values by subject, one per seed.
Values = Mapping[str, Sequence[float]]


def each_seed(claim: str, seeds: int, holds: Callable[[int], bool], detail: str = "") -> Check:
    """Return the check of a statement about the n-th run, for every n.

    >>> str(each_seed("even", 2, lambda n: n % 2 == 0))
    'does not hold (1 of 2): even'
    """
    return Check(claim, sum(bool(holds(n)) for n in range(seeds)), seeds, detail)


def lowest(claim: str, values: Values, who: Sequence[str], metric: Metric) -> Check:
    """Check that the values of `who` are below those of all others, in every run.

    >>> saved = Metric("saved", "saved", "part")
    >>> str(lowest("ANN saves least", {"ann": [0.4, 0.5], "lr": [0.5, 0.6]}, ["ann"], saved))
    'holds (2 of 2): ANN saves least; ann 0.450, lr 0.550'
    """
    others = [name for name in values if name not in who]
    seeds = len(next(iter(values.values())))
    detail = _means({name: values[name] for name in (*who, *others)}, metric)
    return each_seed(claim, seeds, lambda n: max(values[w][n] for w in who) < min(values[o][n] for o in others), detail)


def below(claim: str, values: Values, low: str, high: str, metric: Metric, factor: float = 1.0) -> Check:
    """Check that `low` is below `factor` times `high`, in every run."""
    detail = _means({low: values[low], high: values[high]}, metric)
    return each_seed(claim, len(values[low]), lambda n: values[low][n] < factor * values[high][n], detail)


def ascending(claim: str, values: Values, metric: Metric) -> Check:
    """Check that values grow from one subject to the next, in every run."""
    names = list(values)
    pairs = list(pairwise(names))
    return each_seed(
        claim,
        len(values[names[0]]),
        lambda n: all(values[a][n] < values[b][n] for a, b in pairs),
        _means(values, metric),
    )


def within(claim: str, comparisons: Sequence[Comparison], bound: float) -> Check:
    """Check that the means of ours are no further than `bound` from the paper's, one for each comparison.

    >>> from foretide.experiments.reproduce.comparison import Printed
    >>> saved = Metric("saved", "saved", "part")
    >>> str(within("saved within .03", [Comparison("ann", saved, (0.47,), Printed(0.475, "a table"))], 0.03))
    'holds (1 of 1): saved within .03; largest deviation 0.0050 (ann)'
    """
    far = {each.subject: abs(each.ours - each.paper) for each in comparisons if each.paper is not None}
    # Rounding of sums must not decide.
    held = sum(distance <= bound + 1e-9 for distance in far.values())
    most = max(far, key=lambda name: far[name])
    return Check(claim, held, len(far), f"largest deviation {far[most]:.4f} ({most})")


def _means(values: Values, metric: Metric) -> str:
    return ", ".join(f"{name} {metric.shown(float(np.mean(each)))}" for name, each in values.items())
