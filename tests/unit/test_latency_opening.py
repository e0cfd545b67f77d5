"""How a stream began: cold and warm latencies, and the first plan."""

from __future__ import annotations

import math

import pytest

from foretide.latency import LatencyHistogram, Opening


def waited(seconds: float, events: int = 10) -> LatencyHistogram:
    found = LatencyHistogram()
    found.add([seconds], [events])
    return found


def test_the_stream_begins_with_the_stretch_in_which_the_first_event_came() -> None:
    opening = Opening()
    opening.add(99.0, 1.0, came=False, latency=LatencyHistogram())
    opening.add(100.0, 1.0, came=True, latency=LatencyHistogram())
    opening.add(101.0, 1.0, came=True, latency=waited(1.0))
    assert opening.began_at_s == 99.0


def test_events_that_left_up_to_thirty_seconds_later_are_cold_and_all_others_warm() -> None:
    opening = Opening()
    opening.add(1.0, 1.0, came=True, latency=waited(4.0, events=2))
    opening.add(30.0, 1.0, came=False, latency=waited(2.0, events=3))
    opening.add(30.5, 0.5, came=True, latency=waited(0.5, events=5))
    assert (opening.cold.count, opening.warm.count) == (5, 5)
    assert opening.cold.quantile_s(0.95) == pytest.approx(4.0, rel=0.03)
    assert opening.warm.quantile_s(0.95) == pytest.approx(0.5, rel=0.03)


def test_the_first_plan_counts_from_the_first_event() -> None:
    opening = Opening()
    opening.add(11.0, 1.0, came=True, latency=LatencyHistogram())
    assert math.isnan(opening.first_plan_s)
    opening.planned(13.5)
    opening.planned(16.5)
    assert opening.first_plan_s == 3.5


def test_a_plan_that_was_there_before_the_first_event_took_no_time() -> None:
    opening = Opening()
    opening.planned(4.0)
    assert math.isnan(opening.first_plan_s)
    opening.add(11.0, 1.0, came=True, latency=LatencyHistogram())
    assert opening.first_plan_s == 0.0
