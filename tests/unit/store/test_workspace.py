"""Where a run keeps its files, on a disk and in an object store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from object_stores import keep_in_memory

from foretide.depot import open_depot
from foretide.store import RuntimeStore
from foretide.store.workspace import Workspace


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Workspace:
    keep_in_memory(monkeypatch)
    monkeypatch.setenv("FORETIDE_CACHE", str(tmp_path / "cache"))
    return Workspace.at("s3://bucket/run/")


def test_on_a_disk_all_is_in_one_directory(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path / "run")
    assert workspace.place("edges", "a-b") == str(workspace.edge("a-b")) == str(tmp_path / "run" / "edges" / "a-b")
    assert workspace.run_id() == workspace.run_id() == (tmp_path / "run" / "run-id").read_text()
    assert Workspace.at(f"file://{tmp_path}/run") == workspace


def test_in_an_object_store_the_driver_has_a_directory_of_its_own(remote: Workspace, tmp_path: Path) -> None:
    assert remote.place("edges", "a-b") == "s3://bucket/run/edges/a-b"
    assert remote.root.parent == tmp_path / "cache" / "runs"
    assert remote == Workspace.at("s3://bucket/run") != Workspace.at("s3://bucket/other")
    assert remote.run_id() == remote.run_id() == open_depot("s3://bucket/run").read("run-id").decode()


def test_a_driver_elsewhere_goes_on_with_the_run_time_configuration(remote: Workspace, tmp_path: Path) -> None:
    here = RuntimeStore(remote.runtime, remote.depot)
    here.restore()
    here.change(replicas={"split": 2})
    here.change(replicas={"count": 3})
    assert json.loads(remote.depot.read("runtime.json"))["version"] == 2
    there = RuntimeStore(tmp_path / "elsewhere" / "runtime.json", remote.depot)
    there.restore()
    assert there.read().replicas == {"split": 2, "count": 3}
    there.change(replicas={"count": 5})
    here.restore()
    assert (here.read().version, here.read().replicas["count"]) == (3, 5)
    there.restore()
    assert there.read().version == 3
    remote.depot.delete(["runtime.json"])  # another run begins in the same place
    afresh = RuntimeStore(remote.runtime, remote.depot)
    afresh.restore()
    assert (afresh.read().version, afresh.read().replicas) == (0, {})
