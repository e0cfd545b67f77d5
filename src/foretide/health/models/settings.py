"""The settings of the I-DRNN and of its training."""

from __future__ import annotations

from pydantic import Field

from foretide.config import Settings

__all__ = ["IdrnnSettings"]


class IdrnnSettings(Settings):
    """How the network is made and trained (SPEC I4)."""

    window: int = Field(default=8, ge=2, le=512, description="Past steps that it predicts from (T).")
    interference_units: int = Field(default=8, ge=1, le=512, description="Units of each layer of the first tier.")
    worker_units: int = Field(default=8, ge=1, le=512, description="Units of each layer of the second tier.")
    representation: int = Field(
        default=3, ge=1, le=64, description="Width of the first tier's output; the paper has three."
    )
    epochs: int = Field(default=300, ge=1, description="Passes over the training windows; the paper has 1000.")
    learning_rate: float = Field(default=1e-2, gt=0, description="Learning rate of Adam.")
    validation_share: float = Field(
        default=0.1, gt=0, lt=0.8, description="The last part of a run, which is held back to choose by."
    )
    seed: int = Field(default=1, ge=0, description="The first seed.")
    seeds: int = Field(
        default=5, ge=1, description="Networks that are trained, of which the best is kept; the paper has 20."
    )
