"""Windows by calendar: hours of chosen days in a time zone in which plans are held, or have a minimum."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from functools import cached_property
from itertools import combinations
from typing import Any, Literal, TypeAlias
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from foretide.errors import ConfigError
from foretide.plan.base import Situation
from foretide.plan.guards.base import bounds_of
from foretide.records import Ints, Plan

__all__ = ["CalendarWindow", "Hold", "check_operators", "check_overlaps", "least_of"]

#: What a blackout forbids.
Hold: TypeAlias = Literal["changes", "scale-in", "scale-out"]

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_GROUPS = {"workdays": _DAYS[:5], "weekends": _DAYS[5:], "daily": _DAYS}
_DAY = timedelta(days=1)
# Overlaps of windows that recur are looked for in the starts of this year, which has every weekday in every season.
_LOOKED_AT = [date(2026, 1, 1) + day * _DAY for day in range(366)]


class CalendarWindow(BaseModel):
    """Hours of chosen days, by the clocks of a time zone, in which changes are held or a minimum applies.

    A window whose end is not after its start ends on the next day. Where clocks change, it begins at the earliest
    instant that its start may mean and ends at the latest that its end may mean: none is skipped, or shorter than it
    says.

    >>> window = CalendarWindow(days=["workdays"], start="08:00", end="10:00", zone="Europe/Berlin", least=4)
    >>> window.covers(datetime(2026, 11, 16, 7, 30, tzinfo=ZoneInfo("UTC")).timestamp())
    True
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(default="", description="What notes call it; its days and hours if not set.")
    days: tuple[str, ...] = Field(
        default=(), description="`mon` to `sun`, `workdays`, `weekends` or `daily`; every day if not set."
    )
    dates: tuple[date, ...] = Field(default=(), description="Single days, such as 2026-11-27, instead of `days`.")
    start: time = Field(default=time(), description="When it begins, such as 08:00.")
    end: time = Field(default=time(), description="When it ends, on the next day if that is not after `start`.")
    zone: str = Field(default="UTC", description="Whose clocks these are, such as Europe/Berlin.")
    least: int | None = Field(default=None, ge=1, description="Fewest replicas of an operator, or slots of a stage.")
    hold: Hold | None = Field(default=None, description="What no plan does meanwhile.")
    operators: tuple[str, ...] = Field(default=(), description="Whom it is about, with their stages; all if not set.")

    @field_validator("days", "operators", mode="before")
    @classmethod
    def _one_or_many(cls, names: Any) -> Any:
        return (names,) if isinstance(names, str) else names

    @field_validator("start", "end", mode="before")
    @classmethod
    def _by_the_clock(cls, value: Any) -> Any:
        # Numbers would be taken for seconds since midnight: 8 is not meant as that.
        if not isinstance(value, str | time):
            raise ValueError("a time of day such as 08:00, in quotes")
        return value

    @model_validator(mode="after")
    def _makes_sense(self) -> CalendarWindow:
        for day in self.days:
            _check_name("days", day, (*_DAYS, *_GROUPS), f"one of: {', '.join((*_DAYS, *_GROUPS))}")
        _check_name("zone", self.zone, available_timezones(), "a time zone such as UTC or Europe/Berlin")
        for name, value in (("start", self.start), ("end", self.end)):
            if value.tzinfo is not None:
                raise ConfigError(name, expected="a time without an offset", got=value, remedy="set `zone` instead")
        if self.days and self.dates:
            raise ValueError("either days or dates; leave one of them out")
        if (self.least is None) == (self.hold is None):
            raise ValueError("either least or hold; set one of them, and make two windows for both")
        if self.start == self.end != time():
            raise ValueError(f"an end other than the start, {self.start:%H:%M}; leave both out for whole days")
        return self

    def __str__(self) -> str:
        if self.name:
            return self.name
        days = ", ".join(self.days or [f"{day}" for day in self.dates] or ["daily"])
        return f"{days} {self.start:%H:%M}-{self.end:%H:%M} {self.zone}"

    def covers(self, at_s: float) -> bool:
        """Return whether an instant lies in the window."""
        today = datetime.fromtimestamp(at_s, self._zone).date()
        # One of yesterday may last into today; one of tomorrow begins today where clocks are set forward at midnight.
        return any(
            start_s <= at_s < end_s
            for day in (today - _DAY, today, today + _DAY)
            if self._is_on(day)
            for start_s, end_s in (self._span(day),)
        )

    def concerns(self, plan: Plan) -> npt.NDArray[np.bool_]:
        """Return which units of a plan it is about."""
        if not self.operators:
            return np.ones(len(plan.units), dtype=np.bool_)
        named = np.isin(plan.layout.operators, self.operators)
        return named if plan.stages is None else plan.stages.sums(named.astype(np.float64)) > 0

    def meets(self, other: CalendarWindow) -> bool:
        """Return whether there are instants in both, for some operator."""
        if self.operators and other.operators and not set(self.operators) & set(other.operators):
            return False
        return any(other.covers(at_s) for at_s in self._starts()) or any(self.covers(at_s) for at_s in other._starts())

    @cached_property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.zone)

    @cached_property
    def _weekdays(self) -> frozenset[int]:
        names = [name for day in self.days or ("daily",) for name in _GROUPS.get(day, (day,))]
        return frozenset(_DAYS.index(name) for name in names)

    def _is_on(self, day: date) -> bool:
        return day in self.dates if self.dates else day.weekday() in self._weekdays

    def _span(self, day: date) -> tuple[float, float]:
        """Return the first and the last instant that start and end may mean: folds differ where clocks change."""
        last = day if self.end > self.start else day + _DAY
        starts = (datetime.combine(day, self.start.replace(fold=fold), self._zone) for fold in (0, 1))
        ends = (datetime.combine(last, self.end.replace(fold=fold), self._zone) for fold in (0, 1))
        return min(start.timestamp() for start in starts), max(end.timestamp() for end in ends)

    def _starts(self) -> Iterator[float]:
        return (self._span(day)[0] for day in self.dates or _LOOKED_AT if self._is_on(day))


def check_overlaps(windows: tuple[CalendarWindow, ...]) -> None:
    """Check that no two windows contradict each other.

    Raises
    ------
    ConfigError
        When a minimum meets another one, or a blackout that forbids to scale out.
    """
    for one, other in combinations(windows, 2):
        leasts = [window.least for window in (one, other) if window.least is not None]
        holds = [window.hold for window in (one, other) if window.hold is not None]
        contradict = leasts and (len(set(leasts)) == 2 or any(hold != "scale-in" for hold in holds))
        if contradict and one.meets(other):
            raise ConfigError(
                "windows",
                expected="windows that agree where they overlap",
                got=f"{_rule(one)} and {_rule(other)}",
                remedy="let one end where the other begins, or name different operators",
            )


def check_operators(windows: tuple[CalendarWindow, ...], operators: tuple[str, ...]) -> None:
    """Check that the operators that windows name are there.

    Raises
    ------
    ConfigError
        When one is not, with the nearest name.
    """
    for place, window in enumerate(windows):
        for name in window.operators:
            _check_name(f"guards.windows.{place}.operators", name, operators, f"one of: {', '.join(operators)}")


def least_of(windows: tuple[CalendarWindow, ...], plan: Plan, situation: Situation) -> Ints:
    """Return the fewest of every unit that its bounds and the windows of this moment allow."""
    low, high = bounds_of(plan, situation)
    for window in windows:
        if window.least is not None and window.covers(situation.now_s):
            low = np.where(window.concerns(plan), np.clip(window.least, low, high), low)
    return low


def _rule(window: CalendarWindow) -> str:
    rule = f"at least {window.least}" if window.least is not None else f"no {window.hold}"
    return f"{rule} in '{window}'"


def _check_name(setting: str, got: str, known: Iterable[str], expected: str) -> None:
    names = sorted(known)
    if got in names:
        return
    close = difflib.get_close_matches(got, names, n=1)
    raise ConfigError(setting, expected=expected, got=got, remedy=f"did you mean {close[0]!r}?" if close else "")
