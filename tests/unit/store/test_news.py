from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from foretide.events import Event
from foretide.latency import LatencyHistogram
from foretide.records import Measurement
from foretide.store import FeatureSample, RunRecorder, RunSpec, RunStore

Measured = Callable[..., Measurement]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore(tmp_path / "runs.db", threaded=False) as store:
        yield store


@pytest.fixture
def recorder(store: RunStore, spec: RunSpec) -> Iterator[RunRecorder]:
    with store.begin_run(spec) as recorder:
        yield recorder


def test_every_record_is_told_once_whatever_its_clock_says(
    store: RunStore, recorder: RunRecorder, measured: Measured
) -> None:
    recorder.measured([measured(1.0), measured(2.0)])
    # Of the same instant as one before, and of an earlier one: both are news.
    recorder.emit(Event(2.0, "a", "first"))
    store.flush()
    run = store.run("latest")
    first = run.news(0)
    assert [one.ended_at_s for one in first.measurements] == [1.0, 2.0]
    recorder.emit(Event(2.0, "a", "second"))
    recorder.emit(Event(0.5, "a", "third"))
    store.flush()
    second = run.news(first.seq)
    assert not second.measurements and [event.message for event in second.events] == ["second", "third"]
    assert run.news(second.seq).seq == second.seq == run.cursor()


def test_all_kinds_are_told(store: RunStore, recorder: RunRecorder) -> None:
    histogram = LatencyHistogram()
    histogram.add([0.1], [3])
    recorder.latencies(1.0, 1.0, histogram)
    recorder.features([FeatureSample.of(1.0, "worker", "w", "m", {"cpu": 1.0})])
    store.flush()
    news = store.run("latest").news(0)
    assert [sample.histogram.count for sample in news.latencies] == [3]
    assert [sample.by_name() for sample in news.features] == [{"cpu": 1.0}]


def test_long_news_come_in_pages_without_gaps(store: RunStore, recorder: RunRecorder, measured: Measured) -> None:
    for number in range(1, 8):
        recorder.measured([measured(float(number))])
        recorder.emit(Event(float(number), "tick", str(number)))
    store.flush()
    run, after, told = store.run("latest"), 0, []
    while (news := run.news(after, most=3)).seq > after:
        assert len(news.measurements) <= 3 and len(news.events) <= 3
        told += [one.ended_at_s for one in news.measurements] + [event.message for event in news.events]
        after = news.seq
    assert sorted(map(float, told)) == sorted([*range(1, 8)] * 2)


def test_news_end_where_they_are_to(store: RunStore, recorder: RunRecorder, measured: Measured) -> None:
    recorder.measured([measured(1.0)])
    store.flush()
    run = store.run("latest")
    until = run.cursor()
    recorder.measured([measured(2.0)])
    store.flush()
    assert [one.ended_at_s for one in run.news(0, until=until).measurements] == [1.0]
    assert run.news(until, until=until).seq == until


def test_a_decision_is_found_by_its_place(store: RunStore, recorder: RunRecorder) -> None:
    store.flush()
    assert store.run("latest").decision(12_345) is None
