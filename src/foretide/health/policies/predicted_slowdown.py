"""A policy that acts before it is too late: a worker that is predicted to be slower than its peers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from foretide.health.policies.base import HealthPolicy, HealthView, Verdict

__all__ = ["PredictedSlowdownPolicy"]


class PredictedSlowdownPolicy(HealthPolicy):
    """A worker misbehaves when a time that is predicted for it is far above what is predicted for its peers."""

    name: ClassVar[str] = "predicted-slowdown"
    summary: ClassVar[str] = "a time that the model predicts to be far above that of other workers"
    spec: ClassVar[tuple[str, ...]] = ("I4", "I6")
    needs_model: ClassVar[bool] = True

    targets: tuple[str, ...] = Field(
        default=("queueing_ms", "sending_ms"), min_length=1, description="The predicted times that are compared."
    )
    factor: float = Field(
        default=3.0, gt=1, description="Multiple of the peers' median from which a worker is suspicious."
    )
    least_ms: float = Field(default=50.0, ge=0, description="Milliseconds by which it must exceed that median as well.")

    def judge(self, view: HealthView) -> Sequence[Verdict]:
        """Compare what is predicted for each worker with what is predicted for the others."""
        known = [worker for worker in view.workers if all(name in worker.predicted for name in self.targets)]
        if len(known) < 2:
            return ()
        verdicts = []
        for worker in known:
            others = [other for other in known if other is not worker]
            usual = {name: float(np.median([other.predicted[name] for other in others])) for name in self.targets}
            ratios = {name: worker.predicted[name] / max(usual[name], 1e-9) for name in self.targets}
            worst = max(self.targets, key=lambda name: ratios[name])
            above_ms = worker.predicted[worst] - usual[worst]
            suspicious = ratios[worst] >= self.factor and above_ms >= self.least_ms
            reason = f"{worst} is predicted to be {worker.predicted[worst]:.3g}, that of its peers {usual[worst]:.3g}"
            verdicts.append(Verdict(worker.worker, worker.machine, suspicious, ratios[worst], reason))
        return tuple(verdicts)
