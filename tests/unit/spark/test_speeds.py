"""How a batch is cut where workers differ in speed (SPEC P3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from foretide.spark.batches.speeds import WorkerSpeeds, cut_by_speed


def task(worker: str, rows: int, busy_s: float) -> dict[str, Any]:
    return {"worker": {"id": worker}, "operators": {"work": (rows, rows, busy_s, 0.0, 0, 0.0)}}


def test_p3_the_speed_of_a_worker_is_that_of_its_tasks_against_the_fastest() -> None:
    speeds = WorkerSpeeds("work")
    speeds.learn([task("0", 100, 0.5), task("1", 50, 0.5), task("0", 100, 0.5)])
    assert speeds.of_slots(2).tolist() == [0.5, 1.0]
    # 250 events at five thousandths of a second.
    assert speeds.work_s == pytest.approx(1.25)


def test_p3_a_slow_worker_holds_up_nobody() -> None:
    shares = cut_by_speed(np.array([1.0, 1.0, 1.0, 1 / 3]), work_s=4.0)
    # Whoever is slow does a tenth, in the time in which the others do three of them in two tasks.
    assert shares.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(shares, [0.1] * 4 + [0.2] * 3)
    even = cut_by_speed(np.ones(4), work_s=4.0)
    assert even.tolist() == [0.25] * 4
