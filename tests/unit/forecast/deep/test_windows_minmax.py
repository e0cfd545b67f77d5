from __future__ import annotations

import numpy as np
import pytest

from foretide.forecast.deep import MinMax, cut_windows, split_windows

NAN = float("nan")
LARGEST = float(np.finfo(np.float64).max)


def test_windows_by_hand() -> None:
    windows = cut_windows([0.0, 1.0, 2.0, 3.0, 4.0], window=2, steps=2)
    assert windows.inputs.tolist() == [[0.0, 1.0], [1.0, 2.0]]
    assert windows.targets.tolist() == [[2.0, 3.0], [3.0, 4.0]]
    assert windows.origins.tolist() == [1, 2]


def test_a_gap_is_bridged_in_inputs_and_never_a_target() -> None:
    values = [0.0, 1.0, NAN, 3.0, 4.0, 5.0]
    windows = cut_windows(values, window=2, steps=1)
    assert windows.origins.tolist() == [2, 3, 4]
    assert windows.inputs.tolist() == [[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]]


def test_a_window_that_is_mostly_gap_is_left_out() -> None:
    assert cut_windows([0.0, NAN, NAN, NAN, 4.0, 5.0], window=3, steps=1).origins.tolist() == []
    assert cut_windows([0.0, 1.0, NAN, 3.0], window=3, steps=1).origins.tolist() == [2]


@pytest.mark.parametrize("values", [[], [1.0, 2.0], [NAN] * 9])
def test_no_windows_keep_their_shape(values: list[float]) -> None:
    windows = cut_windows(values, window=2, steps=1)
    assert (len(windows), windows.inputs.shape, windows.targets.shape) == (0, (0, 2), (0, 1))


def test_no_target_is_on_both_sides_of_a_boundary() -> None:
    before, after = split_windows(cut_windows(np.arange(40.0), window=5, steps=4), boundary=25)
    assert before.targets.max() == 24.0
    assert after.targets.min() == 25.0
    assert len(before) + len(after) == 40 - 5 - 4 + 1 - 3


def test_b1_min_max_by_hand() -> None:
    scaling = MinMax.of([20.0, 10.0, 50.0])
    assert scaling.down([10.0, 50.0, 30.0, 0.0]).tolist() == [0.0, 1.0, 0.5, -0.25]
    assert scaling.up([0.0, 1.0, 0.5, 2.0]).tolist() == [10.0, 50.0, 30.0, 90.0]


def test_min_max_of_extremes_stays_finite() -> None:
    widest = MinMax.of([-LARGEST, LARGEST])
    assert widest.down([-LARGEST, 0.0, LARGEST]).tolist() == [0.0, 0.5, 1.0]
    assert widest.up([0.0, 1.0, 3.0]).tolist() == [-LARGEST, LARGEST, LARGEST]
    assert MinMax(0.0, 1e-300).down([LARGEST]).tolist() == [1e6]


def test_min_max_of_a_constant_shifts() -> None:
    constant = MinMax.of([7.0, 7.0])
    assert constant.constant and not MinMax(7.0, 8.0).constant
    assert constant.up(constant.down([7.0])).tolist() == [7.0]
