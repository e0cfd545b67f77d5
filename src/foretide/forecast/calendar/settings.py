"""Whose calendar it is, and what is known ahead."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
from pydantic import Field, field_validator, model_validator

from foretide.config import Settings
from foretide.records import Floats

__all__ = ["Calendar", "KnownEvent"]


class KnownEvent(Settings):
    """Something that will multiply the rate, such as a sale.

    >>> sale = KnownEvent(start="2026-11-27T18:00+00:00", end="2026-11-27T20:00+00:00", times=3.0)
    >>> sale.times
    3.0
    """

    start: datetime = Field(description="When it begins, such as 2026-11-27T18:00+01:00; without an offset, UTC.")
    end: datetime = Field(description="When it ends.")
    times: float = Field(gt=0, le=1000, description="How many times the usual rate comes meanwhile.")

    @field_validator("start", "end")
    @classmethod
    def _with_offset(cls, value: datetime) -> datetime:
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)

    @model_validator(mode="after")
    def _lasts(self) -> KnownEvent:
        if self.end <= self.start:
            raise ValueError(f"an end after the start {self.start.isoformat()}")
        return self


class Calendar(Settings):
    """Whose days these are.

    >>> Calendar(zone="Europe/Berlin").zone
    'Europe/Berlin'
    """

    zone: str = Field(default="UTC", description="Whose clocks days follow, such as Europe/Berlin.")
    holidays: tuple[date, ...] = Field(default=(), description="Days that are like Sundays, such as 2026-12-25.")
    events: tuple[KnownEvent, ...] = Field(default=(), description="What is known ahead to multiply the rate.")

    @field_validator("zone")
    @classmethod
    def _is_known(cls, zone: str) -> str:
        if zone not in available_timezones():
            raise ValueError("a time zone such as UTC or Europe/Berlin")
        return zone

    def local_s(self, instants_s: Floats) -> Floats:
        """Return instants as seconds by the clocks of the zone, since midnight of 1970-01-01 there.

        Clocks change at most once between two days that are looked at, so that the offset is asked for once a day.
        """
        days = np.floor(instants_s / 86_400.0)
        found = np.empty_like(instants_s)
        zone = ZoneInfo(self.zone)
        for day in np.unique(days).tolist():
            inside = days == day
            first_s, last_s = float(instants_s[inside].min()), float(instants_s[inside].max())
            offsets = [_offset_s(at_s, zone) for at_s in (first_s, last_s)]
            if offsets[0] == offsets[1]:
                found[inside] = instants_s[inside] + offsets[0]
            else:
                found[inside] = [at_s + _offset_s(at_s, zone) for at_s in instants_s[inside].tolist()]
        return found

    def day_kinds(self, local_s: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the day of the week, from Monday as 0, by the clocks of the zone; a holiday is a Sunday."""
        days = np.floor(local_s / 86_400.0).astype(np.int64)
        kinds: np.ndarray[tuple[int], np.dtype[np.int64]] = (days + 3) % 7
        closed = [(day - date(1970, 1, 1)).days for day in self.holidays]
        kinds[np.isin(days, closed)] = 6
        return kinds

    def times(self, instants_s: Floats) -> Floats:
        """Return by how much known events multiply the rate at instants."""
        found = np.ones_like(instants_s)
        for event in self.events:
            during = (instants_s >= event.start.timestamp()) & (instants_s < event.end.timestamp())
            found[during] *= event.times
        return found


def _offset_s(at_s: float, zone: ZoneInfo) -> float:
    offset = datetime.fromtimestamp(at_s, zone).utcoffset()
    return 0.0 if offset is None else offset.total_seconds()
