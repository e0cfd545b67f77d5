"""The default detector: a robust z-score over peers, which needs no model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from foretide.health.policies.base import HealthPolicy, HealthView, Verdict, WorkerView
from foretide.records import Floats

__all__ = ["PeersPolicy", "robust_scores"]

# The deviation of a normal distribution by its median absolute deviation.
_MAD_TO_DEVIATION = 1.4826


class PeersPolicy(HealthPolicy):
    """A worker misbehaves when its tasks take much longer than those of the others.

    Each worker is compared with the median of its peers, in units of their median absolute deviation, which excludes
    the worker itself: with three workers a slow one would otherwise widen the measure that it is judged by.
    """

    name: ClassVar[str] = "peers"
    summary: ClassVar[str] = "tasks that take much longer than those of other workers: a robust z-score over peers"

    signal: str = Field(default="slowness", description="The signal that is compared; higher is worse.")
    score: float = Field(default=6.0, gt=0, description="The z-score from which a worker is suspicious.")
    factor: float = Field(default=3.0, ge=1, description="Multiple of the peers' median that it must also exceed.")
    spread: float = Field(
        default=0.15,
        gt=0,
        description="Lower bound of the peers' deviation, as a part of their median; it keeps equals equal.",
    )

    def judge(self, view: HealthView) -> Sequence[Verdict]:
        """Compare each worker with all others; no verdict if there is only one."""
        known = [worker for worker in view.workers if np.isfinite(worker.signals.get(self.signal, np.nan))]
        values = np.array([worker.signals[self.signal] for worker in known])
        if len(known) < 2:
            return ()
        scores, medians = robust_scores(values, self.spread)
        rows = zip(known, values.tolist(), scores.tolist(), medians.tolist(), strict=True)
        return tuple(self._verdict(*row) for row in rows)

    def _verdict(self, worker: WorkerView, value: float, score: float, usual: float) -> Verdict:
        suspicious = score >= self.score and value >= self.factor * usual
        reason = f"{self.signal} {value:.3g} against {usual:.3g} of its peers, z-score {score:.1f}"
        return Verdict(worker.worker, worker.machine, suspicious, score, reason)


def robust_scores(values: Floats, spread: float) -> tuple[Floats, Floats]:
    """Return how far each value is above the median of the others, in their robust deviations, and that median.

    The deviation is at least `spread` of the median.

    >>> scores, medians = robust_scores(np.array([1.0, 1.2, 10.0]), spread=0.1)
    >>> scores.round(1).tolist(), medians.tolist()
    ([-0.7, -0.6, 60.0], [5.6, 5.5, 1.1])
    """
    scores, medians = np.empty(len(values)), np.empty(len(values))
    for place, value in enumerate(values):
        others = np.delete(values, place)
        middle = float(np.median(others))
        deviation = _MAD_TO_DEVIATION * float(np.median(np.abs(others - middle)))
        scores[place] = (value - middle) / max(deviation, spread * abs(middle), 1e-12)
        medians[place] = middle
    return scores, medians
