from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from foretide.clock import ManualClock
from foretide.config import validated
from foretide.errors import ConfigError, MetricsError
from foretide.records import Measurement
from foretide.store import FeatureSample, RunSpec, RunStore, StoreSettings, default_store_path
from foretide.store.backlog import Backlog, Item
from foretide.store.databases.sqlite import SqliteDatabase
from foretide.store.merging import joined
from foretide.store.writer import Writer
from foretide.topology import flow

Measured = Callable[..., Measurement]


class Unreachable(SqliteDatabase):
    """A database that counts how often someone tries."""

    tries = 0

    def connect(self, *, create: bool = False) -> object:  # type: ignore[override]
        self.tries += 1
        return super().connect(create=create)


def test_a_database_that_cannot_be_reached_is_tried_less_and_less_often() -> None:
    now, database, settings = [0.0], Unreachable("/dev/null/x.db"), StoreSettings(retry_s=4.0)
    backlog, reports = Backlog(settings), []
    writer = Writer(
        database,
        backlog,
        settings,
        report=lambda kind, *_: reports.append(kind),
        clock=ManualClock(),
        monotonic=lambda: now[0],
    )
    backlog.put(Item("run", "events", list))
    tried_at = []
    while now[0] < 20:
        before = database.tries
        writer.step()
        tried_at += [now[0]] * (database.tries - before)
        now[0] += 0.5
    assert tried_at == [0.0, 0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5]
    assert reports == ["store.unavailable"] and len(backlog) == 1
    writer.step(urgent=True)
    assert database.tries == 9


def test_what_waits_is_bounded_in_bytes_as_well() -> None:
    backlog = Backlog(StoreSettings(queue_mb=1))
    for _ in range(10):
        backlog.put(Item("run", "features", list, size=300_000))
    assert len(backlog) == 3 and backlog.take_lost() == {"features": 7}
    backlog.put(Item("run", "features", list, size=10**9))
    assert len(backlog) == 1  # one that is too large by itself still gets its chance


def test_the_thread_writes_without_being_asked_to(tmp_path: Path, spec: RunSpec, measured: Measured) -> None:
    store = RunStore(tmp_path / "runs.db", StoreSettings(flush_s=0.01))
    recorder = store.begin_run(spec)
    recorder.measured(measured(float(second)) for second in range(1, 5001))
    assert recorder.finish({"saved": 0.5})
    assert len(store.run("line").measurements()) == 5000
    assert store.close() and store.close()


def test_a_topology_that_is_no_plain_data_is_recorded_by_name(tmp_path: Path, measured: Measured) -> None:
    job = flow("odd")
    job.source("in", "files", options={"schema": object()}).operator("a")
    with RunStore(tmp_path / "runs.db", threaded=False) as store:
        store.begin_run(RunSpec(topology=job.build())).finish()
        info = store.run("odd").info
    assert info.topology_document == {"name": "odd"} and info.layout.operators == ("a",)


def test_joined_measurements_add_up_what_was_counted_and_keep_what_was_seen_last(measured: Measured) -> None:
    found = joined([measured(1.0, 10.0), measured(2.0, 20.0), measured(4.0, 30.0, 2.0)])
    assert (found.ended_at_s, found.duration_s, found.arrived.tolist()) == (4.0, 4.0, [60.0])
    assert found.busy_s.tolist() == [1.5, 1.5] and found.replicas.tolist() == [1, 1]


def test_features_must_have_a_value_for_each_name() -> None:
    with pytest.raises(MetricsError, match="features of worker 'w': expected 2 values"):
        FeatureSample(0.0, "worker", "w", "m", ("a", "b"), [1.0])  # type: ignore[arg-type]


def test_ages_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match="raw_hours of at most keep_days"):
        validated(StoreSettings, {"raw_hours": 100, "keep_days": 1}, "store")


def test_the_store_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("FORETIDE_STORE", raising=False)
    assert default_store_path() == tmp_path / "foretide" / "runs.db"
    monkeypatch.setenv("FORETIDE_STORE", "here.db")
    assert default_store_path() == Path("here.db")
