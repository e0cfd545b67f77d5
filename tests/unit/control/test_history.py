from __future__ import annotations

import numpy as np
import pytest

from foretide.control.rate_history import RateHistory

NAN = np.nan


def rows_after(*stretches: tuple[float | None, float], rows: int = 100, sample_s: float = 1.0) -> list[float]:
    history = RateHistory(columns=1, rows=rows, sample_s=sample_s)
    for rate, duration_s in stretches:
        history.add(None if rate is None else np.array([rate]), duration_s)
    return history.latest().ravel().tolist()


@pytest.mark.parametrize(
    ("stretches", "expected"),
    [
        ([(10.0, 1.0), (20.0, 1.0)], [10.0, 20.0]),
        ([(10.0, 3.0)], [10.0, 10.0, 10.0]),
        ([(10.0, 0.25)] * 4 + [(20.0, 0.5)] * 2, [10.0, 20.0]),
        ([(10.0, 0.5), (20.0, 1.5)], [15.0, 20.0]),  # half a cell at 10 and half at 20, then a whole one at 20
        ([(10.0, 1.4), (20.0, 1.4)], [10.0, 16.0]),  # .4 at 10 and .6 at 20 = 16; .8 of the third still open
        ([(10.0, 1.0), (None, 2.0), (30.0, 1.0)], [10.0, NAN, NAN, 30.0]),
        ([(10.0, 1.0), (20.0, 0.4), (None, 0.6)], [10.0, NAN]),  # less than half of the cell was measured
        ([(10.0, 1.0), (20.0, 0.6), (None, 0.4)], [10.0, 20.0]),
        ([(10.0, 0.3)], [10.0]),  # before the first cell is full, what there is of it counts
        ([(None, 0.7)], []),
    ],
)
def test_rows_lie_on_an_even_grid(stretches: list[tuple[float | None, float]], expected: list[float]) -> None:
    assert rows_after(*stretches) == pytest.approx(expected, nan_ok=True)


def test_rounding_of_durations_does_not_lose_or_invent_rows() -> None:
    assert len(rows_after(*[(1.0, 0.1)] * 1000, rows=1000)) == 100
    assert len(rows_after(*[(1.0, 1 / 3)] * 300, rows=1000)) == 100


def test_only_the_last_rows_are_kept_and_all_are_counted() -> None:
    history = RateHistory(columns=2, rows=3, sample_s=1.0)
    for number in range(20):
        history.add(np.array([number, -number], dtype=float), 1.0)
    assert history.latest().tolist() == [[17.0, -17.0], [18.0, -18.0], [19.0, -19.0]]
    assert history.count == 20


def test_a_view_does_not_change_when_more_comes() -> None:
    history = RateHistory(columns=1, rows=3, sample_s=1.0)
    history.add(np.array([5.0]), 3.0)
    before = history.latest()
    for number in range(10):
        history.add(np.array([float(number)]), 1.0)
    assert before.ravel().tolist() == [5.0, 5.0, 5.0]
    with pytest.raises(ValueError, match="read-only"):
        before[0, 0] = 1.0


def test_a_stretch_longer_than_the_history_fills_it() -> None:
    assert rows_after((1.0, 2.0), (None, 1e9), rows=3) == pytest.approx([NAN] * 3, nan_ok=True)
    assert rows_after((None, 2.0), (7.0, 1e9), rows=3) == [7.0] * 3


def test_rows_after_clearing_are_no_sequel_to_those_before() -> None:
    history = RateHistory(columns=1, rows=3, sample_s=1.0)
    history.add(np.array([5.0]), 2.5)
    counted = history.count
    history.clear()
    history.add(np.array([6.0]), 1.0)
    assert history.latest().ravel().tolist() == [6.0]
    assert history.count - counted > 3, "more rows passed than the history holds"
