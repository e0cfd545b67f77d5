"""How the errors of the steps ahead go together."""

from __future__ import annotations

import numpy as np

from foretide._numba import njit
from foretide.records import Floats

__all__ = ["LONGEST", "error_dependence"]

#: Steps ahead beyond which no dependence is recorded.
LONGEST = 64
# Origins that count, and how many there must be for each step.
_KEPT, _FEWEST = 256, 2
# One burst must not decide: errors count at most as this many times their root mean square.
_CLIP = 2.5


@njit
def error_dependence(measured: Floats, paths: Floats) -> Floats:
    r"""Return the correlations of the errors of all steps, of shape (steps, steps); empty where too little is known.

    Of the last origins whose whole horizon was measured, at least two for each step. With few of them, correlations are
    drawn towards those that fade with the distance, :math:`\rho^{|i - j|}`, with the :math:`\rho` that neighbours have
    on average: a part 2·steps/origins of each is that.

    Parameters
    ----------
    measured : array
        The series, NaN in gaps.
    paths : array over origins and steps
        What was expected after each of its values.
    """
    size, steps = paths.shape
    if steps > LONGEST or size < steps:
        return np.empty((0, 0))
    errors, count = np.empty((min(size, _KEPT), steps)), 0
    for t in range(size - steps - 1, 2, -1):
        if count == len(errors):
            break
        known = True
        for lead in range(steps):
            errors[count, lead] = measured[t + lead + 1] - paths[t, lead]
            known = known and np.isfinite(errors[count, lead])
        count += 1 if known else 0
    if count < _FEWEST * steps or count < 20:
        return np.empty((0, 0))
    for lead in range(steps):
        column = errors[:count, lead]
        column -= column.mean()
        most = _CLIP * np.sqrt((column * column).mean())
        if most <= 0.0:
            return np.empty((0, 0))
        for row in range(count):
            column[row] = min(max(column[row], -most), most) / most
    return _shrunk(errors[:count])


@njit
def _shrunk(errors: Floats) -> Floats:
    count, steps = errors.shape
    found = np.eye(steps)
    for i in range(steps):
        for j in range(i):
            together = (errors[:, i] * errors[:, j]).sum()
            alone = np.sqrt((errors[:, i] ** 2).sum() * (errors[:, j] ** 2).sum())
            found[i, j] = found[j, i] = together / alone
    near = 0.0
    for i in range(1, steps):
        near += max(found[i, i - 1], 0.0) / (steps - 1)
    part = min(2.0 * steps / count, 1.0)
    for i in range(steps):
        for j in range(steps):
            found[i, j] = (1.0 - part) * found[i, j] + part * near ** abs(i - j)
    return found
