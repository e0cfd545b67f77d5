"""The level of the day and the week, from minutes of earlier runs."""

from __future__ import annotations

from datetime import UTC, date, datetime

import numpy as np
import pytest

from foretide.errors import ConfigError
from foretide.forecast import Auto, Series, load_forecaster, make_forecaster
from foretide.forecast.calendar.profile import DayProfile
from foretide.forecast.calendar.settings import Calendar, KnownEvent
from foretide.records import Floats

DAY_S = 86_400.0
MONDAY_S = datetime(2026, 11, 2, tzinfo=UTC).timestamp()


def level(instants_s: Floats) -> Floats:
    """A day with a high at six in the evening; weekends have half of it."""
    days = np.floor(instants_s / DAY_S).astype(int)
    weekend = (days + 3) % 7 >= 5
    wave = 100 + 60 * np.sin(2 * np.pi * (instants_s % DAY_S) / DAY_S - np.pi)
    return wave * np.where(weekend, 0.5, 1.0)


def minutes(days: float, from_s: float = MONDAY_S, step_s: float = 60.0, noise: float = 0.05) -> Series:
    count = round(days * DAY_S / step_s)
    instants_s = from_s + step_s * (np.arange(count) + 0.5)
    wobble = 1 + noise * np.random.default_rng(2).normal(0, 1, count)
    return Series(level(instants_s) * wobble, step_s, from_s + count * step_s, "in")


def ahead(made_at_s: float, steps: int, step_s: float = 1.0) -> Floats:
    return level(made_at_s + step_s * (np.arange(steps) + 0.5))


@pytest.mark.parametrize("step_s", [60.0, 3600.0])
def test_two_weeks_tell_workdays_from_weekends(step_s: float) -> None:
    found = DayProfile.learn(minutes(14, step_s=step_s), Calendar())
    assert found is not None and found.days == pytest.approx(14) and found.trust > 0.9
    at_s = MONDAY_S + 14 * DAY_S + np.array([18.0, 6.0, 5 * 24 + 18.0]) * 3600
    levels = found.at(at_s, Calendar())
    assert levels[0] / levels[1] == pytest.approx(160 / 40, rel=0.1)
    assert levels[2] / levels[0] == pytest.approx(0.5, abs=0.15), "drawn a little towards workdays"


def test_two_days_are_enough_and_less_is_too_little() -> None:
    assert DayProfile.learn(minutes(1.9, from_s=MONDAY_S + 40_000), Calendar()) is None
    found = DayProfile.learn(minutes(2.0, from_s=MONDAY_S + 40_000), Calendar())
    assert found is not None and found.trust > 0.8
    assert DayProfile.learn(Series(np.full(9000, np.nan), 60.0, MONDAY_S), Calendar()) is None
    assert DayProfile.learn(Series(np.zeros(9000), 60.0, MONDAY_S), Calendar()) is None


def test_days_that_do_not_repeat_are_not_trusted() -> None:
    random = np.random.default_rng(4)
    walk = 100 * np.exp(np.cumsum(random.normal(0, 0.02, 14 * 1440)) * 0.3)
    found = DayProfile.learn(Series(walk, 60.0, MONDAY_S + 14 * DAY_S), Calendar())
    assert found is not None and found.trust < 0.35 and found.hold > 0.7, "what departs stays away"


def test_an_hour_ahead_follows_the_day_after_a_restart() -> None:
    now_s = MONDAY_S + 14 * DAY_S + 8 * 3600
    seen = Series(level(now_s + np.arange(-119.0, 1.0)), 1.0, now_s, "in")
    truth = ahead(now_s, 3600)[-1]
    plain, recalled = Auto().fit(seen), Auto().fit(seen).recall(minutes(14))
    far = np.abs(plain.predict(3600, levels=()).mean[-1] - truth)
    assert np.abs(recalled.predict(3600, levels=()).mean[-1] - truth) < 0.5 * far
    assert recalled.predict(6).mean == pytest.approx(plain.predict(6).mean, rel=0.01), "seconds ahead hardly differ"
    assert (np.diff(list(recalled.predict(600).mean_quantiles.values())) >= 0).all()


def test_a_departure_fades_by_hand() -> None:
    # Always 100, and a quarter of the logarithm of a departure is left after an hour: 200 becomes 100·2^(1/4).
    profile = DayProfile(np.full((7, 96), 100.0), trust=1.0, hold=0.25, days=14.0)
    rates = np.full(2, 200.0)
    found = rates * profile.growth(MONDAY_S, 1800.0, rates, Calendar())
    assert found == pytest.approx([100 * 2**0.5, 100 * 2**0.25])


def test_departures_that_last_an_hour_hold_and_those_that_do_not_fade() -> None:
    random = np.random.default_rng(6)
    quarters = np.arange(14 * 96)
    usual = level(MONDAY_S + 900.0 * (quarters + 0.5))
    for part, least, most in ((0.0, 0.0, 0.5), (0.98, 0.75, 1.0)):
        wander = np.zeros(quarters.size)
        for place in range(1, quarters.size):
            wander[place] = part * wander[place - 1] + random.normal(0, 0.1)
        found = DayProfile.learn(Series(usual * np.exp(wander), 900.0, MONDAY_S + 14 * DAY_S), Calendar())
        assert found is not None and least <= found.hold <= most


def test_it_is_kept_in_files_and_forgotten_by_fit(tmp_path: object) -> None:
    now_s = MONDAY_S + 14 * DAY_S + 8 * 3600
    model = Auto(calendar=Calendar(holidays=(date(2026, 12, 25),))).fit(Series(np.full(50, 9.0), 1.0, now_s))
    plain = model.predict(1800).mean
    model.recall(minutes(14))
    loaded = load_forecaster(model.save(f"{tmp_path}/auto"))
    assert np.array_equal(loaded.predict(1800).mean, model.predict(1800).mean)
    assert not np.allclose(model.predict(1800).mean, plain)
    assert np.array_equal(model.fit(Series(np.full(50, 9.0), 1.0, now_s)).predict(1800).mean, plain)


def test_a_window_that_shows_the_days_itself_is_left_alone() -> None:
    series = Series(level(MONDAY_S + 300.0 * np.arange(50)), 300.0, MONDAY_S + 49 * 300.0)
    assert np.array_equal(Auto().fit(series).recall(minutes(7)).predict(6).mean, Auto().fit(series).predict(6).mean)


def test_a_known_event_multiplies_the_rate_while_it_lasts() -> None:
    sale = KnownEvent(start=datetime(2026, 11, 2, 18, tzinfo=UTC), end=datetime(2026, 11, 2, 19, tzinfo=UTC), times=3.0)
    at_s = MONDAY_S + 18 * 3600
    model = Auto(calendar=Calendar(events=(sale,))).fit(Series(np.full(60, 50.0), 1.0, at_s - 10))
    found = model.predict(20)
    assert found.mean[:10] == pytest.approx(50.0) and found.mean[10:] == pytest.approx(150.0)
    model = Auto(calendar=Calendar(events=(sale,))).fit(Series(np.full(60, 150.0), 1.0, at_s + 3590))
    assert model.predict(20).mean[-1] == pytest.approx(50.0), "and it ends"


def test_what_events_of_the_past_multiplied_is_no_level_of_the_day() -> None:
    past = minutes(7, noise=0.0)
    sale = KnownEvent(start=datetime(2026, 11, 3, 18, tzinfo=UTC), end=datetime(2026, 11, 3, 20, tzinfo=UTC), times=5.0)
    begin = 42 * 60
    values = past.values.copy()
    values[begin : begin + 120] *= 5.0
    found = DayProfile.learn(Series(values, 60.0, past.ended_at_s), Calendar(events=(sale,)))
    plain = DayProfile.learn(past, Calendar())
    assert found is not None and plain is not None and found.levels == pytest.approx(plain.levels)


def test_holidays_are_sundays_and_days_follow_the_zone() -> None:
    calendar = Calendar(zone="America/New_York", holidays=(date(2026, 11, 26),))
    # 2026-11-26 02:00 UTC is still Wednesday evening in New York; at 12:00 UTC the holiday has come.
    at_s = np.array([datetime(2026, 11, 26, hour, tzinfo=UTC).timestamp() for hour in (2, 12)])
    assert calendar.day_kinds(calendar.local_s(at_s)).tolist() == [2, 6]
    # Clocks go back on 2026-11-01 at 06:00 UTC: from four to five hours behind.
    at_s = np.array([datetime(2026, 11, 1, hour, tzinfo=UTC).timestamp() for hour in (5, 7)])
    assert (at_s - calendar.local_s(at_s)).tolist() == [4 * 3600.0, 5 * 3600.0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"zone": "Europe/Berln"}, "a time zone such as UTC"),
        ({"events": [{"start": "2026-11-02T18:00", "end": "2026-11-02T17:00", "times": 3}]}, "an end after the start"),
        ({"events": [{"start": "2026-11-02T18:00", "end": "2026-11-02T19:00", "times": 0}]}, "greater than 0"),
        ({"holiday": []}, "holiday"),
    ],
)
def test_bad_calendars_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_forecaster("auto", calendar=given)
