"""Changing a topology from the command line: initial replicas, and what its traces replay. Starts no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from foretide.errors import ConfigError
from foretide.topology import Source, Topology
from foretide.traces.plan import TracePlan

__all__ = ["TraceOverrides", "parse_replicas", "with_replicas", "with_trace_options"]

_EXAMPLE = "'split=2,count=3'"
_TRACE = "trace"


@dataclass(frozen=True)
class TraceOverrides:
    """What to replay instead of what the topology declares; None leaves an option as it is.

    Parameters
    ----------
    trace : str
        The name of a shipped trace, or the path of a CSV file.
    speed, rate_scale : float
        How fast trace time passes, and by what its rates are multiplied.
    payload : str
        What the events carry.
    seed : int
        Seed of the events.
    """

    trace: str | None = None
    speed: float | None = None
    rate_scale: float | None = None
    payload: str | None = None
    seed: int | None = None

    def given(self) -> dict[str, Any]:
        """Return the options that were given; the path of a trace becomes absolute, since readers run elsewhere."""
        values = {name: value for name, value in asdict(self).items() if value is not None}
        if self.trace is not None and Path(self.trace).is_file():
            values["trace"] = str(Path(self.trace).absolute())
        return values


def parse_replicas(text: str | None) -> dict[str, int]:
    """Read replicas by operator.

    >>> parse_replicas("split=2, count=3")
    {'split': 2, 'count': 3}

    Raises
    ------
    ConfigError
        When the text is not a list of ``operator=number``, or names an operator twice.
    """
    replicas: dict[str, int] = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        operator, equals, number = (piece.strip() for piece in part.partition("="))
        if not (operator and equals and number.isdecimal()):
            raise ConfigError("--replicas", expected=f"operator=number, such as {_EXAMPLE}", got=repr(part.strip()))
        if operator in replicas:
            raise ConfigError("--replicas", expected=f"{operator!r} once", got="twice", remedy="leave one out")
        replicas[operator] = int(number)
    return replicas


def with_replicas(topology: Topology, replicas: Mapping[str, int]) -> Topology:
    """Return the topology with other initial replicas.

    >>> from foretide.topology import flow
    >>> job = flow("line")
    >>> _ = job.source("in").operator("count", replicas=(1, 8))
    >>> with_replicas(job.build(), {"count": 3}).initial_replicas.tolist()
    [3]

    Raises
    ------
    ConfigError
        When an operator is unknown, or a number is out of its bounds.
    """
    for id, count in replicas.items():
        if id not in topology.layout.operator_index:
            known = ", ".join(topology.layout.operators) or "none"
            raise ConfigError("--replicas", expected=f"an operator among {known}", got=repr(id))
        bounds = topology.operator(id).replicas
        if not bounds.minimum <= count <= bounds.maximum:
            raise ConfigError(
                f"--replicas, operator {id!r}",
                expected=f"between {bounds.minimum} and {bounds.maximum} replicas",
                got=count,
                remedy="choose another number, or change replicas= of the operator",
            )
    operators = tuple(
        replace(operator, replicas=replace(operator.replicas, initial=replicas[operator.id]))
        if operator.id in replicas
        else operator
        for operator in topology.operators
    )
    return replace(topology, operators=operators)


def with_trace_options(topology: Topology, overrides: TraceOverrides) -> Topology:
    """Return the topology with other options for its traces, checked; other kinds of source are left alone.

    Raises
    ------
    ConfigError
        When an option was given and no source is of kind ``trace``, or a value is not usable.
    TraceError
        When there is no such trace.
    """
    given = overrides.given()
    if given and not any(source.connector.kind == _TRACE for source in topology.sources):
        flag = "--" + next(iter(given)).replace("_", "-")
        kinds = ", ".join(f"{source.id!r} of kind {source.connector.kind!r}" for source in topology.sources)
        raise ConfigError(
            flag, expected="a source of kind 'trace'", got=kinds, remedy=f"leave {flag} out, or declare such a source"
        )
    sources = tuple(_changed(source, given) for source in topology.sources)
    return replace(topology, sources=sources)


def _changed(source: Source, given: Mapping[str, Any]) -> Source:
    if source.connector.kind != _TRACE:
        return source
    # The option may be written rate_scale or rateScale: the given one replaces either.
    replaced = {_plain(name) for name in given}
    kept = {name: value for name, value in source.connector.options.items() if _plain(name) not in replaced}
    options = {**kept, **given}
    TracePlan.of_source(source.id, options).checked()
    return replace(source, connector=replace(source.connector, options=options))


def _plain(option: str) -> str:
    return option.replace("_", "").lower()
