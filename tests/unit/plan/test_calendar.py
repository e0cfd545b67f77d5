"""Windows by calendar: when they hold, across time zones and changes of clocks, and which are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foretide.compile.stages import compile_stages
from foretide.control import load_settings
from foretide.errors import ConfigError
from foretide.plan.base import Situation
from foretide.plan.guards import Blackout, CalendarMinimum, CalendarWindow, Guarded
from foretide.plan.planners.static import Static
from foretide.records import Plan
from foretide.topology import flow

Make = Callable[..., Situation]
BERLIN = "Europe/Berlin"
MONDAY_0830 = datetime(2026, 11, 16, 7, 30, tzinfo=UTC).timestamp()  # 08:30 in Berlin


def at(text: str) -> float:
    """Return an instant given in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def window(**more: Any) -> CalendarWindow:
    return CalendarWindow(**{"least": 4, "zone": BERLIN, **more})


def plan_of(situation: Situation, replicas: list[int]) -> Plan:
    layout = situation.window.layout
    return Plan(layout=layout, planner="given", made_at_s=situation.now_s, replicas=np.array(replicas))


class TestCovers:
    @pytest.mark.parametrize(
        ("instant", "inside"),
        [
            ("2026-11-16 06:59:59", False),
            ("2026-11-16 07:00:00", True),  # 08:00 in Berlin
            ("2026-11-16 08:59:59", True),
            ("2026-11-16 09:00:00", False),
            ("2026-11-14 07:30:00", False),  # a Saturday
            ("2026-07-06 06:00:00", True),  # in summer, 08:00 is 06:00 UTC
            ("2026-07-06 08:00:00", False),
        ],
    )
    def test_eight_to_ten_on_workdays_by_the_clocks_of_berlin(self, instant: str, inside: bool) -> None:
        assert window(days="workdays", start="08:00", end="10:00").covers(at(instant)) is inside

    @pytest.mark.parametrize(
        ("instant", "inside"),
        [
            ("2026-11-20 21:30:00", True),  # Friday 22:30
            ("2026-11-21 04:59:00", True),  # Saturday 05:59, of Friday's night
            ("2026-11-21 21:30:00", False),  # Saturday 22:30
            ("2026-11-20 04:30:00", False),  # Friday 05:30, of Thursday's night
        ],
    )
    def test_a_window_over_midnight_belongs_to_the_day_that_it_begins_on(self, instant: str, inside: bool) -> None:
        assert window(days="fri", start="22:00", end="06:00").covers(at(instant)) is inside

    def test_single_dates_are_whole_days_unless_hours_are_given(self) -> None:
        friday = window(dates=["2026-11-27"])
        assert [friday.covers(at(f"2026-11-{day}")) for day in ("26 22:59", "26 23:00", "27 22:59", "27 23:00")] == [
            False,
            True,
            True,
            False,
        ]

    def span(self, given: CalendarWindow, day: str) -> tuple[str, str]:
        """Return the first and the last minute of a day, in UTC, that a window covers."""
        start = at(f"{day} 00:00:00") - 7200
        minutes = [start + 60 * minute for minute in range(28 * 60)]
        inside = [minute for minute in minutes if given.covers(minute)]
        assert inside == [minute for minute in minutes if inside[0] <= minute <= inside[-1]], "without a gap"
        first, last = (datetime.fromtimestamp(minute, UTC).strftime("%H:%M") for minute in (inside[0], inside[-1]))
        return first, last

    @pytest.mark.parametrize(
        ("start", "end", "first", "last"),
        [
            ("01:00", "04:00", "00:00", "01:59"),  # one hour of the three is not there
            ("02:15", "02:45", "00:15", "01:44"),  # neither is there: whatever they may mean
            ("01:30", "02:30", "00:30", "01:29"),
            ("02:45", "03:15", "00:45", "01:14"),
        ],
    )
    def test_no_window_is_skipped_when_clocks_go_forward(self, start: str, end: str, first: str, last: str) -> None:
        # On 29 March 2026 clocks in Berlin go from 02:00 (+1) to 03:00 (+2), at 01:00 UTC.
        assert self.span(window(dates=["2026-03-29"], start=start, end=end), "2026-03-29") == (first, last)

    @pytest.mark.parametrize(
        ("start", "end", "first", "last"),
        [
            ("01:00", "04:00", "23:00", "02:59"),  # four hours
            ("02:15", "02:45", "00:15", "01:44"),  # from the first 02:15 to the last 02:45
            ("02:30", "03:30", "00:30", "02:29"),
        ],
    )
    def test_an_hour_that_comes_twice_is_covered_twice(self, start: str, end: str, first: str, last: str) -> None:
        # On 25 October 2026 clocks in Berlin go from 03:00 (+2) back to 02:00 (+1), at 01:00 UTC.
        assert self.span(window(dates=["2026-10-25"], start=start, end=end), "2026-10-25") == (first, last)

    def test_clocks_that_go_forward_at_midnight(self) -> None:
        # In Cairo, 24 April 2026 begins at 01:00: half past midnight is not there, nor may the window be skipped.
        cairo = window(dates=["2026-04-24"], start="00:30", end="02:00", zone="Africa/Cairo")
        assert [cairo.covers(at(f"2026-04-23 {hour}")) for hour in ("21:29", "21:30", "22:59", "23:00")] == [
            False,
            True,
            True,
            False,
        ]


class TestGuards:
    @pytest.mark.parametrize(
        ("hold", "after"), [("changes", [4, 4, 4]), ("scale-in", [9, 4, 4]), ("scale-out", [4, 1, 4])]
    )
    def test_a_blackout_holds_what_it_says(self, make_situation: Make, hold: str, after: list[int]) -> None:
        situation = make_situation(replicas=4, now_s=MONDAY_0830)
        given = window(start="08:00", end="10:00", least=None, hold=hold, name="opening")
        plan = Blackout(windows=(given,)).apply(plan_of(situation, [9, 1, 4]), situation)
        assert plan.replicas.tolist() == after
        assert plan.notes[0].startswith(f"blackout 'opening', no {hold}: ")

    def test_a_minimum_raises_within_the_bounds_of_operators(self, make_situation: Make) -> None:
        job = flow("job")
        job.source("in").operator("a", replicas=(1, 3)).operator("b", replicas=(1, 9)).operator("c", replicas=(6, 9))
        situation = make_situation(job.build(), now_s=MONDAY_0830)
        guard = CalendarMinimum(windows=(window(days="mon", start="08:00", end="10:00"),))
        plan = guard.apply(plan_of(situation, [1, 1, 6]), situation)
        assert plan.replicas.tolist() == [3, 4, 6]
        assert plan.notes == ("at least 4 in 'mon 08:00-10:00 Europe/Berlin': a 1 -> 3, b 1 -> 4",)

    def test_outside_of_the_window_nothing_happens(self, make_situation: Make) -> None:
        situation = make_situation(replicas=4, now_s=MONDAY_0830 + 3 * 3600)
        windows = (window(start="08:00", end="10:00"), window(start="06:00", end="07:00", least=None, hold="changes"))
        plan = plan_of(situation, [1, 9, 4])
        assert CalendarMinimum(windows=windows).apply(plan, situation) is plan
        assert Blackout(windows=windows).apply(plan, situation) is plan

    def test_a_window_may_be_about_some_operators_and_their_stages(self, make_situation: Make) -> None:
        job = flow("job")
        stream = job.source("in").operator("a", replicas=(1, 9)).operator("b", replicas=(1, 9))
        stream.operator("c", replicas=(1, 9), queued=True)
        topology = job.build()
        guard = CalendarMinimum(windows=(window(operators="b"),))
        situation = make_situation(topology, now_s=MONDAY_0830)
        assert guard.apply(plan_of(situation, [1, 1, 1]), situation).replicas.tolist() == [1, 4, 1]
        shared = replace(situation, stages=compile_stages(topology).shared_slots)
        slots = Static(replicas=1).decide_slots(shared, [2, 1], (), demand=np.array([0.1, 1.0, 0.5]))
        assert guard.apply(slots, shared).counts.tolist() == [4, 1]
        with pytest.raises(ConfigError, match=r"guards.windows.0.operators.*one of: a, b, c, got d"):
            Guarded(Static(replicas=1), (CalendarMinimum(windows=(window(operators="d"),)),)).check(topology)


WINDOW = "[[guards.windows]]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('days = "workday"\nleast = 4', r"windows\.0\.days'.*got workday; did you mean 'workdays'\?"),
        ('zone = "Europe/Berln"\nleast = 4', r"windows\.0\.zone'.*did you mean 'Europe/Berlin'\?"),
        ("start = 8\nleast = 4", r"windows\.0\.start': expected a time of day such as 08:00"),
        ('start = "25:00"\nleast = 4', r"windows\.0\.start': .*hour value is outside expected range"),
        ('start = "08:00+01:00"\nleast = 4', r"windows\.0\.start': expected a time without an offset.*set `zone`"),
        ('dates = ["2026-02-30"]\nleast = 4', r"windows\.0\.dates\.0': .*day value is outside expected range"),
        ('days = "mon"\ndates = ["2026-02-03"]\nleast = 4', "expected either days or dates"),
        ("", "expected either least or hold"),
        ('least = 4\nhold = "changes"', "expected either least or hold"),
        ('start = "08:00"\nend = "08:00"\nleast = 4', "expected an end other than the start, 08:00"),
        ('hold = "everything"', r"windows\.0\.hold'"),
        (f'least = 4\n{WINDOW}hold = "changes"\ndays = "sun"', "windows that agree where they overlap"),
        (f"least = 4\n{WINDOW}least = 3", "got at least 4 in .* and at least 3 in .*; let one end where"),
        ("least = 4\n[guards]\nmaximum_replicas = 3", r"windows\.0\.least': expected at most maximum_replicas \(3\)"),
    ],
)
def test_windows_that_make_no_sense_are_refused_when_settings_are_read(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "setup.toml").write_text(f"{WINDOW}{text}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_settings(tmp_path / "setup.toml")


@pytest.mark.parametrize(
    "text",
    [
        f'least = 4\nend = "08:00"\n{WINDOW}least = 3\nstart = "08:00"',
        f'least = 4\n{WINDOW}hold = "scale-in"',
        f'least = 4\noperators = "a"\n{WINDOW}least = 3\noperators = "b"',
        # 08:00 in New York is 14:00 in Berlin, and 13:00 in a few weeks.
        f'least = 4\nzone = "America/New_York"\nstart = "08:00"\nend = "09:00"\n'
        f'{WINDOW}hold = "changes"\nzone = "{BERLIN}"\nstart = "08:00"\nend = "12:00"',
    ],
)
def test_windows_that_agree_are_taken(tmp_path: Path, text: str) -> None:
    (tmp_path / "setup.toml").write_text(f"{WINDOW}{text}\n", encoding="utf-8")
    assert len(load_settings(tmp_path / "setup.toml").guards.windows) == 2


def test_an_overlap_in_a_few_weeks_of_the_year_is_found(tmp_path: Path) -> None:
    # New York is five hours behind Berlin, not six, in the weeks when only one of them has changed its clocks.
    text = (
        f'least = 4\nzone = "America/New_York"\nstart = "08:00"\nend = "09:00"\n'
        f'{WINDOW}hold = "changes"\nzone = "{BERLIN}"\nstart = "13:00"\nend = "14:00"\n'
    )
    (tmp_path / "setup.toml").write_text(f"{WINDOW}{text}", encoding="utf-8")
    with pytest.raises(ConfigError, match="windows that agree where they overlap"):
        load_settings(tmp_path / "setup.toml")
