"""How a recurrent network is made and trained."""

from __future__ import annotations

from pydantic import Field

from foretide.config import Settings
from foretide.forecast.deep.weights import Cell

__all__ = ["TrainingOptions", "TrainingSettings"]


class TrainingOptions(Settings):
    """What may be chosen for every kind of network: its size and its training."""

    hidden: int = Field(default=32, ge=1, le=1024, description="Units of the recurrent layer, per direction.")
    frame: int = Field(default=12, ge=1, description="Values per step of the network (B1: one); it divides the window.")
    anchored: bool = Field(
        default=False, description="Learn the change since the last value instead of the value (a departure from B1)."
    )
    batch: int = Field(default=64, ge=1, description="Windows per step of the optimiser.")
    epochs: int = Field(
        default=30, ge=1, description="Passes over the training windows (several at once if they are few), at most."
    )
    patience: int = Field(default=8, ge=1, description="Epochs without a better validation error before it stops.")
    learning_rate: float = Field(
        default=3e-3, gt=0, lt=1, description="Adam's rate at the start; it decays by a cosine to a hundredth."
    )
    seeds: int = Field(default=3, ge=1, description="Trainings from different random weights; the best one is kept.")
    seed: int = Field(default=1, ge=0, le=2**31 - 1, description="The first of these seeds.")


class TrainingSettings(TrainingOptions):
    """A kind of network and the choices for it.

    >>> TrainingSettings(cell="lstm", bidirectional=False).hidden
    32
    """

    cell: Cell = Field(description="What the recurrent layer is made of.")
    bidirectional: bool = Field(default=True, description="Whether a second layer reads the window backwards.")
