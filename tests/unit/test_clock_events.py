from __future__ import annotations

import logging

import pytest

from foretide.clock import ManualClock, SystemClock
from foretide.events import Event, EventLog, FanOut, LoggingSink


class BrokenSink:
    def emit(self, event: Event) -> None:
        raise OSError("disk full")


def test_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(100.0)
    assert clock.now_s() == clock.now_s() == 100.0
    clock.sleep_s(0.5)
    assert clock.now_s() == 100.5
    clock.sleep_s(-3.0)
    assert clock.now_s() == 100.5, "nobody sleeps backwards"
    clock.set_s(40.0)
    assert clock.now_s() == 40.0


def test_system_clock_does_not_refuse_a_wait_that_is_over() -> None:
    clock = SystemClock()
    before = clock.now_s()
    clock.sleep_s(-1.0)
    assert clock.now_s() >= before > 1.6e9


def test_event_log_keeps_the_last_and_counts_all() -> None:
    log = EventLog(capacity=2)
    for number in range(5):
        log.emit(Event(float(number), "plan.applied", "..."))
    assert [event.at_s for event in log] == [3.0, 4.0]
    assert (len(log), log.count("plan.applied"), log.count("act.failed")) == (2, 5, 0)


def test_event_log_can_be_added_to_while_it_is_read() -> None:
    log = EventLog()
    log.emit(Event(0.0, "a", "..."))
    for event in log:
        log.emit(event)
    assert len(log) == 2


@pytest.mark.parametrize(("severity", "level"), [("info", "INFO"), ("warning", "WARNING"), ("error", "ERROR")])
def test_logging_sink_logs_at_the_level_of_the_severity(
    severity: str, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        LoggingSink().emit(Event(0.0, "act.failed", "refused: 100% full", severity))  # type: ignore[arg-type]
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (level, "act.failed: refused: 100% full")
    ]


def test_fan_out_reaches_every_sink_past_one_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    first, last = EventLog(), EventLog()
    FanOut(first, BrokenSink(), last).emit(Event(0.0, "a", "..."))
    assert (first.count("a"), last.count("a")) == (1, 1)
    assert "an event sink failed on a" in caplog.text
