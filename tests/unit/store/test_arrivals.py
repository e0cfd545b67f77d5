from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from foretide.errors import ConfigError
from foretide.records import Measurement
from foretide.store import Arrivals, StoreError
from foretide.store.arrivals import arrivals_of
from foretide.traces import load_trace

Measured = Callable[..., Measurement]


def test_stretches_of_any_length_are_put_on_an_even_grid(measured: Measured) -> None:
    # 10 events in 0 to 2 s, 30 in 2 to 3 s, 20 in 3 to 5 s: the third bin of 2 s is half of the last one.
    found = arrivals_of("x", [measured(2.0, 10.0, 2.0), measured(3.0, 30.0), measured(6.0, 30.0, 3.0)], bin_s=2.0)
    assert found.rates["in"].tolist() == [5.0, 20.0, 10.0]
    assert found.measured.tolist() == [1.0, 1.0, 1.0]
    assert (found.began_at_s, found.bin_s) == (0.0, 2.0)


def test_a_gap_is_bridged_and_told(measured: Measured) -> None:
    seconds = [1.0, 2.0, 6.0, 7.0]
    found = arrivals_of("x", [measured(second, 10.0 * second) for second in seconds])
    assert found.rates["in"].tolist() == pytest.approx([10, 20, 30, 40, 50, 60, 70])
    assert found.measured.tolist() == [1, 1, 0, 0, 0, 1, 1]


def test_a_bin_of_which_half_was_measured_is_scaled_up(measured: Measured) -> None:
    found = arrivals_of("x", [measured(2.0, 10.0, 2.0), measured(3.0, 10.0), measured(6.0, 10.0, 2.0)], bin_s=2.0)
    assert found.rates["in"].tolist() == pytest.approx([5.0, 10.0, 5.0])


def test_a_measurement_that_came_twice_counts_once(measured: Measured) -> None:
    found = arrivals_of("x", [measured(1.0), measured(1.0), measured(2.0)])
    assert found.rates["in"].tolist() == [100.0, 100.0]


def test_a_clock_that_was_set_back_goes_on_from_where_it_was(measured: Measured) -> None:
    found = arrivals_of("x", [measured(100.0, 1.0), measured(101.0, 2.0), measured(50.0, 3.0), measured(51.0, 4.0)])
    assert found.rates["in"].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_the_usual_length_of_a_measurement_is_the_width_of_a_bin(measured: Measured) -> None:
    found = arrivals_of("x", [measured(5.0 * number, 50.0, 5.0) for number in range(1, 5)])
    assert (found.bin_s, found.rates["in"].tolist()) == (5.0, [10.0] * 4)


def test_the_file_is_a_trace_of_the_sum_or_of_one_source(tmp_path: Path) -> None:
    rates = {"a,b": np.array([1.0, 2.0, 3.0]), "c": np.array([0.5, 0.0, 0.25])}
    arrivals = Arrivals("x", 7.0, 0.5, rates, np.ones(3))
    for source, expected in ((None, [1.5, 2.0, 3.25]), ("c", [0.5, 0.0, 0.25])):
        file = tmp_path / "trace.csv"
        file.write_text(arrivals.to_csv(source))
        trace = load_trace(file)
        assert trace.bin_s == 0.5 and trace.rates.tolist() == expected
    with pytest.raises(ConfigError, match="expected one of a,b, c, got 'd'"):
        arrivals.to_csv("d")


def test_too_little_is_refused(measured: Measured) -> None:
    with pytest.raises(StoreError, match="run x: expected measurements to make a trace of, got none"):
        arrivals_of("x", [])
    with pytest.raises(StoreError, match=r"at least two bins of 1 s, got 1 s; choose narrower bins"):
        arrivals_of("x", [measured(1.0)])
    with pytest.raises(ConfigError, match="bin_s"):
        arrivals_of("x", [measured(1.0)], bin_s=0.0)
