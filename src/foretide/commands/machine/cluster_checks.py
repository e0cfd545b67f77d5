"""The checks of ``foretide doctor --master``: whether a cluster can run topologies, and which. None of them raises."""

from __future__ import annotations

import platform
import re
import socket
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from foretide._version import __version__
from foretide.commands.machine.doctor_checks import Check

if TYPE_CHECKING:
    from foretide.spark.pool.sight import Sight

__all__ = ["cluster_checks"]

_CONNECT_S = 5.0
_PYTHON = platform.python_version()
_ENVIRONMENT = (
    "install this version on the workers, or send it along: --conf spark.archives=environment.tar.gz#environment "
    "--conf spark.pyspark.python=./environment/bin/python"
)


def cluster_checks(master: str, folder: str, settings: Mapping[str, str]) -> Iterator[Check]:
    """Yield what is found on a cluster: its executors, what runs there, and whether they see `folder`."""
    if unreachable := _unreachable(master):
        remedy = "start it, or correct --master"
        yield Check("master", "fail", unreachable, remedy)
        return
    try:
        from foretide.spark.session.probe import probe_cluster

        probe = probe_cluster(master, folder, settings)
    except Exception as error:
        yield _failed(error)
        return
    sights = probe.sights
    names = ", ".join(str(sight) for sight in sights[:8])
    yield Check("executors", "ok", f"{len(sights)} answered within {probe.seconds:.0f} s: {names}")
    yield _versions(sights)
    yield _shared(sights, folder)


def _unreachable(master: str) -> str:
    """Return what is wrong with a standalone master's address; others are Spark's own to find."""
    places = re.findall(r"([^/,:]+):(\d+)", master.removeprefix("spark://")) if master.startswith("spark://") else []
    problems = []
    for host, port in places:
        try:
            with socket.create_connection((host, int(port)), timeout=_CONNECT_S):
                return ""
        except OSError as error:
            problems.append(f"{host}:{port}: {error.strerror or error}")
    return "; ".join(problems)


def _failed(error: Exception) -> Check:
    from foretide.spark.pool.sight import other_python

    text = str(error)
    if re.search(r"No module named '?(foretide|pyspark|pyarrow)", text):
        return Check("executors", "fail", "their Python lacks Foretide or what it needs", _ENVIRONMENT)
    if other := other_python(text):
        return Check("executors", "fail", f"they have Python {other}", f"here: {_PYTHON}; {_ENVIRONMENT}")
    found = next((line for line in text.splitlines() if "Caused by" in line or "Exception: " in line), text)
    return Check("executors", "fail", found.strip()[:300] or type(error).__name__, "see Spark's log on the workers")


def _versions(sights: tuple[Sight, ...]) -> Check:
    here = _PYTHON, __version__
    odd = [sight for sight in sights if (sight.python, sight.foretide) != here]
    if not odd:
        return Check("environment", "ok", f"Python {here[0]} and Foretide {here[1]}, as here")
    found = "; ".join(f"executor {sight}: Python {sight.python}, Foretide {sight.foretide}" for sight in odd[:4])
    other_python = any(sight.python.split(".")[:2] != here[0].split(".")[:2] for sight in odd)
    serious = other_python or any(sight.foretide != here[1] for sight in odd)
    return Check("environment", "fail" if serious else "warn", found, f"here: {here[0]}, {here[1]}; {_ENVIRONMENT}")


def _shared(sights: tuple[Sight, ...], folder: str) -> Check:
    blind = [sight for sight in sights if sight.missing]
    if not blind:
        return Check("shared directory", "ok", f"executors see {folder}: everything runs with a --path there")
    return Check(
        "shared directory",
        "warn",
        f"{len(blind)} of {len(sights)} executors do not see {folder}: queued edges, state by key and Parquet files "
        "need another place",
        "give --path a directory that all mount; topologies of inline edges with sinks outside need none",
    )
