"""The guards of a running system, assembled from settings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from foretide.plan.guards.base import Guard
from foretide.plan.guards.bounds import Bounds
from foretide.plan.guards.catch_up import CatchUp
from foretide.plan.guards.cooldown import Cooldown
from foretide.plan.guards.delayed_scale_in import DelayedScaleIn
from foretide.plan.guards.slot_budget import SlotBudget
from foretide.plan.guards.utilisation import UtilisationTarget

__all__ = ["GuardSettings", "standard_guards"]


class GuardSettings(BaseModel):
    """Which guards follow the planner; what is not set is off. Operators' own bounds always hold.

    >>> GuardSettings(slots=8).utilisation_target is None
    True
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    utilisation_target: float | None = Field(
        default=None, gt=0, le=1, description="Part of the time that a replica may be busy."
    )
    catch_up_within_s: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Seconds within which a backlog is to be worked off."
    )
    delay_scale_in_s: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Seconds for which fewer replicas must have been enough."
    )
    cooldown_out_s: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="Seconds after a change before the next scale-out."
    )
    cooldown_in_s: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="Seconds after a change before the next scale-in."
    )
    minimum_replicas: int | None = Field(default=None, ge=1, description="Fewest replicas of any operator.")
    maximum_replicas: int | None = Field(default=None, ge=1, description="Most replicas of any operator.")
    slots: int | None = Field(default=None, ge=1, description="Replicas that all operators together may have.")

    @model_validator(mode="after")
    def _bounds_in_order(self) -> GuardSettings:
        Bounds(minimum=self.minimum_replicas, maximum=self.maximum_replicas)
        return self


def standard_guards(settings: GuardSettings) -> tuple[Guard, ...]:
    """Return the guards that are on, in the order in which they apply.

    First those that raise (utilisation target, catch-up), then those that hold (delayed scale-in, cool-down), then
    those that cut (bounds, slot budget), so that no guard undoes a limit.

    >>> [guard.name for guard in standard_guards(GuardSettings(utilisation_target=0.8, slots=8))]
    ['utilisation-target', 'bounds', 'slot-budget']
    """
    guards: list[Guard] = []
    if settings.utilisation_target is not None:
        guards.append(UtilisationTarget(target=settings.utilisation_target))
    if settings.catch_up_within_s is not None:
        guards.append(CatchUp(within_s=settings.catch_up_within_s))
    if settings.delay_scale_in_s is not None:
        guards.append(DelayedScaleIn(hold_s=settings.delay_scale_in_s))
    if settings.cooldown_out_s is not None or settings.cooldown_in_s is not None:
        guards.append(Cooldown(out_s=settings.cooldown_out_s or 0.0, in_s=settings.cooldown_in_s or 0.0))
    guards.append(Bounds(minimum=settings.minimum_replicas, maximum=settings.maximum_replicas))
    if settings.slots is not None:
        guards.append(SlotBudget(slots=settings.slots))
    return tuple(guards)
