"""The settings of the I-DRNN and of its training."""

from __future__ import annotations

from pydantic import Field

from foretide.config import Settings

__all__ = ["IdrnnSettings"]


class IdrnnSettings(Settings):
    """How the networks are made and trained (SPEC I4)."""

    window: int = Field(default=8, ge=2, le=512, description="Past steps that it predicts from (T).")
    inputs: int = Field(default=24, ge=1, le=4096, description="Inputs of the first tier: the most informative.")
    interference_units: int = Field(default=8, ge=1, le=512, description="Units of each layer of the first tier.")
    worker_units: int = Field(default=8, ge=1, le=512, description="Units of each layer of the second tier.")
    representation: int = Field(
        default=3, ge=1, le=64, description="Width of the first tier's output; the paper has three."
    )
    epochs: int = Field(default=300, ge=1, description="Passes over the training windows at most; the paper has 1000.")
    patience: int = Field(default=100, ge=1, description="Passes without a better validation error before it stops.")
    learning_rate: float = Field(default=2e-2, gt=0, description="Learning rate of Adam, falling along half a cosine.")
    decay: float = Field(default=1e-2, ge=0, description="Weight decay per step, times the rate.")
    hidden_inputs: float = Field(
        default=0.3, ge=0, lt=1, description="Share of the first tier's inputs that training hides from it at random."
    )
    noise: float = Field(
        default=0.1,
        ge=0,
        description="Noise added to the first tier's inputs in training, in units of their deviation.",
    )
    validation_share: float = Field(
        default=0.16, gt=0, lt=0.8, description="Part of a run that is held back from each network, in one stretch."
    )
    seed: int = Field(default=1, ge=0, description="The first seed.")
    seeds: int = Field(
        default=6, ge=1, description="Networks that are trained and averaged; the paper keeps the best of 20."
    )
