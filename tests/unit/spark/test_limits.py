from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows

from foretide.errors import ConfigError
from foretide.spark.inputs.limits import RuntimeLimits, WatchedLimits, admit


def test_no_file_means_no_limits(tmp_path: Path) -> None:
    assert WatchedLimits(None).read() == RuntimeLimits()
    assert WatchedLimits(str(tmp_path / "missing.json")).read() == RuntimeLimits()


def test_a_change_of_the_file_is_seen_at_the_next_read(tmp_path: Path) -> None:
    path = tmp_path / "limits.json"
    limits = WatchedLimits(str(path))
    path.write_text('{"max_rows": 10}')
    assert limits.read() == RuntimeLimits(max_rows=10)
    path.write_text('{"max_rows": 0, "slots": 3, "else": 1}')
    assert limits.read() == RuntimeLimits(max_rows=0, slots=3)
    path.unlink()
    assert limits.read() == RuntimeLimits()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "expected a JSON object, got a fault"),
        ("[1]", "expected a JSON object, got list"),
        ('{"max_rows": -1}', "max_rows': expected a whole number of at least 0, got -1"),
        ('{"slots": 0}', "slots': expected a whole number of at least 1, got 0"),
        ('{"slots": true}', "slots': expected a whole number"),
        ('{"slots": 1.5}', "slots': expected a whole number"),
    ],
)
def test_a_bad_file_is_refused_at_first_and_ignored_later(
    tmp_path: Path, text: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "limits.json"
    path.write_text(text)
    limits = WatchedLimits(str(path))
    with pytest.raises(ConfigError, match=message):
        limits.read()
    path.write_text('{"max_rows": 7}')
    limits.read()
    path.write_text(text)
    with caplog.at_level(logging.WARNING):
        assert limits.read() == RuntimeLimits(max_rows=7)
    assert "keeping the last limits" in caplog.text


@pytest.mark.parametrize(
    ("limit", "limits", "end"),
    [
        (ReadMaxRows(50), RuntimeLimits(), 60),
        (ReadMaxRows(50), RuntimeLimits(max_rows=20), 30),
        (ReadMaxRows(5), RuntimeLimits(max_rows=20), 15),
        (ReadMaxRows(500), RuntimeLimits(), 100),
        (ReadMaxRows(500), RuntimeLimits(max_rows=0), 10),
        (ReadAllAvailable(), RuntimeLimits(max_rows=20), 100),
        (ReadMinRows(90), RuntimeLimits(max_rows=20), 30),
        (ReadMinRows(91), RuntimeLimits(), 10),
    ],
)
def test_a_batch_ends_within_all_limits(limit: ReadLimit, limits: RuntimeLimits, end: int) -> None:
    assert admit(10, 100, limit, limits) == end


def test_a_batch_never_ends_before_it_starts() -> None:
    assert admit(10, 4, ReadMaxRows(50), RuntimeLimits()) == 10
    assert admit(10, 4, ReadAllAvailable(), RuntimeLimits()) == 10
