"""What the network puts out, and of which size it is: the one truth for training and inference."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["CONTEXT", "HEAD", "LEADS", "LEVELS", "OUTPUTS", "ROTATION", "STEP_LEVELS", "Shape"]

#: Values that a position attends to, itself included; longer histories reach further through the layers.
CONTEXT = 512
#: Steps ahead for which there are outputs; others lie between two of these.
LEADS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64)
#: Quantiles of the mean over the next steps up to a lead.
LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
#: Quantiles of the step at a lead itself.
STEP_LEVELS = (0.1, 0.5, 0.9)
#: Outputs for each lead: the quantiles of the mean, the point of least relative error, the quantiles of the step.
OUTPUTS = len(LEVELS) + 1 + len(STEP_LEVELS)
#: Channels of an attention head.
HEAD = 32
#: How slowly the slowest pair of a head turns with the position.
ROTATION = 1000.0


@dataclass(frozen=True)
class Shape:
    """The size of a network.

    Parameters
    ----------
    channels : int
        Width of the layers, a multiple of `HEAD`.
    layers : int
        How many.
    """

    channels: int = 128
    layers: int = 4

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)
