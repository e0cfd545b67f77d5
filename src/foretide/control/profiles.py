"""What a benchmark of operators found out (SPEC P7), and where it is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from foretide.errors import ConfigError
from foretide.store import default_store_path
from foretide.topology import Topology

__all__ = ["OperatorProfile", "Profile", "profile_path", "stored_profile"]

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
                where, expected="a profile in JSON", got=str(error), remedy="make it anew with `foretide profile`"
            ) from error


def profile_path(named: str | Path) -> Path:
    """Return where the profile of a topology is kept: beside its file; of an application, with the recorded runs.

    >>> profile_path("examples/wordcount.py").name
    'wordcount.profile.json'
    """
    file = Path(named)
    if file.suffix or file.exists():
        return file.with_name(file.stem + _SUFFIX)
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
