"""The partitions of the logs that operators read, where a planner is to keep to their number."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

import numpy as np
from pydantic import BeforeValidator

from foretide.errors import ConfigError
from foretide.plan.base import Situation
from foretide.records import Floats

__all__ = ["Partitions", "limit_note", "partition_counts"]

# As many operators as a note names; the terms hold the rest.
_NAMED = 5


def _checked(given: Any) -> Any:
    numbers = given.values() if isinstance(given, Mapping) else () if given is None else (given,)
    if not all(isinstance(number, int) and number >= 1 for number in numbers):
        raise ValueError("a whole number from 1 on for all operators, or one for each, such as {read = 12}")
    return given


#: One number for all operators, or numbers by operator; None where they are no limit.
Partitions: TypeAlias = Annotated[int | dict[str, int] | None, BeforeValidator(_checked)]


def partition_counts(partitions: int | Mapping[str, int] | None, situation: Situation, setting: str) -> Floats:
    """Return the partitions of the log that each operator reads; infinity where no number is given.

    Raises
    ------
    ConfigError
        When an operator is named that the topology does not have.
    """
    operators = situation.window.layout.operators
    if not isinstance(partitions, Mapping):
        return np.full(len(operators), np.inf if partitions is None else float(partitions))
    unknown = sorted(set(partitions) - set(operators))
    if unknown:
        close = difflib.get_close_matches(unknown[0], operators, n=1)
        raise ConfigError(
            f"{setting}.{unknown[0]}",
            expected=f"an operator of topology {situation.topology.name!r}",
            got=unknown[0],
            remedy=f"did you mean {close[0]!r}?" if close else f"its operators are {', '.join(operators[:10])}",
        )
    return np.array([float(partitions.get(operator, np.inf)) for operator in operators])


def limit_note(situation: Situation, wanted: Floats, limit: Floats, what: str = "partitions") -> tuple[str, ...]:
    """Return a note that names the operators which want more replicas than their limit, or nothing."""
    operators = situation.window.layout.operators
    held = np.flatnonzero(wanted > limit)
    if not held.size:
        return ()
    words = [f"{operators[at]} {wanted[at]:g} -> {limit[at]:g}" for at in held[:_NAMED]]
    more = f" and {held.size - _NAMED} more" if held.size > _NAMED else ""
    return (f"no more replicas than {what}: {', '.join(words)}{more}",)
