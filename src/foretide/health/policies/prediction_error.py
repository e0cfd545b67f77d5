"""The policy of the paper: a worker whose targets are not what was predicted misbehaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from foretide.health.features import TARGETS
from foretide.health.policies.base import HealthPolicy, HealthView, Verdict, WorkerView

__all__ = ["PredictionErrorPolicy"]

# A worker whose events wait or are sent in less time than expected does not misbehave.
_WORSE_ABOVE = ("queueing_ms", "sending_ms")


class PredictionErrorPolicy(HealthPolicy):
    """A worker misbehaves when a target's prediction error exceeds a threshold (section III-A of [IDRNN]_).

    Departure: of the two times only errors upwards count.
    """

    name: ClassVar[str] = "prediction-error"
    summary: ClassVar[str] = "a target that is far from what the model predicted, as in the paper"
    spec: ClassVar[tuple[str, ...]] = ("I4", "I6")
    needs_model: ClassVar[bool] = True

    threshold: float = Field(
        default=0.5,
        gt=0,
        description="Error from which a worker is suspicious, in units of the range that the model was trained in.",
    )
    targets: tuple[str, ...] = Field(default=TARGETS, min_length=1, description="The targets that are watched.")

    def judge(self, view: HealthView) -> Sequence[Verdict]:
        """Compare every worker's targets with what was predicted for it."""
        return tuple(self._verdict(worker) for worker in view.workers if worker.errors)

    def _verdict(self, worker: WorkerView) -> Verdict:
        errors = {
            name: error if name in _WORSE_ABOVE else abs(error)
            for name, error in worker.errors.items()
            if name in self.targets
        }
        worst = max(errors, key=lambda name: errors[name], default="")
        score = errors.get(worst, 0.0)
        reason = f"{worst} is off by {worker.errors.get(worst, 0.0):+.2f} of its range, threshold {self.threshold:g}"
        return Verdict(worker.worker, worker.machine, score > self.threshold, score, reason)
