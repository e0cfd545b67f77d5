from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from foretide.traces import TraceError, known_traces, load_trace


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", [name for name in known_traces() if name.startswith("pasps")])
def test_every_recorded_trace_loads(name: str) -> None:
    trace = load_trace(name)
    assert trace.bin_s == 5.0
    assert trace.duration_s == (3605.0 if "gaussian" in name else 1205.0)
    assert trace.total_events > 3_000_000


def test_d6_the_streams_of_dabs_rise_and_fall_tenfold() -> None:
    slow, sudden = load_trace("dabs_progressive").rates, load_trace("dabs_erratic").rates
    for rates in (slow, sudden):
        assert (rates[0], rates[-1], rates.min(), rates.max()) == (100, 100, 100, 1000)
    assert abs(np.diff(slow)).max() < 50 and abs(np.diff(sudden)).max() == 900


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    trace = load_trace(write(tmp_path / "mine.csv", "events_per_second,second,note\n2,10,x\n\n4,12,y\n"))
    assert (trace.name, trace.bin_s, trace.rates.tolist()) == ("mine", 2.0, [2, 4])


@pytest.mark.parametrize(
    ("stretch", "rates"),
    [
        ("@50%-", [3, 4]),
        ("@2-6", [2, 3]),
        ("@-4", [1, 2]),
        ("@1-", [2, 3, 4]),
        ("@0-100%", [1, 2, 3, 4]),
        ("@-", [1, 2, 3, 4]),
        ("@6-99", [4]),
    ],
)
def test_a_stretch_has_the_bins_that_begin_within_it(tmp_path: Path, stretch: str, rates: list[float]) -> None:
    path = write(tmp_path / "mine.csv", "second,events_per_second\n0,1\n2,2\n4,3\n6,4\n")
    trace = load_trace(f"{path}{stretch}")
    assert (trace.name, trace.bin_s, trace.rates.tolist()) == (f"mine{stretch}", 2.0, rates)


@pytest.mark.parametrize("stretch", ["@8-", "@4-4", "@6-2", "@1.2.3-", "@120%-"])
def test_a_stretch_without_a_bin_is_named(tmp_path: Path, stretch: str) -> None:
    path = write(tmp_path / "mine.csv", "second,events_per_second\n0,1\n2,2\n4,3\n6,4\n")
    with pytest.raises(TraceError, match=f"'mine{stretch}'.*a stretch of its 8 s.*got no bin within it"):
        load_trace(f"{path}{stretch}")


def test_a_file_whose_name_looks_like_a_stretch_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "week@2-3", "second,events_per_second\n0,1\n2,2\n")
    assert load_trace(path).rates.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "expected the columns second,events_per_second, got an empty file"),
        ("second,events_per_second\n", None, "at least two rows, which give the width of a bin, got none"),
        ("second,rate\n0,1\n", 1, "a column 'events_per_second', got the columns second,rate"),
        ("second,events_per_second\n0,1\n5,-3\n", 3, "rate of 0 or more in column 'events_per_second', got -3"),
        ("second,events_per_second\n0,1\n5,\n", 3, "a number in column 'events_per_second', got nothing"),
        ("second,events_per_second\n0,1\n5\n", 3, "a number in column 'events_per_second', got nothing"),
        ("second,events_per_second\n0,1\n5,many\n", 3, "a number in column 'events_per_second', got 'many'"),
        ("second,events_per_second\n0,1\n5,inf\n", 3, "a number in column 'events_per_second', got 'inf'"),
        ("second,events_per_second\nx,1\n5,1\n", 2, "a number in column 'second', got 'x'"),
        ("second,events_per_second\n0,1\n5,1\n4,1\n", 4, "ascending times in column 'second', got 4 after 5"),
        ("second,events_per_second\n0,1\n5,1\n5,1\n", 4, "ascending times in column 'second', got 5 twice"),
        ("second,events_per_second\n0,1\n5,1\n11,1\n", 4, "even bins of 5 s in column 'second', got a step of 6"),
    ],
)
def test_a_fault_is_named_with_file_line_and_column(tmp_path: Path, text: str, line: int | None, message: str) -> None:
    path = write(tmp_path / "bad.csv", text)
    with pytest.raises(TraceError, match=message) as caught:
        load_trace(path)
    assert (caught.value.file, caught.value.line) == (str(path), line)
    assert str(path) in str(caught.value)


def test_an_unknown_trace_lists_the_known_ones() -> None:
    with pytest.raises(
        TraceError, match=r"trace 'pasps_dsn': expected one of dabs_erratic, .*, pasps_dns, .* or the path"
    ):
        load_trace("pasps_dsn")


def test_an_error_comes_whole_out_of_a_worker_process() -> None:
    error = TraceError("rates.csv", 3, "a rate of at least 0", "-1")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.file, copy.line) == (str(error), "rates.csv", 3)
