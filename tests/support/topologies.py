"""Topologies that many tests are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from foretide.topology import Topology, flow

__all__ = ["Step", "line", "step"]


@dataclass(frozen=True)
class Step:
    """One operator of a line."""

    id: str
    function: Callable[..., Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def step(id: str, function: Callable[..., Any] | None = None, **options: Any) -> Step:
    """Return an operator of a line with what is declared of it alone."""
    return Step(id, function, options)


def line(
    *operators: str | float | Step,
    name: str = "line",
    source: Mapping[str, Any] | None = None,
    sink: Mapping[str, Any] | None = None,
    **shared: Any,
) -> Topology:
    """Return source "in" -> operator -> operator ... (-> sink "out").

    An operator is a step, a name, or its execution time in seconds; those given by their times are called O1, O2 and
    so on. What is `shared` is declared of every operator, 1 to 8 replicas unless it says otherwise. `source` and
    `sink` are a kind with its options; without `sink` there is none.
    """
    job = flow(name)
    stream = job.source("in", **(source or {}))
    for number, given in enumerate(operators, start=1):
        each = _as_step(given, number)
        stream = stream.operator(each.id, each.function, **{"replicas": (1, 8), **shared, **each.options})
    if sink is not None:
        stream.sink("out", **sink)
    return job.build()


def _as_step(given: str | float | Step, number: int) -> Step:
    if isinstance(given, Step):
        return given
    return step(given) if isinstance(given, str) else step(f"O{number}", execution_s=given)
