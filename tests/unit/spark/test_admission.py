from __future__ import annotations

import numpy as np
import pytest

from foretide.spark.batches.admission import Admission
from foretide.spark.settings import EngineSettings


def make(first_rows: int = 1000, **settings: float) -> Admission:
    return Admission(EngineSettings(first_rows=first_rows, **settings))  # type: ignore[arg-type]


def warm(first_rows: int = 1000, **settings: float) -> Admission:
    """Return an admission that has seen its first batch, which teaches nothing."""
    admission = make(first_rows, **settings)
    admission.learn(rows=1, duration_s=60.0, work_s=60.0, slots=1)
    assert admission.limit == first_rows
    return admission


def test_the_first_limit_is_the_setting() -> None:
    assert make(first_rows=123).limit == 123


def test_a_full_batch_that_was_too_slow_lowers_the_limit() -> None:
    admission = warm()
    admission.learn(rows=1000, duration_s=4.0, work_s=4.0, slots=1)
    assert admission.limit == 625  # halfway from 1000 to 250


def test_a_full_batch_that_was_quick_raises_the_limit_at_most_half_way_to_double() -> None:
    admission = warm()
    admission.learn(rows=1000, duration_s=0.01, work_s=0.01, slots=1)
    assert admission.limit == 1500


def test_a_small_quick_batch_says_nothing() -> None:
    admission = warm()
    admission.learn(rows=10, duration_s=0.3, work_s=0.3, slots=1)
    assert admission.limit == 1000


def test_a_small_slow_batch_does_say_something() -> None:
    admission = warm()
    admission.learn(rows=100, duration_s=2.0, work_s=2.0, slots=1)
    assert admission.limit == 525  # halfway from 1000 to 50


def test_an_empty_batch_is_ignored() -> None:
    admission = warm()
    admission.learn(rows=0, duration_s=9.0, work_s=0.0, slots=1)
    assert admission.limit == 1000


@pytest.mark.parametrize("pace", [200, 5_000, 80_000])
def test_full_batches_bring_the_limit_to_what_fits_the_target(pace: int) -> None:
    admission = warm(batch_target_s=0.5)
    for _ in range(60):
        rows = admission.limit
        admission.learn(rows, rows / pace, work_s=rows / pace, slots=1)
    assert admission.limit == pytest.approx(pace * 0.5, rel=0.02)


def test_fixed_cost_above_the_target_does_not_starve_the_stage() -> None:
    admission = warm(batch_target_s=1.0)
    for _ in range(200):
        rows = admission.limit
        admission.learn(rows, duration_s=1.5 + rows / 2000, work_s=rows / 2000, slots=1)
    assert admission.limit == pytest.approx(1000, rel=0.02)  # half a second of work in every batch


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_work_that_is_there_whatever_the_rows_does_not_starve_the_stage_either(noise: float) -> None:
    # Spark's tasks load and write the partitions of a state: a second of work for each slot, with any rows.
    admission, numbers = warm(first_rows=5000, batch_target_s=1.0), np.random.default_rng(1)
    limits = []
    for _ in range(300):
        rows = admission.limit
        work_s = 1.05 * numbers.normal(1.0, noise) + rows / 2000
        admission.learn(rows, duration_s=0.3 + work_s, work_s=work_s, slots=8)
        limits.append(admission.limit)
    # Half a second of work with rows in every batch, about.
    assert 500 < np.median(limits[100:]) < 2000 and min(limits) > 250


def test_small_batches_that_are_slow_whatever_their_rows_do_not_lower_the_limit_for_good() -> None:
    admission = warm(first_rows=5000, batch_target_s=1.0)
    for turn in range(100):
        rows = 20 + turn % 30
        admission.learn(rows, duration_s=1.4, work_s=1.05, slots=8)
    assert admission.limit > 1000


def test_the_limit_stays_between_one_row_and_the_most() -> None:
    admission = warm(first_rows=100, max_rows=150)
    for _ in range(5):
        admission.learn(admission.limit, 0.01, work_s=0.01, slots=1)
    assert admission.limit == 150
    for _ in range(60):
        rows = admission.limit
        admission.learn(rows, 1000.0 * rows, work_s=1000.0 * rows, slots=1)
    assert admission.limit == 1


def test_more_slots_take_more_rows_at_once() -> None:
    admission = make()
    admission.expect(4)
    assert admission.limit == 1000  # nothing is known of other slots yet
    admission.learn(rows=1000, duration_s=1.0, work_s=1.0, slots=2)
    admission.expect(6)
    assert admission.limit == 3000
    admission.expect(6)
    assert admission.limit == 3000
    admission.expect(1)
    assert admission.limit == 500


def test_rows_are_admitted_up_to_a_number_of_bytes() -> None:
    admission = Admission(EngineSettings(first_rows=1_000, max_bytes=1 << 20))
    admission.weigh(rows=100, bytes=100 * 2_048)
    assert admission.limit == 512
    admission.weigh(rows=0, bytes=0)
    assert admission.limit == 512
    admission.weigh(rows=10, bytes=10 << 20)
    assert admission.limit == 1


def test_rows_that_shrink_are_trusted_by_and_by() -> None:
    admission = Admission(EngineSettings(first_rows=1_000_000, max_rows=1_000_000, max_bytes=1 << 20))
    limits = []
    for _ in range(4):
        admission.weigh(rows=10, bytes=10 * (4_096 if not limits else 512))
        limits.append(admission.limit)
    assert limits == [256, 512, 1024, 2048]
