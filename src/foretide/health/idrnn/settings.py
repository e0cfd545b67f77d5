"""The settings of the I-DRNN and of its training."""

from __future__ import annotations

from pydantic import Field

from foretide.config import Settings

__all__ = ["IdrnnSettings"]


class IdrnnSettings(Settings):
    """How the network is made and trained (SPEC I4)."""

    window: int = Field(default=12, ge=2, le=512, description="Past steps that it predicts from (T).")
    interference_units: int = Field(default=16, ge=1, le=512, description="Units of each layer of the first tier.")
    worker_units: int = Field(default=16, ge=1, le=512, description="Units of each layer of the second tier.")
    representation: int = Field(
        default=3, ge=1, le=64, description="Width of the first tier's output; the paper has three."
    )
    epochs: int = Field(default=300, ge=1, description="Passes over the training windows at most; the paper has 1000.")
    patience: int = Field(default=60, ge=1, description="Passes without a better validation error before it stops.")
    batch: int = Field(default=32, ge=1, description="Windows of one step of the optimiser.")
    learning_rate: float = Field(default=3e-3, gt=0, description="Of Adam, falling along half a cosine.")
    decay: float = Field(default=1e-3, ge=0, description="By what weights shrink at each step, times the rate.")
    shrinkage: float = Field(
        default=0.3, ge=0, description="Ridge penalty of the linear memory that training begins with."
    )
    hidden_inputs: float = Field(
        default=0.3, ge=0, lt=1, description="Share of the first tier's inputs that training hides from it at random."
    )
    validation_share: float = Field(default=0.1, gt=0, lt=1, description="Windows held back, drawn at random.")
    seed: int = Field(default=1, ge=0, description="The first seed.")
    seeds: int = Field(
        default=3, ge=1, description="Networks that are trained, the best of which is kept; the paper: 20."
    )
