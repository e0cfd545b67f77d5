"""Knobs: the settings with which a planner trades replicas for waiting, and the values that are worth trying."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, TypeAlias

from foretide.errors import ConfigError

__all__ = ["UTILISATION", "Axis", "Knob", "Scale", "Unit", "with_grids"]

#: In what the values of an axis are given, so that one grid suits every input; see `Scale.setting`.
Unit: TypeAlias = Literal["", "intervals", "replica-intervals", "peak", "promise"]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """What the values of a knob are relative to.

    Parameters
    ----------
    td_s : float
        Seconds between two decisions.
    execution_s : float
        The time of one event, mean over the operators.
    peak : mapping of str to int
        The replicas of each operator that the input's peak needs.
    least_p95_s : float, optional
        The .95 quantile of latencies that no number of slots can avoid; unset where operators do not share slots.
    """

    td_s: float
    execution_s: float
    peak: Mapping[str, int]
    least_p95_s: float | None = None

    def setting(self, value: Any, unit: Unit) -> Any:
        """Return the setting that a value stands for.

        - ``intervals``: seconds, in intervals between two decisions;
        - ``replica-intervals``: events, in those that a replica finishes in an interval;
        - ``peak``: replicas of each operator, as a part of those that the peak needs, rounded up;
        - ``promise``: a promise about the .95 quantile, in least possible ones.

        >>> scale = Scale(td_s=5.0, execution_s=0.01, peak={"a": 4, "b": 10})
        >>> scale.setting(2, "intervals"), scale.setting(0.5, "replica-intervals"), scale.setting(0.65, "peak")
        (10.0, 250.0, {'a': 3, 'b': 7})
        """
        if unit == "intervals":
            return value * self.td_s
        if unit == "replica-intervals":
            return value * self.td_s / self.execution_s
        if unit == "promise":
            assert self.least_p95_s is not None, "knobs that do not suit the system are not turned"
            return f"p95<{1e3 * value * self.least_p95_s:.0f}ms"
        if unit == "peak":
            return {operator: max(1, math.ceil(value * count - 1e-9)) for operator, count in self.peak.items()}
        return value


@dataclass(frozen=True)
class Axis:
    """A setting of a planner, or with the prefix ``guards.`` one of the guards around it, and values to try.

    >>> Axis("guards.utilisation_target", (1.0, 0.8)).name
    'utilisation_target'
    """

    setting: str
    values: tuple[Any, ...]
    unit: Unit = ""

    @property
    def name(self) -> str:
        """The setting without its prefix."""
        return self.setting.removeprefix("guards.")


class Knob:
    """Axes that are turned together: every combination of their values is tried.

    >>> knob = Knob(Axis("limit", (1, 10)), Axis("cooldown_s", (0, 60)))
    >>> knob.points()[1]
    {'limit': 1, 'cooldown_s': 60}
    """

    def __init__(self, *axes: Axis) -> None:
        self.axes = axes

    def points(self) -> list[dict[str, Any]]:
        """Return every combination, each as values by the names of the axes."""
        names = [axis.name for axis in self.axes]
        return [dict(zip(names, values, strict=True)) for values in product(*(axis.values for axis in self.axes))]

    def suits(self, scale: Scale) -> bool:
        """Return whether it does anything: a promise needs slots that are shared."""
        return scale.least_p95_s is not None or all(axis.unit != "promise" for axis in self.axes)

    def settings(self, point: Mapping[str, Any], scale: Scale) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the settings of the planner and of the guards that a combination stands for."""
        planner: dict[str, Any] = {}
        guards: dict[str, Any] = {}
        for axis in self.axes:
            (planner if axis.name == axis.setting else guards)[axis.name] = scale.setting(point[axis.name], axis.unit)
        return planner, guards


def with_grids(planner: str, knobs: Sequence[Knob], grids: Mapping[str, Sequence[Any]]) -> tuple[Knob, ...]:
    """Return the knobs to turn: all of them, or those that `grids` gives values for, by the names of axes.

    Raises
    ------
    ConfigError
        When the planner has no such knob, or there is no value for it.

    Examples
    --------
    >>> [knob] = with_grids("ds2", (UTILISATION,), {"utilisation_target": [0.9]})
    >>> knob.points()
    [{'utilisation_target': 0.9}]
    """
    known = [axis.name for knob in knobs for axis in knob.axes]
    for name, values in grids.items():
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            expected = f"a knob of {planner!r}: {', '.join(known)}" if known else f"no knob, since {planner!r} has none"
            remedy = f"did you mean {close[0]!r}?" if close else ""
            raise ConfigError("--grid", expected=expected, got=repr(name), remedy=remedy)
        if not values:
            raise ConfigError("--grid", expected=f"values for {planner}.{name}, such as 1,2,5", got="none")
    if not grids:
        return tuple(knobs)
    return tuple(
        Knob(*(replace(axis, values=tuple(grids.get(axis.name, axis.values))) for axis in knob.axes))
        for knob in knobs
        if any(axis.name in grids for axis in knob.axes)
    )


#: The knob of planners that size by load: how much of their time replicas may be busy; 1 is the plan as it is.
UTILISATION = Knob(Axis("guards.utilisation_target", (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)))
