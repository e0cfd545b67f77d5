from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.errors import ConfigError
from foretide.traces import RateTrace

STEPS = RateTrace("steps", 5, [0, 2, 1])


def due_at(trace: RateTrace, ids) -> np.ndarray:
    return trace.due_at_us(np.asarray(ids, dtype=np.int64)) / 1e6


def test_counts_are_the_integral_of_the_rate() -> None:
    seconds = [-3, 0, 5, 5.4, 5.5, 6, 9.999, 10, 10.5, 11, 15, 100]
    assert STEPS.events_by(seconds).tolist() == [0, 0, 0, 0, 1, 2, 9, 10, 10, 11, 15, 15]


def test_speed_makes_the_same_events_come_faster() -> None:
    assert [STEPS.events_by(s, speed=20) for s in (0.25, 0.3, 0.5, 0.75, 9.0)] == [0, 2, 10, 15, 15]


def test_a_single_instant_counts_as_one_of_many() -> None:
    rng = np.random.default_rng(3)
    trace = RateTrace("uneven", bin_s=0.7, rates=rng.uniform(0, 5000, 40))
    instants = np.concatenate((rng.uniform(-1, 30, 500), 0.7 * np.arange(42), [np.inf, -np.inf]))
    assert [trace.events_by(float(instant)) for instant in instants] == np.asarray(trace.events_by(instants)).tolist()


def test_due_times_invert_the_counts() -> None:
    assert due_at(STEPS, np.arange(15)).tolist() == [
        *(5.5 + 0.5 * n for n in range(10)),
        *(11.0 + n for n in range(5)),
    ]


def test_fractions_carry_over_from_bin_to_bin() -> None:
    trace = RateTrace("slow", 1, [0.3, 0.3, 0.3, 0.3])
    assert trace.total_events == 1
    assert due_at(trace, [0]).tolist() == [3.333334]  # the first microsecond by which 0.3 t reaches 1
    assert trace.events_by([3.333333, 3.333334]).tolist() == [0, 1]


def test_an_event_the_trace_does_not_have_is_refused() -> None:
    with pytest.raises(IndexError, match="expected event ids 0 to 14, got 3 to 15"):
        due_at(STEPS, [3, 15])
    with pytest.raises(IndexError):
        due_at(STEPS, [-1])
    assert due_at(STEPS, []).tolist() == []


def test_scaling_thins_the_events_and_keeps_the_duration() -> None:
    thin = STEPS.scaled(0.2)
    assert (thin.total_events, thin.duration_s, thin.peak_rate) == (3, 15.0, 0.4)


def test_a_trace_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        STEPS.rates[0] = 5
    with pytest.raises(AttributeError):
        STEPS.bin_s = 3  # type: ignore[misc]


def test_a_trace_survives_pickling() -> None:
    again = pickle.loads(pickle.dumps(STEPS))
    assert (again.name, again.events_by(9.0), again.rates.tolist()) == ("steps", 8, [0, 2, 1])


def test_long_traces_of_high_rates_do_not_overflow() -> None:
    trace = RateTrace("year", 3600, np.full(24 * 365, 1e6))
    assert trace.total_events == 24 * 365 * 3600 * 10**6
    last = trace.total_events - 1
    assert due_at(trace, [last]).tolist() == [trace.duration_s]


@pytest.mark.parametrize(
    ("bin_s", "rates", "text"),
    [
        (5, [1, -2], r"not negative, got -2.0 in bin 1"),
        (5, [1, float("nan")], r"finite and not negative, got nan in bin 1"),
        (5, [], "a rate for at least one bin"),
        (0, [1], "a positive bin width"),
        (1e-7, [1], "whole microseconds"),
        (3600, [1e12], "fewer than 4.6e9 events in a bin"),
    ],
)
def test_impossible_traces_are_refused(bin_s: float, rates: list[float], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        RateTrace("bad", bin_s, rates)


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
def test_impossible_paces_are_refused(value: float) -> None:
    with pytest.raises(ConfigError, match="a positive number"):
        STEPS.events_by(1.0, speed=value)
    with pytest.raises(ConfigError, match="a positive number"):
        STEPS.scaled(value)


@given(
    rates=st.lists(st.floats(0, 5000), min_size=1, max_size=20),
    bin_s=st.sampled_from([0.001, 1, 5, 60]),
    times=st.lists(st.integers(0, 2 * 10**9), min_size=2, max_size=10),
)
def test_counts_are_monotone_and_agree_with_due_times(rates: list[float], bin_s: float, times: list[int]) -> None:
    trace = RateTrace("any", bin_s, rates)
    counts = trace.events_by_us(np.array(sorted(times)))
    assert (np.diff(counts) >= 0).all() and counts.max() <= trace.total_events
    ids = np.unique(np.linspace(0, trace.total_events - 1, 50).astype(np.int64)) if trace.total_events else []
    due = trace.due_at_us(np.asarray(ids, dtype=np.int64))
    assert (trace.events_by_us(due) > ids).all()
    assert (trace.events_by_us(due - 1) <= ids).all()
    assert due.max(initial=0) <= trace.duration_s * 1e6
