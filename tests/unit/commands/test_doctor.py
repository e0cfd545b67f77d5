"""``foretide doctor``: every check in good and in bad surroundings."""

from __future__ import annotations

import json
import socket
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from foretide import extras
from foretide.cli import app
from foretide.commands.machine import doctor_checks
from foretide.commands.machine.doctor_checks import Check, all_checks, java_version


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORETIDE_STORE", str(tmp_path / "runs.db"))
    monkeypatch.setenv("COLUMNS", "140")
    return tmp_path


def fake_java(folder: Path, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{told}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(folder))


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "17.0.2"', 17),
        ('java version "1.8.0"', 8),
        ("", None),
    ],
)
def test_the_version_of_java_is_read(told: str, version: int | None) -> None:
    assert java_version(told) == version


@pytest.mark.parametrize(
    ("told", "status"), [('openjdk version "17.0.2"', "ok"), ('java version "1.8.0"', "fail"), ("hello", "warn")]
)
def test_java_must_be_17_or_newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, status: str) -> None:
    fake_java(tmp_path, told, monkeypatch)
    assert doctor_checks.check_java().status == status


def test_without_java_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = doctor_checks.check_java()
    assert found.status == "fail" and "openjdk-17" in found.remedy


@pytest.mark.parametrize(("version", "status"), [("4.2.0", "ok"), ("4.10.1", "ok"), ("4.1.3", "warn")])
def test_the_version_of_pyspark(monkeypatch: pytest.MonkeyPatch, version: str, status: str) -> None:
    monkeypatch.setattr(doctor_checks.metadata, "version", lambda name: version)
    assert doctor_checks.check_pyspark().status == status


def test_without_pyspark_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_there(name: str) -> str:
        raise doctor_checks.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor_checks.metadata, "version", not_there)
    found = doctor_checks.check_pyspark()
    assert (found.status, found.remedy) == ("warn", "pip install 'foretide[spark]'")


def test_spark_that_does_not_start_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    from foretide.spark.session import probe

    def fails() -> Any:
        raise RuntimeError("Java gateway process exited\nand much more")

    monkeypatch.setattr(probe, "probe_spark", fails)
    found = doctor_checks.check_workers()
    assert (found.status, found.found) == ("fail", "Java gateway process exited")


@pytest.mark.parametrize(("free_gib", "status"), [(20, "ok"), (3, "warn"), (0.1, "fail")])
@pytest.mark.usefixtures("home")
def test_disk(monkeypatch: pytest.MonkeyPatch, free_gib: float, status: str) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(doctor_checks.shutil, "disk_usage", lambda folder: usage(0, 0, free_gib * 2**30))
    assert doctor_checks.check_disk().status == status


@pytest.mark.parametrize(("limit_gib", "status"), [(1.5, "warn"), (0.5, "fail")])
def test_the_limit_of_a_container_counts(monkeypatch: pytest.MonkeyPatch, limit_gib: float, status: str) -> None:
    monkeypatch.setattr(doctor_checks, "_cgroup_limit", lambda: int(limit_gib * 2**30))
    assert doctor_checks.check_memory().status == status


def test_temporary_files_need_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks.tempfile, "gettempdir", lambda: "/dev/null/none")
    found = doctor_checks.check_temporary()
    assert found.status == "fail" and "TMPDIR" in found.remedy


def test_a_port_that_is_taken_is_a_warning() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert doctor_checks.check_port(taken.getsockname()[1]).status == "warn"


def test_extras_that_are_not_installed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks, "EXTRAS", {"service": ("typer",), "kafka": ("no_such_module",)})
    monkeypatch.setattr(extras, "EXTRAS", doctor_checks.EXTRAS)
    found = doctor_checks.check_extras()
    assert (found.status, found.found) == ("warn", "installed: service; not: kafka")
    assert "foretide[kafka]" in found.remedy


def test_a_store_that_is_not_there_yet_is_not_made(home: Path) -> None:
    assert doctor_checks.check_store().status == "ok"
    assert list(home.iterdir()) == []


def test_a_store_that_cannot_be_read_is_a_failure(home: Path) -> None:
    (home / "runs.db").write_text("this is no database, whatever its name says; " * 100)
    assert doctor_checks.check_store().status == "fail"


def test_a_check_that_breaks_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def check_python() -> Check:
        raise OSError("no")

    monkeypatch.setattr(doctor_checks, "check_python", check_python)
    assert next(all_checks(quick=True)) == Check("python", "fail", "OSError: no")


@pytest.mark.usefixtures("home")
def test_as_json_it_is_a_list_of_checks_and_whether_all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(app, ["doctor", "--quick", "--json"])
    found = json.loads(result.stdout)
    assert [check["name"] for check in found["checks"]][:3] == ["python", "java", "pyspark"]
    assert "spark workers" not in {check["name"] for check in found["checks"]}
    assert result.exit_code == (0 if found["ok"] else 1)


@pytest.mark.usefixtures("home")
def test_a_failure_makes_the_exit_status_1_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks, "check_java", lambda: Check("java", "fail", "none", "install it"))
    result = CliRunner().invoke(app, ["doctor", "--quick"])
    assert result.exit_code == 1
    assert "failed: java" in result.stdout
    assert "install it" in result.stdout
