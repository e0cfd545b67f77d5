"""The groupings by name."""

from __future__ import annotations

__all__ = ["GROUPINGS", "grouping_from_state", "make_grouping"]

from collections.abc import Mapping
from inspect import signature
from types import MappingProxyType
from typing import Any

from foretide.errors import ConfigError
from foretide.grouping.all import All
from foretide.grouping.base import Grouping
from foretide.grouping.direct import Direct
from foretide.grouping.dynamic import Dynamic
from foretide.grouping.fields import Fields
from foretide.grouping.global_ import Global
from foretide.grouping.load_aware import LoadAware
from foretide.grouping.osg import Osg
from foretide.grouping.partial_key import PartialKey
from foretide.grouping.shuffle import Shuffle

_ALL: tuple[type[Grouping], ...] = (Shuffle, Fields, All, Global, Direct, PartialKey, LoadAware, Dynamic, Osg)

GROUPINGS: Mapping[str, type[Grouping]] = MappingProxyType({kind.name: kind for kind in _ALL})
"""Every grouping by its name."""


def make_grouping(name: str, replicas: int, **options: Any) -> Grouping:
    """Return the grouping called `name` over `replicas` replicas.

    >>> make_grouping("dynamic", 3, weights=[7, 3, 2]).weights
    (7.0, 3.0, 2.0)
    >>> make_grouping("random", 3)
    Traceback (most recent call last):
    foretide.errors.ConfigError: setting 'grouping': expected one of shuffle, fields, all, ..., got 'random'

    Raises
    ------
    ConfigError
        When there is no such grouping, when it has no such option, or when a value does not fit.
    """
    kind = _find(name)
    known = [option for option in signature(kind).parameters if option != "replicas"]
    for option in options:
        if option not in known:
            expected = f"one of {', '.join(known)}" if known else "no options"
            raise ConfigError(f"grouping.{name}.{option}", expected=expected, got=repr(option))
    return kind(replicas, **options)


def grouping_from_state(state: Mapping[str, Any]) -> Grouping:
    """Return the grouping that a state describes, of whatever kind.

    >>> grouping_from_state(make_grouping("shuffle", 4).state())
    Shuffle(replicas=4)
    """
    return _find(state.get("grouping", "")).from_state(state)


def _find(name: str) -> type[Grouping]:
    try:
        return GROUPINGS[name]
    except (KeyError, TypeError) as error:
        raise ConfigError("grouping", expected=f"one of {', '.join(GROUPINGS)}", got=repr(name)) from error
