"""What a benchmark of operators found out (SPEC P7), where it is kept, and whether a run drifts away from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from foretide.errors import ConfigError
from foretide.events import Event, EventSink
from foretide.records import Window
from foretide.store import default_store_path
from foretide.topology import Topology
from foretide.topology.script import without_name

__all__ = ["DriftWatch", "OperatorProfile", "Profile", "profile_path", "stored_profile"]

_SUFFIX = ".profile.json"


@dataclass(frozen=True)
class OperatorProfile:
    """What a benchmark found out about an operator.

    Parameters
    ----------
    execution_s : float
        Seconds that one event takes: the median over pieces, so that a slow start does not count.
    selectivity : mapping of str to float
        Events that each output gets per event taken.
    events : int
        Events that it was tried with.
    """

    execution_s: float
    selectivity: Mapping[str, float]
    events: int


@dataclass(frozen=True)
class Profile:
    """What a benchmark found out about a topology.

    Parameters
    ----------
    topology : str
        Its name.
    measured_at_s : float
        When, in seconds since the epoch.
    operators : mapping of str to OperatorProfile
        By operator; one that works on DataFrames is left out, since Spark runs it.
    """

    topology: str
    measured_at_s: float
    operators: Mapping[str, OperatorProfile]

    @property
    def execution_s(self) -> dict[str, float]:
        """Execution times by operator."""
        return {id: found.execution_s for id, found in self.operators.items()}

    def to_json(self) -> str:
        """Return it as a document."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> Profile:
        """Return what `to_json` wrote.

        Raises
        ------
        ConfigError
            When it is something else.
        """
        try:
            body = json.loads(text)
            operators = {id: OperatorProfile(**found) for id, found in body["operators"].items()}
            return cls(str(body["topology"]), float(body["measured_at_s"]), operators)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigError(
                where, expected="a profile in JSON", got=str(error), remedy="make it again with `foretide profile`"
            ) from error


def profile_path(named: str | Path) -> Path:
    """Return where the profile of a topology is kept: next to its file; of an application, with the recorded runs.

    >>> profile_path("examples/wordcount.py").name
    'wordcount.profile.json'
    >>> profile_path("jobs.py:hourly").name
    'jobs.hourly.profile.json'
    """
    file, name = without_name(named)
    if file.suffix or file.exists():
        return file.with_name(file.stem + (f".{name}" if name else "") + _SUFFIX)
    return default_store_path().parent / "profiles" / f"{named}{_SUFFIX}"


def stored_profile(named: str | Path, topology: Topology) -> Profile | None:
    """Return the profile that was stored for a topology; None without one, or when it is another topology's.

    Raises
    ------
    ConfigError
        When there is a file that is no profile.
    """
    path = profile_path(named)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return None
    found = Profile.from_json(text, str(path))
    known: Any = topology.layout.operator_index
    fits = found.topology == topology.name and all(operator in known for operator in found.operators)
    return found if fits else None


class DriftWatch:
    """Reports when the measured execution time of an operator leaves what its benchmark said, and when it is back.

    The loop itself always plans from what it measures; this is for people, who may want to look why.

    Parameters
    ----------
    expected_s : mapping of str to float
        Execution times by operator.
    events : EventSink
        Hears ``profile.drift`` and ``profile.back``.
    factor : float
        How many times slower, or faster, is too much.
    """

    def __init__(self, expected_s: Mapping[str, float], events: EventSink, factor: float = 2.0) -> None:
        self._expected_s, self._events, self._factor = expected_s, events, factor
        self._drifted: set[str] = set()

    def look(self, window: Window) -> None:
        """Compare the execution times of a window."""
        for operator, expected_s in self._expected_s.items():
            column = window.layout.operator_index.get(operator)
            if column is None or not window.processed[column] > 0:
                continue
            measured_s = float(window.execution_s[column])
            ratio = measured_s / expected_s if expected_s > 0 else 1.0
            off = not 1 / self._factor <= ratio <= self._factor
            if off != (operator in self._drifted):
                self._report(window.ended_at_s, operator, measured_s, expected_s, off=off)

    def _report(self, at_s: float, operator: str, measured_s: float, expected_s: float, *, off: bool) -> None:
        (self._drifted.add if off else self._drifted.discard)(operator)
        kind, words = ("profile.drift", "has left") if off else ("profile.back", "is back near")
        message = (
            f"operator {operator!r}: execution time {words} its benchmark: {measured_s * 1000:.3g} ms, "
            f"expected {expected_s * 1000:.3g} ms"
        )
        data = {"operator": operator, "measured_s": measured_s, "expected_s": expected_s}
        self._events.emit(Event(at_s, kind, message, "warning" if off else "info", data))
