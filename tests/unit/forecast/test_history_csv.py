from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from foretide.errors import ConfigError
from foretide.forecast.csv_history import read_history


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rates.csv"


def test_without_a_time_column_rows_follow_every_second(file: Path) -> None:
    file.write_text("rate;other\n3;x\n;y\n5;z\n\n")
    history = read_history(file, "rate")
    assert history.series.step_s == 1.0 and history.series.ended_at_s == 2.0 and history.series.name == "rate"
    assert np.array_equal(history.series.values, [3.0, np.nan, 5.0], equal_nan=True)
    assert history.report == "3 rows, 3 bins of 1 s, 1 of them without a value (1 gap)"


def test_dates_make_bins_and_gaps_are_reported(file: Path) -> None:
    file.write_text(
        "\ufeffdatetime,tuples\n2019-03-08 00:00:00,10\n2019-03-08 00:05:00,20\n2019-03-08 00:10:00,null\n"
        "2019-03-08 00:25:00,40\n2019-03-08 00:31:00,50\n",
        encoding="utf-8",
    )
    history = read_history(file, "tuples", "datetime")
    nan = np.nan
    assert np.array_equal(history.series.values, [10, 20, nan, nan, nan, 40, 50], equal_nan=True)
    assert (history.missing_bins, history.empty_cells, history.gaps, history.uneven_rows) == (2, 1, 1, 1)
    assert history.series.step_s == 300.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a header and at least one row, got an empty file"),
        ("rate\n", "got a header and no row"),
        ("time,other\n0,1\n", r"row 1['\"]: expected a column 'rate', got the columns time, other"),
        ("time,rate\n0,1\n1,fast\n", r"row 3, column 'rate'\": expected a finite number, or an empty cell, got 'fast'"),
        ("time,rate\n0,inf\n", "row 2, column 'rate'"),
        (
            "time,rate\n0,1\n5,2\n3,3\n",
            r"row 4, column 'time'\": expected an instant after that of row 3 \(5\), got '3'",
        ),
        ("time,rate\n0,1\n0,2\n", "remove doubles"),
        ("time,rate\nsoon,1\n", "expected an instant: a number of seconds, or a date"),
        ("time,rate\n0,\n1,nan\n", "column 'rate'\": expected at least one number, got none"),
        ("time,rate\n0,1\n1e-6,2\n1e9,3\n", "at most 20,000,000 bins"),
    ],
)
def test_what_is_wrong_is_said_with_file_row_and_column(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError, match=message) as raised:
        read_history(file, "rate", "time")
    assert str(file) in str(raised.value)


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="got no such file or directory; check the path"):
        read_history(tmp_path / "none.csv", "rate")
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00rate")
    with pytest.raises(ConfigError, match="expected text in UTF-8"):
        read_history(binary, "rate")
