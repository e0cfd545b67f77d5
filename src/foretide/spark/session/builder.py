"""A Spark session fit for Foretide."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from foretide.spark.batches.state_settings import ROCKSDB
from foretide.spark.inputs.registration import register_sources
from foretide.spark.settings import PRELOAD_VARIABLE

__all__ = ["WORKER_SOCKETS", "chosen_python", "create_session", "session_settings", "worker_python"]

_SCRIPT = Path(__file__).with_name("worker_python.sh")
_WORKER_PYTHON = "spark.pyspark.python"
# Tells the script which interpreter it stands for.
_PYTHON_VARIABLE = "FORETIDE_PYTHON"
# Over TCP, small messages wait some 40 ms for an acknowledgement, once in every task. Paths of sockets must be short,
# and those of a container's own folder are not.
WORKER_SOCKETS = {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": "/tmp"}


def session_settings(preload: Sequence[str] = ()) -> dict[str, str]:
    """Return the Spark settings that Foretide relies on, for those who make their session themselves.

    Parameters
    ----------
    preload : sequence of str
        Modules that workers import before they are forked, for instance those of the operators.
    """
    return {
        # The interpreter that runs the driver has the packages; the first python3 on a PATH may not.
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        "spark.python.daemon.module": "foretide.spark.pool.daemon",
        f"spark.executorEnv.{PRELOAD_VARIABLE}": ",".join(preload),
        # Stages share the executors fairly, each in a pool of its own.
        "spark.scheduler.mode": "FAIR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        # Each batch is planned afresh, about once a second; adaptive execution would cost more than it finds.
        "spark.sql.adaptive.enabled": "false",
        **ROCKSDB,
        **(WORKER_SOCKETS if os.name == "posix" else {}),
    }


def worker_python(master: str) -> str:
    """Return what starts Python in Spark's processes.

    Spark puts archives in front of their path, without bytecode: each process would spend most of a second on compiling
    PySpark. Where all of them run on this machine, with the PySpark that is installed beside Foretide, a script leaves
    the archives out.
    """
    installed = Path(pyspark.__file__).parent
    is_own = installed.parent == Path(sysconfig.get_path("purelib"))
    is_used = installed == Path(os.environ.get("SPARK_HOME") or installed)
    if master.startswith("local") and is_own and is_used and os.access(_SCRIPT, os.X_OK):
        return str(_SCRIPT)
    return sys.executable


def chosen_python(master: str, settings: Mapping[str, str]) -> str | None:
    """Return the interpreter that the user wants on executors; None where that is left to us.

    It is what ``spark.pyspark.python`` says; on clusters also the variable ``PYSPARK_PYTHON``, and the setting in
    ``spark-defaults.conf``. On this machine those two often name a ``python3`` without the packages.
    """
    if _WORKER_PYTHON in settings:
        return settings[_WORKER_PYTHON]
    if master.startswith("local"):
        return None
    variable = os.environ.get("PYSPARK_PYTHON", "")
    if variable not in ("", str(_SCRIPT), sys.executable):  # else it is what an earlier session has put there
        return variable
    return _default_setting(_WORKER_PYTHON)


def _default_setting(name: str) -> str | None:
    """Return a setting of ``spark-defaults.conf``, where there is one."""
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    file = Path(os.environ.get("SPARK_CONF_DIR") or Path(home, "conf")) / "spark-defaults.conf"
    if not file.is_file():
        return None
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    found = (re.split(r"[\s=]+", line, maxsplit=1) for line in lines if line and not line.startswith("#"))
    return {key: value[0].strip() for key, *value in found if value}.get(name)


def create_session(
    master: str = "local[*]",
    name: str = "foretide",
    *,
    preload: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start a Spark session with Foretide's settings, its data sources registered.

    Parameters
    ----------
    master : str
        Where to run, such as ``local[*]`` or ``local-cluster[2,2,1024]``.
    name : str
        The application's name.
    preload : sequence of str
        Modules that workers import before they are forked.
    settings : mapping of str to str
        Further Spark settings, which win.
    """
    os.environ["PYSPARK_DRIVER_PYTHON"] = os.environ[_PYTHON_VARIABLE] = sys.executable
    os.environ["PYSPARK_PYTHON"] = python = chosen_python(master, settings or {}) or worker_python(master)
    os.environ[PRELOAD_VARIABLE] = ",".join(preload)
    builder = SparkSession.builder.master(master).appName(name)
    defaults = {
        _WORKER_PYTHON: python,
        f"spark.executorEnv.{_PYTHON_VARIABLE}": sys.executable,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1" if master.startswith("local") else None,
        "spark.driver.bindAddress": "127.0.0.1" if master.startswith("local") else None,
    }
    for key, value in {**session_settings(preload), **defaults, **(settings or {})}.items():
        if value is not None:
            builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    register_sources(session)
    return session
