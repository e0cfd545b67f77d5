"""Spark's settings, looked at before executors are scaled: what is missing, and what that means."""

from __future__ import annotations

import re
from collections.abc import Mapping

from foretide.control.settings import ExecutorSettings
from foretide.events import Event, Severity

__all__ = ["check_session"]

# An executor looks as often as this whether all of its blocks have moved.
_INTERVAL = "spark.storage.decommission.replicationReattemptInterval"
# For so long a task waits for an executor that is near its data, while others are idle; up to a second is little.
_LOCALITY, _LOCALITY_DEFAULT, _LITTLE_MS = "spark.locality.wait", "3s", 1_000
_TIME = re.compile(r"(\d+)\s*(us|ms|s|m|min|h|d|)")
_MS = {"us": 0.001, "": 1, "ms": 1, "s": 1e3, "m": 6e4, "min": 6e4, "h": 3.6e6, "d": 8.64e7}


def check_session(
    spark: Mapping[str, str], master: str, cores: int, settings: ExecutorSettings, now_s: float
) -> list[Event]:
    """Return what Spark's settings keep from executors that come and go, as one event each.

    Parameters
    ----------
    spark : mapping of str to str
        Spark's settings.
    master : str
        Where executors come from.
    cores : int
        The task slots of an executor, 0 where nobody knows.
    settings : ExecutorSettings
        The bounds.
    now_s : float
        The instant.

    Examples
    --------
    >>> spark = {"spark.decommission.enabled": "true", "spark.locality.wait": "0s"}
    >>> [event.data["setting"] for event in check_session(spark, "yarn", 2, ExecutorSettings(), 0.0)]
    ['spark.storage.decommission.enabled']
    """
    room = _room(spark, cores, settings) if master.startswith("spark:") else []
    found = [*_leaving(spark, settings), *_coming(spark), *room]
    return [
        Event(now_s, "executors.settings", f"{key}: {words}", severity, {"setting": key})
        for key, words, severity in found
    ]


def _leaving(spark: Mapping[str, str], settings: ExecutorSettings) -> list[tuple[str, str, Severity]]:
    """Return what becomes of an executor that is released."""
    if not _is_on(spark, "spark.decommission.enabled"):
        words = (
            "expected true, got false: an executor that is released gets no more tasks and is killed when the jobs "
            f"that ran have ended, or after {settings.kill_after_s:g} s; what it has cached is lost and computed "
            "again. Set it, and spark.storage.decommission.enabled, to true"
        )
        return [("spark.decommission.enabled", words, "warning")]
    if _is_on(spark, "spark.storage.decommission.enabled"):
        if _INTERVAL in spark:
            return []
        words = "not set: an executor that has blocks stays for 30 s after it was released, and is paid for; 1s will do"
        return [(_INTERVAL, words, "info")]
    kept = "what it has cached is" if _is_on(spark, "spark.shuffle.service.enabled") else "its shuffle files are"
    words = (
        f"expected true, got false: an executor may leave in the midst of a batch; {kept} lost then and computed "
        "again. Set it to true"
    )
    return [("spark.storage.decommission.enabled", words, "warning")]


def _coming(spark: Mapping[str, str]) -> list[tuple[str, str, Severity]]:
    """Return what becomes of an executor that has come."""
    wait = spark.get(_LOCALITY, _LOCALITY_DEFAULT).strip()
    found = _TIME.fullmatch(wait.lower())
    if found is None or int(found[1]) * _MS[found[2]] <= _LITTLE_MS:
        return []
    words = (
        f"expected at most 1s, got {wait}: for so long an executor that has come gets no task of the batch under way, "
        "and in its first batch tasks wait for it while others are idle; 0s will do, with state 500ms"
    )
    return [(_LOCALITY, words, "info")]


def _room(spark: Mapping[str, str], cores: int, settings: ExecutorSettings) -> list[tuple[str, str, Severity]]:
    """Return what a standalone master would make of requests."""
    found: list[tuple[str, str, Severity]] = []
    if "spark.executor.cores" not in spark:
        words = "expected a number, got none: an executor takes all cores of a worker, and a worker has one at most"
        found.append(("spark.executor.cores", words, "warning"))
    most = spark.get("spark.cores.max")
    if most is None:
        words = "not set: the application starts with all cores of the cluster, until the first release"
        found.append(("spark.cores.max", words, "info"))
    elif cores and int(most) // cores < settings.maximum:
        words = (
            f"expected at least {cores * settings.maximum}, for {settings.maximum} executors of {cores} cores, got "
            f"{most}: no more than {int(most) // cores} will ever come"
        )
        found.append(("spark.cores.max", words, "warning"))
    return found


def _is_on(spark: Mapping[str, str], key: str) -> bool:
    return spark.get(key, "false").strip().lower() == "true"
