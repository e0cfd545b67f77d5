"""The settings of worker health: who judges workers, when they are bypassed, when models are trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import Field

from foretide.config import Settings
from foretide.health.bypass import BypassSettings
from foretide.health.models.settings import IdrnnSettings
from foretide.health.policies import HealthPolicy, make_health_policy

__all__ = ["HealthSettings", "Judge", "TrainerSettings"]

#: Who judges workers.
Judge: TypeAlias = Literal["none", "peers", "linear", "idrnn"]


class TrainerSettings(Settings):
    """When models of workers are trained."""

    every_s: float = Field(default=600.0, gt=0, description="Seconds from one training to the next.")
    first_after_s: float = Field(default=110.0, ge=0, description="Seconds of features before the first training.")
    history_s: float = Field(default=7_200.0, gt=0, description="Seconds of features that are trained on, at most.")
    step_s: float = Field(default=5.0, gt=0, description="Seconds of one step of the model.")
    network: IdrnnSettings = Field(default_factory=IdrnnSettings, description="The network.")


class HealthSettings(Settings):
    """How workers are watched."""

    by: Judge = Field(
        default="linear",
        description="Who judges workers: a model (`linear`, `idrnn`), their `peers`, or `none`. Until a model is "
        "trained, and where it is not to be trusted, their peers do.",
    )
    policy: str | None = Field(
        default=None,
        description="The rule that decides who misbehaves; by default `peers`, and `predicted-slowdown` with a model.",
    )
    policies: dict[str, dict[str, Any]] = Field(default_factory=dict, description="Settings of policies, by name.")
    bypass: BypassSettings = Field(default_factory=BypassSettings, description="When workers are bypassed.")
    trainer: TrainerSettings = Field(default_factory=TrainerSettings, description="When models are trained.")
    models: Path | None = Field(
        default=None,
        description="A folder of models, taken from there and kept there; by default the store of runs has them.",
    )
    stalled_s: float = Field(
        default=1.0,
        ge=0,
        description="Seconds after which a task that runs longer than all others counts against its worker; 0: never.",
    )
    advisory: bool = Field(default=False, description="Whether bypasses are only reported.")

    @property
    def model(self) -> str | None:
        """The kind of the model; None where none is used."""
        return self.by if self.by in ("linear", "idrnn") else None

    def make_policy(self) -> HealthPolicy:
        """Return the rule that decides who misbehaves.

        Raises
        ------
        ConfigError
            When there is no such rule, or its settings are wrong.
        """
        name = self.policy or ("peers" if self.model is None else "predicted-slowdown")
        return make_health_policy(name, self.policies.get(name))
