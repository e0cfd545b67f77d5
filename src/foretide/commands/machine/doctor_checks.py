"""The checks of ``foretide doctor``, one function each; none of them raises."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from foretide.extras import EXTRAS, missing_modules

__all__ = ["Check", "Status", "all_checks", "java_version"]

Status = Literal["ok", "warn", "fail"]

_PYTHON, _JAVA, _PYSPARK = (3, 11), 17, (4, 2)
_SERVICE_PORT = 8740
_GIB = 2**30
# A batch of a topology with queued edges writes some megabytes; checkpoints and logs of a long run some gigabytes.
_DISK_FAIL, _DISK_WARN = _GIB // 2, 5 * _GIB
# The driver's JVM takes up to 1 GiB, each Python worker with pandas and Arrow about .1.
_MEMORY_FAIL, _MEMORY_WARN = _GIB, 2 * _GIB
_JAVA_REMEDY = "install Java 17 or newer: sudo apt-get install -y openjdk-17-jre-headless, or set JAVA_HOME"
_SPARK_REMEDY = "pip install 'foretide[spark]'"


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Parameters
    ----------
    name : str
        The thing.
    status : {"ok", "warn", "fail"}
        Whether it works, works with limits, or does not.
    found : str
        What is there.
    remedy : str
        What to do about it; empty if nothing is to be done.
    """

    name: str
    status: Status
    found: str
    remedy: str = ""


def all_checks(*, quick: bool = False) -> Iterator[Check]:
    """Yield one check after another; with `quick`, without starting Spark."""
    has_spark = find_spec("pyspark") is not None
    checks: list[Callable[[], Check]] = [
        check_python,
        *([check_java] if has_spark else []),
        check_pyspark,
        *([] if quick or not has_spark else [check_workers]),
        check_memory,
        check_temporary,
        check_disk,
        check_network,
        check_port,
        check_extras,
        check_store,
    ]
    for check in checks:
        try:
            yield check()
        except Exception as error:  # a check that fails is a finding too
            yield Check(check.__name__.removeprefix("check_"), "fail", f"{type(error).__name__}: {error}")


def check_python() -> Check:
    """Look at the interpreter."""
    found = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info >= _PYTHON:
        return Check("python", "ok", f"{found} at {sys.executable}")
    return Check("python", "fail", found, "use Python 3.11 or newer")


def check_java() -> Check:
    """Look for a Java that Spark runs on."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not Path(java).exists():
        return Check("java", "fail", f"none at {java}" if java else "none", _JAVA_REMEDY)
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    version = java_version(printed.stderr + printed.stdout)
    if version is None:
        return Check("java", "warn", f"{java} does not report its version", _JAVA_REMEDY)
    if version < _JAVA:
        return Check("java", "fail", f"version {version} at {java}", _JAVA_REMEDY)
    return Check("java", "ok", f"version {version} at {java}")


def java_version(text: str) -> int | None:
    """Return the major version in what ``java -version`` prints.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_402"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def check_pyspark() -> Check:
    """Look at the version of PySpark, without importing it."""
    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        version = "none"
    if version == "none" or tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < _PYSPARK:
        found = f"{version}; planning, forecasting and simulation work, running does not"
        return Check("pyspark", "warn", found, _SPARK_REMEDY)
    return Check("pyspark", "ok", version)


def check_workers() -> Check:
    """Start Spark and one of its Python workers."""
    try:
        from foretide.spark.session.probe import probe_spark

        seconds, python = probe_spark()
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        return Check("spark workers", "fail", reason[:200], "see the checks above, and Spark's log")
    return Check("spark workers", "ok", f"a Python {python} worker answered, {seconds:.0f} s with the start of Spark")


def check_memory() -> Check:
    """Look at the free memory and the cores."""
    try:
        import psutil
    except ImportError:
        return Check("memory", "warn", "not known without psutil", _SPARK_REMEDY)

    free = min(psutil.virtual_memory().available, _cgroup_limit())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found = f"{free / _GIB:.1f} GiB free, {cores} core{'s' if cores > 1 else ''}"
    if free < _MEMORY_FAIL:
        return Check("memory", "fail", found, "free some: Spark's driver alone takes 1 GiB")
    if free < _MEMORY_WARN:
        return Check("memory", "warn", found, "use few replicas, each of which is a process")
    return Check("memory", "ok", found)


def _cgroup_limit() -> int:
    """Return what a container may take; more than any machine has if there is no limit."""
    try:
        return int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 2**60


def check_temporary() -> Check:
    """Write into the folder for temporary files, which driver and local workers share."""
    folder = tempfile.gettempdir()
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix="foretide-"):
            return Check("temporary files", "ok", f"{folder} can be written")
    except OSError as error:
        found = f"{folder}: {(error.strerror or str(error)).lower()}"
        return Check("temporary files", "fail", found, "set TMPDIR to a folder that can be written")


def check_disk() -> Check:
    """Look at the free disk space for temporary files, results and runs; the least counts."""
    from foretide.store import default_store_path

    folders = {_existing(Path(folder)) for folder in (tempfile.gettempdir(), Path.cwd(), default_store_path().parent)}
    free, where = min((shutil.disk_usage(folder).free, str(folder)) for folder in folders)
    found = f"{free / _GIB:.1f} GiB free at {where}"
    if free < _DISK_FAIL:
        return Check("disk", "fail", found, "free some, or set TMPDIR and FORETIDE_STORE to another disk")
    if free < _DISK_WARN:
        return Check("disk", "warn", found, "long runs with queued edges need some gigabytes")
    return Check("disk", "ok", found)


def _existing(folder: Path) -> Path:
    return folder if folder.exists() else _existing(folder.parent)


def check_network() -> Check:
    """Listen on loopback: Spark's driver and its workers talk there."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
            listening.bind(("127.0.0.1", 0))
            return Check("loopback", "ok", "a port of 127.0.0.1 can be listened on")
    except OSError as error:
        return Check("loopback", "fail", str(error), "allow programs to listen on 127.0.0.1")


def check_port(port: int = _SERVICE_PORT) -> Check:
    """Check whether the service's port is free."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
        except OSError:
            remedy = "if that is not foretide serve already: foretide serve --port 0 takes a free one"
            return Check(f"port {port}", "warn", "taken", remedy)
    return Check(f"port {port}", "ok", "free for foretide serve")


def check_extras() -> Check:
    """List the extras that are installed."""
    absent = [extra for extra in EXTRAS if missing_modules(extra)]
    there = [extra for extra in EXTRAS if extra not in absent]
    found = f"installed: {', '.join(there) or 'none'}" + (f"; not: {', '.join(absent)}" if absent else "")
    remedy = f"if you need them: pip install 'foretide[{','.join(absent)}]'" if absent else ""
    return Check("extras", "warn" if absent else "ok", found, remedy)


def check_store() -> Check:
    """Read the store of runs; if there is none yet, the first run creates it."""
    from foretide.errors import ForetideError
    from foretide.store import RunStore, default_store

    where = default_store()
    if isinstance(where, Path) and not where.exists():
        folder = _existing(where.parent)
        if os.access(folder, os.W_OK):
            return Check("store of runs", "ok", f"none yet; the first run creates {where}")
        return Check("store of runs", "fail", f"{folder} cannot be written", "set FORETIDE_STORE to another file")
    try:
        with RunStore(where) as store:
            return Check("store of runs", "ok", f"{len(store.runs())} runs in {store.name}")
    except ForetideError as error:
        return Check("store of runs", "fail", str(error), "set FORETIDE_STORE to another one, or move it away")
