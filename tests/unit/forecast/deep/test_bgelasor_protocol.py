"""The protocol of SPEC B1 on the published traces: 40 days to train, 10 to validate, the rest to test."""

from __future__ import annotations

import csv
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from foretide.forecast.deep import MinMax, cut_windows, split_windows
from foretide.records import Floats

pytestmark = pytest.mark.slow  # networks are trained and compiled

TRACES = Path(__file__).parents[5] / "shared" / "traces"


def trace(name: str, step_s: int) -> Floats:
    """Return a trace on its grid, NaN in its gaps."""
    path = TRACES / f"bgelasor_{name}.csv"
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    with path.open() as lines:
        rows = [(datetime.fromisoformat(row["datetime"]), float(row["tuples"])) for row in csv.DictReader(lines)]
    places = [int((instant - rows[0][0]).total_seconds()) // step_s for instant, _ in rows]
    values = np.full(places[-1] + 1, np.nan)
    values[places] = [value for _, value in rows]
    return values


@pytest.mark.parametrize(
    ("name", "step_s", "expected"),
    [("periodic", 300, [0.0700, 0.0764, 0.0821]), ("fluctuating", 600, [0.0356, 0.0560, 0.0671])],
)
def test_b1_last_value_has_the_error_that_others_measured(name: str, step_s: int, expected: list[float]) -> None:
    values, day = trace(name, step_s), 86_400 // step_s
    _, test = split_windows(cut_windows(values, window=36, steps=6), boundary=50 * day)
    scaling = MinMax.of(values[: 40 * day][np.isfinite(values[: 40 * day])])
    errors = (test.targets - test.inputs[:, -1:]) / (scaling.high - scaling.low)
    found = [np.sqrt(np.square(part).mean()) for part in (errors[:, 0], errors, errors[:, 5])]
    assert found == pytest.approx(expected, abs=6e-5)
