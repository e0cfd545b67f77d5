"""What goes through files that executors must see, and what is said where they do not."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from foretide._version import __version__
from foretide.compile.stages import compile_stages
from foretide.depot import DepotError
from foretide.errors import ConfigError
from foretide.spark.driver import sharing
from foretide.spark.driver.sharing import SharedPlace, check_executors, check_given, check_stores, shared_places
from foretide.spark.errors import SinkError
from foretide.spark.pool.sight import Sight
from foretide.spark.settings import EngineSettings
from foretide.spark.sinks.contract import ParquetSink
from foretide.topology import Topology, flow
from foretide.transport import ArrowLog, CorruptLogError

FAR: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://host:7077"))
NEAR: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local-cluster[2,1,1024]"))


def same(rows: Any, *more: Any) -> Any:
    return rows


def needy(table: Path) -> Topology:
    job = flow("needy")
    stream = job.source("in").operator("look", same, mode="rows", tables={"names": str(table), "inside": [1]})
    keyed = stream.operator("keep", same, mode="arrow", key="id", state="n long")
    last = keyed.operator("last", same, mode="rows", queued=True)
    last.sink("files", "parquet", path="/data/out")
    last.sink("lines", "memory")
    return job.build()


def inline() -> Topology:
    job = flow("inline")
    job.source("in").operator("a", same, mode="rows").operator("b", same, mode="rows", grouping="fields:id").sink(
        "out", "postgres", url="postgresql://x/y", table="t"
    )
    return job.build()


def sight(
    executor: str, machine: str, python: str = "", foretide: str = __version__, missing: tuple[str, ...] = ()
) -> Sight:
    return Sight(executor, machine, python or platform.python_version(), foretide, missing)


def named(topology: Topology, **settings: Any) -> dict[str, str | None]:
    places = shared_places(compile_stages(topology), "/run", EngineSettings(**settings))
    return {place.what: place.folder for place in places}


def test_what_needs_files_is_named_with_its_place(tmp_path: Path) -> None:
    table = tmp_path / "names.csv"
    table.touch()
    assert named(needy(table)) == {
        "queued edge 'keep -> last'": "/run",
        "state of operator 'keep'": "/run",
        "sink 'files' (parquet)": "/data/out",
        "table 'names' of operator 'look'": str(table),
    }
    assert "queued edge 'keep -> last'" not in named(needy(table), edges="kafka", kafka_servers="b:9092")


def test_inline_edges_and_sinks_outside_need_nothing() -> None:
    assert named(inline()) == {}


def test_operators_on_dataframes_need_it_for_their_state_and_for_what_cannot_be_read() -> None:
    def frames(kind: str, *, stateful: bool, **options: Any) -> Topology:
        job = flow("frames")
        source = job.source("in", kind, **options)
        source.operator("frame", same, mode="dataframe", stateful=stateful, schema="id long").sink("out", "memory")
        return job.build()

    assert named(frames("kafka", stateful=False, servers="b:9092", topic="t")) == {
        "operator 'frame' on DataFrames, for what cannot be read": "/run"
    }
    state = frames("files", stateful=True, path="s3a://b/in")
    assert named(state) == {"state of operator 'frame' on DataFrames": "/run"}
    assert named(state, checkpoint="/shared") == {"state of operator 'frame' on DataFrames": "/shared"}
    assert named(state, checkpoint="hdfs:///runs") == {"state of operator 'frame' on DataFrames": ""}
    assert named(frames("files", stateful=False, path="s3a://b/in")) == {}


def test_a_cluster_whose_executors_do_not_see_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_around(spark: Any, folders: Sequence[str]) -> list[Sight]:
        assert folders == ["/run", "/data/out"]
        return [sight("0", "near"), sight("1", "far", missing=("/run",))]

    monkeypatch.setattr(sharing, "look_around", look_around)
    places = [
        SharedPlace("queued edge 'a -> b'", "/run"),
        SharedPlace("state of operator 'c'", "/run"),
        SharedPlace("sink 'd' (parquet)", "/data/out"),
    ]
    with pytest.raises(ConfigError) as caught:
        check_executors(FAR, places)
    assert caught.value.setting == "--path"
    assert caught.value.expected.endswith("files are needed by: queued edge 'a -> b', state of operator 'c'")
    assert caught.value.got == "/run, with executors that do not: 1 on far"
    assert "--engine edges=kafka" in caught.value.remedy


def test_nobody_looks_where_all_is_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "look_around", lambda *_: pytest.fail("nobody had to look"))
    check_executors(NEAR, [SharedPlace("queued edge 'a -> b'", "/run")])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"python": "3.9.1"}, r"'spark.pyspark.python': expected Python {here} .*, got .* 1 on far: Python 3\.9\.1, "),
        ({"foretide": "0.0.1"}, r"Foretide {own} on executors, .*, got executor 1 on far: .* Foretide 0\.0\.1; "),
    ],
)
def test_executors_with_another_python_or_foretide_are_refused_though_nothing_is_shared(
    monkeypatch: pytest.MonkeyPatch, other: dict[str, str], message: str
) -> None:
    monkeypatch.setattr(sharing, "look_around", lambda *_: [sight("0", "near"), sight("1", "far", **other)])
    here = r"\.".join(platform.python_version_tuple()[:2])
    with pytest.raises(ConfigError, match=message.format(here=here, own=__version__)) as caught:
        check_executors(FAR, [])
    assert "near" not in str(caught.value) and "--conf spark.archives=" in caught.value.remedy


def test_executors_with_another_patch_of_python_are_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    major, minor, _ = platform.python_version_tuple()
    monkeypatch.setattr(sharing, "look_around", lambda *_: [sight("0", "near", python=f"{major}.{minor}.99")])
    check_executors(FAR, [])


LOST = "Job aborted: Task 1 in stage 0.0 failed 4 times: Lost task 1.3 in stage 0.0 (TID 7) (10.0.0.5 executor 1): "


@pytest.mark.parametrize(
    ("said", "got"),
    [
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark",
            "Python 3.9;",
        ),
        ("No module named 'foretide'", "No module named 'foretide';"),
        ("  import x\nModuleNotFoundError: No module named 'a.b'\nPYTHONPATH was", "No module named 'a.b';"),
        ("Error while finding ('x' (ModuleNotFoundError: No module named 'foretide')", "No module named 'foretide';"),
        ("Can't get attribute '_Look' on <module 'foretide'", "Can't get attribute '_Look' on <module 'foretide';"),
        (
            "ImportError: cannot import name 'Self' from 'typing' (x.py)",
            "cannot import name 'Self' from 'typing' (x.py",
        ),
        ("    type X = int\nSyntaxError: invalid syntax\n", "SyntaxError: invalid syntax;"),
    ],
)
def test_executors_that_are_too_different_to_tell_are_refused_by_what_spark_said(
    monkeypatch: pytest.MonkeyPatch, said: str, got: str
) -> None:
    def look_around(*_: Any) -> list[Sight]:
        raise RuntimeError(f"{LOST}org.x.PythonException:\n  File\n{said}\n\tat org.x")

    monkeypatch.setattr(sharing, "look_around", look_around)
    with pytest.raises(ConfigError) as caught:
        check_executors(FAR, [])
    assert f"got executor 1 on 10.0.0.5: {got}" in str(caught.value) and "--conf spark.archives=" in caught.value.remedy


def test_where_python_alone_is_told_of_it_is_those_on_which_tasks_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_around(*_: Any) -> list[Sight]:
        raise RuntimeError("An exception was thrown from the Python worker:\nNo module named 'foretide'")

    def executor(id: str, host: str, failed: int) -> Any:
        return SimpleNamespace(id=lambda: id, hostPort=lambda: f"{host}:4040", failedTasks=lambda: failed)

    seen = [executor("driver", "here", 0), executor("0", "near", 0), executor("1", "far", 4)]
    found = SimpleNamespace(size=lambda: len(seen), apply=lambda place: seen[place])
    inner = SimpleNamespace(statusStore=lambda: SimpleNamespace(executorList=lambda active: found))
    context = SimpleNamespace(master="yarn", _jsc=SimpleNamespace(sc=lambda: inner))
    monkeypatch.setattr(sharing, "look_around", look_around)
    with pytest.raises(ConfigError, match="got executor 1 on far: No module named 'foretide';"):
        check_executors(SimpleNamespace(sparkContext=context), [])  # type: ignore[arg-type]


def test_what_spark_fails_with_otherwise_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_around(*_: Any) -> list[Sight]:
        raise RuntimeError(f"{LOST}no room")

    monkeypatch.setattr(sharing, "look_around", look_around)
    with pytest.raises(RuntimeError, match="no room"):
        check_executors(FAR, [])


def test_a_store_that_a_sink_cannot_write_to_is_told_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("AZURE_"):
            monkeypatch.delenv(name)
    check_stores([SharedPlace("queued edge 'a -> b'", "/run"), SharedPlace("state of operator 'c'", "")])
    with pytest.raises(DepotError, match="az://out/one: expected credentials"):
        check_stores([SharedPlace("sink 'd' (parquet)", "az://out/one")])


def test_a_directory_must_be_given_where_executors_need_one(tmp_path: Path) -> None:
    places = shared_places(compile_stages(needy(tmp_path)), None, EngineSettings())
    check_given(places, "local[2]")
    with pytest.raises(ConfigError, match="queued edge 'keep -> last', state of operator 'keep', got none"):
        check_given(places, "yarn")


def test_a_log_that_is_not_there_for_a_task_says_that_it_must_be_shared(tmp_path: Path) -> None:
    writer = ArrowLog(tmp_path / "log").begin("a", 0).segment_writer()
    (tmp_path / "log").rename(tmp_path / "elsewhere")
    with pytest.raises(CorruptLogError, match="none on this machine; driver and executors must see the same directory"):
        writer.write([pa.record_batch({"id": [1]})])


def test_files_that_the_driver_does_not_find_say_so_too(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path)
    open_file = sink.task_writer(0).open()
    open_file.append(pa.record_batch({"id": [1]}))
    written = open_file.close()
    assert isinstance(written, dict)
    Path(written["file"]).unlink()
    with pytest.raises(SinkError, match="driver and executors must see the same directory: give the sink's path"):
        sink.commit(0, [written], None)
