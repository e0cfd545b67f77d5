"""What the experiment on bypassing a worker says about its two runs (SPEC I8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foretide.experiments.bypass import Batch, BypassOptions, BypassRun, report_bypass


def run(bypassing: bool, slow_s: float) -> BypassRun:
    """Return a run of a minute: .5 s an event, a worker throttled from 20 s on and found after 5 s."""
    batches = tuple(
        Batch(float(at), at + 0.5, 10, 0.5 if at < 20 else slow_s if at < 25 or not bypassing else 0.55)
        for at in range(60)
    )
    return BypassRun(bypassing, 20.0, 60.0, 25.0 if bypassing else None, batches, 0, 0, 0, 10.0)


def test_i8_events_after_detection_are_compared_with_those_before() -> None:
    report = report_bypass(run(True, 4.0), run(False, 4.0), BypassOptions())
    assert report.data["ratio_with"] == pytest.approx(1.1)
    assert report.data["ratio_without"] == pytest.approx(8.0)
    assert report.data["detected_after_s"] == pytest.approx(5.0)
    assert [check.holds for check in report.checks] == [True, True, True]


def test_i8_a_worker_that_is_not_found_or_an_event_that_is_lost_is_no_success() -> None:
    missed, lossy = replace(run(True, 4.0), detected_s=None), replace(run(False, 0.6), lost=1)
    report = report_bypass(missed, lossy, BypassOptions())
    assert [check.holds for check in report.checks] == [False, False, False]
    assert "not detected" in str(report.checks[0])
