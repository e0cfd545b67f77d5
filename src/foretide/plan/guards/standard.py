"""The guards of a running system, assembled from settings."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field, model_validator

from foretide.errors import ConfigError
from foretide.plan.guards.base import Guard
from foretide.plan.guards.bounds import Bounds
from foretide.plan.guards.calendar import Blackout, CalendarMinimum
from foretide.plan.guards.catch_up import CatchUp
from foretide.plan.guards.cooldown import Cooldown
from foretide.plan.guards.delayed_scale_in import DelayedScaleIn
from foretide.plan.guards.effectiveness import Effectiveness
from foretide.plan.guards.hourly_budget import HOUR_S, HourlyBudget
from foretide.plan.guards.slot_budget import SlotBudget, check_minima
from foretide.plan.guards.step_limit import StepLimit
from foretide.plan.guards.utilisation import UtilisationTarget
from foretide.plan.guards.windows import CalendarWindow, check_overlaps

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
    step_out: int | None = Field(default=None, ge=1, description="Replicas that one decision adds at most.")
    step_out_factor: float | None = Field(
        default=None, gt=1, allow_inf_nan=False, description="Factor by which one decision grows at most."
    )
    step_in: int | None = Field(default=None, ge=1, description="Replicas that one decision takes away at most.")
    step_in_factor: float | None = Field(
        default=None, gt=1, allow_inf_nan=False, description="Factor by which one decision shrinks at most."
    )
    effect_share: float | None = Field(
        default=None, gt=0, le=1, description="Part of its expected gain that a scale-out must bring, or others wait."
    )
    effect_after_s: float = Field(
        default=60.0, gt=0, allow_inf_nan=False, description="Seconds until it is judged whether a scale-out helped."
    )
    effect_hold_s: float = Field(
        default=300.0, gt=0, allow_inf_nan=False, description="Seconds to wait after a scale-out that did not help."
    )
    windows: tuple[CalendarWindow, ...] = Field(
        default=(), description="Hours in which nothing changes, or a minimum applies."
    )
    minimum_replicas: int | None = Field(default=None, ge=1, description="Fewest replicas of any operator.")
    maximum_replicas: int | None = Field(default=None, ge=1, description="Most replicas of any operator.")
    slot_seconds_per_hour: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Slot-seconds that may be spent within any hour."
    )
    slots: int | None = Field(default=None, ge=1, description="Replicas that all operators together may have.")

    @model_validator(mode="after")
    def _consistent(self) -> GuardSettings:
        Bounds(minimum=self.minimum_replicas, maximum=self.maximum_replicas)
        check_overlaps(self.windows)
        for place, window in enumerate(self.windows):
            for name in ("maximum_replicas", "slots"):
                most = getattr(self, name)
                if window.least is not None and most is not None and window.least > most:
                    expected = f"at most {name} ({most})"
                    raise ConfigError(f"windows.{place}.least", expected=expected, got=window.least)
        check_minima("slots", self.slots, self.minimum_replicas or 1)
        check_minima("slot_seconds_per_hour", self.slot_seconds_per_hour, self.minimum_replicas or 1, HOUR_S)
        return self

    def without_targets(self) -> GuardSettings:
        """Return these settings without guards that raise a plan, for planners that have targets of their own."""
        return self.model_copy(update={"utilisation_target": None, "catch_up_within_s": None})


def standard_guards(settings: GuardSettings) -> tuple[Guard, ...]:
    """Return the guards that are on, in the order in which they apply.

    First those that raise (utilisation target, catch-up), then those that hold (delayed scale-in, cool-down,
    effectiveness, largest step, blackout), then limits (minimum of the hour, bounds, budget of the hour, slots), so
    that no guard undoes a limit.

    >>> [guard.name for guard in standard_guards(GuardSettings(utilisation_target=0.8, slots=8))]
    ['utilisation-target', 'bounds', 'slot-budget']
    """
    return (*_raising(settings), *_holding(settings), *_limits(settings))


def _raising(settings: GuardSettings) -> Iterator[Guard]:
    if settings.utilisation_target is not None:
        yield UtilisationTarget(target=settings.utilisation_target)
    if settings.catch_up_within_s is not None:
        yield CatchUp(within_s=settings.catch_up_within_s)


def _holding(settings: GuardSettings) -> Iterator[Guard]:
    if settings.delay_scale_in_s is not None:
        yield DelayedScaleIn(hold_s=settings.delay_scale_in_s)
    if settings.cooldown_out_s is not None or settings.cooldown_in_s is not None:
        yield Cooldown(out_s=settings.cooldown_out_s or 0.0, in_s=settings.cooldown_in_s or 0.0)
    if settings.effect_share is not None:
        yield Effectiveness(share=settings.effect_share, after_s=settings.effect_after_s, hold_s=settings.effect_hold_s)
    step = StepLimit(
        out=settings.step_out,
        out_factor=settings.step_out_factor,
        in_=settings.step_in,
        in_factor=settings.step_in_factor,
    )
    if step != StepLimit():
        yield step
    if any(window.hold is not None for window in settings.windows):
        yield Blackout(windows=settings.windows)


def _limits(settings: GuardSettings) -> Iterator[Guard]:
    if any(window.least is not None for window in settings.windows):
        yield CalendarMinimum(windows=settings.windows)
    yield Bounds(minimum=settings.minimum_replicas, maximum=settings.maximum_replicas)
    if settings.slot_seconds_per_hour is not None:
        yield HourlyBudget(
            slot_s=settings.slot_seconds_per_hour, minimum=settings.minimum_replicas or 1, windows=settings.windows
        )
    if settings.slots is not None:
        yield SlotBudget(slots=settings.slots)
