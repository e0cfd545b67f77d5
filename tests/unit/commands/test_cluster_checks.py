"""What ``foretide doctor --master`` finds on a cluster; the clusters are played."""

from __future__ import annotations

import json
import platform
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from foretide._version import __version__
from foretide.cli import app
from foretide.commands.machine.cluster_checks import cluster_checks
from foretide.commands.machine.doctor_checks import Check
from foretide.spark.pool.sight import Sight
from foretide.spark.session import probe
from foretide.spark.session.probe import ClusterProbe

HERE = platform.python_version()


def sight(executor: str = "0", python: str = HERE, foretide: str = __version__, missing: tuple[str, ...] = ()) -> Sight:
    return Sight(executor, "host", python, foretide, missing)


def checks(monkeypatch: pytest.MonkeyPatch, found: Any) -> dict[str, Check]:
    def probe_cluster(*arguments: Any) -> ClusterProbe:
        if isinstance(found, Exception):
            raise found
        return ClusterProbe(3.0, tuple(found))

    monkeypatch.setattr(probe, "probe_cluster", probe_cluster)
    return {check.name: check for check in cluster_checks("yarn", "/runs", {})}


def test_executors_that_are_alike_and_see_the_directory_are_well(monkeypatch: pytest.MonkeyPatch) -> None:
    found = checks(monkeypatch, [sight("0"), sight("1")])
    assert [check.status for check in found.values()] == ["ok"] * 3
    assert "2 answered" in found["executors"].found


def test_executors_that_do_not_see_the_directory_are_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    found = checks(monkeypatch, [sight("0"), sight("1", missing=("/runs",))])["shared directory"]
    assert (found.status, found.found.partition(":")[0]) == ("warn", "1 of 2 executors do not see /runs")


@pytest.mark.parametrize(
    ("other", "status"), [(sight(python="3.9.1"), "fail"), (sight(foretide="0.0.1"), "fail"), (sight(), "ok")]
)
def test_another_environment_is_told_with_a_remedy(monkeypatch: pytest.MonkeyPatch, other: Sight, status: str) -> None:
    found = checks(monkeypatch, [other])["environment"]
    assert found.status == status
    assert ("spark.archives" in found.remedy) == (status != "ok")


def test_executors_without_foretide_are_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RuntimeError("Job aborted\nCaused by: x: No module named 'foretide'")
    found = checks(monkeypatch, error)["executors"]
    assert found.status == "fail" and "lacks Foretide" in found.found and "spark.archives" in found.remedy


def test_executors_with_another_python_on_which_nothing_runs_are_told_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark"
    found = checks(monkeypatch, RuntimeError(f"Job aborted\nCaused by: x: {said}"))["executors"]
    assert (found.status, found.found) == ("fail", "they have Python 3.9") and "spark.archives" in found.remedy


def test_what_spark_fails_with_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    found = checks(monkeypatch, RuntimeError("An error\norg.x.SparkException: no room\n\tat x"))["executors"]
    assert (found.status, found.found) == ("fail", "org.x.SparkException: no room")


def test_a_master_that_does_not_listen_is_found_at_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    result = CliRunner().invoke(app, ["doctor", "--json", "--master", f"spark://127.0.0.1:{port}"])
    found = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
    assert found["master"]["status"] == "fail" and f"127.0.0.1:{port}: Connection refused" in found["master"]["found"]
    assert "spark workers" not in found and result.exit_code == 1
