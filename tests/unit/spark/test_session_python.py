"""Which Python Spark's processes are started with, and what they find on their path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from foretide.spark.session.builder import chosen_python, worker_python

HOME = Path(pyspark.__file__).parent


@pytest.fixture(autouse=True)
def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)


def path_of(places: str, home: str) -> str:
    """Return the PYTHONPATH that a process gets which is started with the script."""
    environment = {**os.environ, "FORETIDE_PYTHON": sys.executable, "SPARK_HOME": home, "PYTHONPATH": places}
    command = [worker_python("local[2]"), "-S", "-c", "import os; print(os.environ['PYTHONPATH'])"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    ("places", "home", "found"),
    [
        ("/spark/python/lib/pyspark.zip:/spark/jars/core.jar:/my code:/*", "/spark", "/my code:/*"),
        ("/spark/python/lib/pyspark.zip", "/spark", ""),
        ("/sparkling:/mine", "/spark", "/sparkling:/mine"),
        ("/spark/python/lib/pyspark.zip:/mine", "", "/spark/python/lib/pyspark.zip:/mine"),
    ],
)
def test_what_spark_puts_in_front_is_left_out(places: str, home: str, found: str) -> None:
    assert path_of(places, home) == found


def test_other_machines_start_the_interpreter_itself() -> None:
    assert worker_python("local-cluster[2,1,1024]").endswith("worker_python.sh")
    assert worker_python("spark://host:7077") == worker_python("yarn") == sys.executable


def test_another_spark_keeps_its_archives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(HOME))
    assert worker_python("local[2]") != sys.executable
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert worker_python("local[2]") == sys.executable


def test_archives_stay_where_they_are_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__file__", "/opt/spark/python/lib/pyspark.zip/pyspark/__init__.py")
    assert worker_python("local[2]") == sys.executable


def test_a_script_that_cannot_be_run_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plain = tmp_path / "worker_python.sh"
    plain.touch(mode=0o644)
    monkeypatch.setattr("foretide.spark.session.builder._SCRIPT", plain)
    assert worker_python("local[2]") == sys.executable


class TestChosenPython:
    """What the user says about the interpreter of executors."""

    @pytest.fixture(autouse=True)
    def nothing_said(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))

    def test_a_setting_wins_everywhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PYSPARK_PYTHON", "/other/python")
        for master in ("local[2]", "yarn"):
            assert chosen_python(master, {"spark.pyspark.python": "./environment/bin/python"}) == (
                "./environment/bin/python"
            )

    def test_on_a_cluster_the_variable_and_the_defaults_are_heard(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        assert chosen_python("yarn", {}) is None
        (tmp_path / "spark-defaults.conf").write_text(
            "# one\nspark.ui.enabled\nspark.pyspark.python   /packed/python\n"
        )
        assert chosen_python("yarn", {}) == "/packed/python"
        monkeypatch.setenv("PYSPARK_PYTHON", "/other/python")
        assert chosen_python("yarn", {}) == "/other/python"
        assert chosen_python("local[2]", {}) is None

    @pytest.mark.parametrize("put", [sys.executable, worker_python("local[2]")])
    def test_what_an_earlier_session_has_put_there_is_nobodys_choice(
        self, monkeypatch: pytest.MonkeyPatch, put: str
    ) -> None:
        monkeypatch.setenv("PYSPARK_PYTHON", put)
        assert chosen_python("yarn", {}) is None
