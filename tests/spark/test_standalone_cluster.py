"""The standalone cluster of tests and benchmarks: its workers share no disk, and nothing of it is left behind."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmark_modules import benchmark_module
from clusters import needs_clusters

clusters: Any = benchmark_module("standalone_cluster")

pytestmark = [pytest.mark.spark, needs_clusters()]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def cluster(shared: Path) -> Iterator[Any]:
    with clusters.standalone_cluster(shared=[shared]) as running:
        yield running


def inner(worker: Any) -> str:
    """Return the process of a worker that has namespaces of its own."""
    return Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()[0]


def seen_by(worker: Any, place: str) -> list[str]:
    """Return what a worker sees in a folder."""
    return os.listdir(f"/proc/{inner(worker)}/root{place}")


def test_workers_see_what_is_shared_and_no_other_temporary_file(cluster: Any, shared: Path, tmp_path: Path) -> None:
    (shared / "checkpoint").touch()
    (tmp_path / "run").touch()
    for worker in cluster.workers:
        assert seen_by(worker, str(shared)) == ["checkpoint"]
        with pytest.raises(FileNotFoundError):
            seen_by(worker, str(tmp_path))


def test_each_worker_has_a_folder_and_an_address_of_its_own(cluster: Any) -> None:
    hosts = {worker["host"] for worker in cluster.state()["workers"]}
    assert len(hosts) == 2 and cluster.address not in hosts
    first, second = cluster.workers
    assert "work" in seen_by(first, "/tmp")
    Path(cluster.logs / "worker1" / "tmp" / "own").touch()
    assert "own" in seen_by(first, "/tmp") and "own" not in seen_by(second, "/tmp")


def test_a_worker_asks_no_server_of_names_which_it_cannot_reach(cluster: Any) -> None:
    names = {(worker["host"], socket.gethostname()) for worker in cluster.state()["workers"]}
    for worker in cluster.workers:
        etc = Path(f"/proc/{inner(worker)}/root/etc")
        assert "nameserver" not in (etc / "resolv.conf").read_text()
        assert {tuple(line.split()) for line in (etc / "hosts").read_text().splitlines()} & names


def test_nothing_is_left_of_a_cluster_that_failed_to_start(tmp_path: Path) -> None:
    before = set(os.listdir("/sys/class/net"))
    with (
        pytest.raises(RuntimeError, match="expected it to start, got an end with exit code"),
        clusters.standalone_cluster(workers=1, memory="no memory", logs=tmp_path),
    ):
        pass
    # Clusters of other processes come and go, and what was left of one of ours may go meanwhile.
    after = {link for link in os.listdir("/sys/class/net") if link.startswith(f"ft{os.getpid()}n")}
    assert after <= before
