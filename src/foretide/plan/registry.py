"""Planners by name: those that come with Foretide, and those that other packages add."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from foretide.config import validated
from foretide.errors import ConfigError
from foretide.plan.base import Planner
from foretide.plan.planners.autoscale import Autoscale
from foretide.plan.planners.autoscale_plus import AutoscalePlus
from foretide.plan.planners.cba import Cba
from foretide.plan.planners.ds2 import Ds2
from foretide.plan.planners.flink import Flink
from foretide.plan.planners.foretide import Foretide
from foretide.plan.planners.incremental import Incremental
from foretide.plan.planners.keda import Keda
from foretide.plan.planners.optimal import Optimal
from foretide.plan.planners.pasps import PaSps
from foretide.plan.planners.presps import Presps
from foretide.plan.planners.rlearning import RLearning
from foretide.plan.planners.spea import Spea
from foretide.plan.planners.srea import Srea
from foretide.plan.planners.static import Static
from foretide.plan.planners.threshold import Threshold
from foretide.registry import Registry

__all__ = ["ENTRY_POINT_GROUP", "PLANNERS", "all_planners", "find_planner", "make_planner"]

#: The group under which another package announces planners, each a subclass of `Planner`.
ENTRY_POINT_GROUP = "foretide.planners"

_OWN: tuple[type[Planner], ...] = (
    Foretide,
    Static,
    Srea,
    Spea,
    Presps,
    PaSps,
    Autoscale,
    AutoscalePlus,
    Cba,
    Optimal,
    Incremental,
    RLearning,
    Ds2,
    Flink,
    Threshold,
    Keda,
)

#: Every planner that comes with Foretide, by name.
PLANNERS: Mapping[str, type[Planner]] = MappingProxyType({planner.name: planner for planner in _OWN})
_REGISTRY = Registry("planner", ENTRY_POINT_GROUP, PLANNERS, Planner)


def all_planners() -> Mapping[str, type[Planner]]:
    """Return every planner by name, those that other packages offer as entry points of ``foretide.planners`` too.

    >>> all_planners()["static"].needs_forecast
    False
    """
    return _REGISTRY.all


def find_planner(name: str) -> type[Planner]:
    """Return the planner class called `name`, ours or another package's.

    >>> find_planner("pasps").summary
    'forecast input and every queue upstream, spread down the DAG (PA-SPS)'
    """
    return _REGISTRY.find(name)


def make_planner(name: str, /, **settings: Any) -> Planner:
    """Return the planner called `name` with these settings.

    Raises
    ------
    ConfigError
        If there is no such planner, or a setting is unknown, missing or out of range.

    Examples
    --------
    >>> make_planner("static", replicas=4)
    Static(replicas=4, by_operator={})
    >>> make_planner("autoscale", beta=1.5)
    Traceback (most recent call last):
    foretide.errors.ConfigError: setting 'planner.autoscale.beta': expected less than or equal to 1, got 1.5
    """
    kind = find_planner(name)
    try:
        return validated(kind, settings, f"planner.{name}")
    except ConfigError as error:
        own = _raised_within(error)
        if own is None:
            raise
        raise own from error


def _raised_within(error: ConfigError) -> ConfigError | None:
    """Return the Foretide error that a planner raised while it was made, which pydantic wraps as a ValueError."""
    if not isinstance(error.__cause__, ValidationError):
        return None
    cause = error.__cause__.errors()[0].get("ctx", {}).get("error")
    return cause if isinstance(cause, ConfigError) else None
