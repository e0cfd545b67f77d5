"""Health policies by name, those of other packages included."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from foretide.config import validated
from foretide.health.policies.base import HealthPolicy
from foretide.health.policies.peers import PeersPolicy
from foretide.health.policies.predicted_slowdown import PredictedSlowdownPolicy
from foretide.health.policies.prediction_error import PredictionErrorPolicy
from foretide.registry import Registry

__all__ = ["HEALTH_POLICIES", "make_health_policy"]

_BUILT_IN: tuple[type[HealthPolicy], ...] = (PeersPolicy, PredictionErrorPolicy, PredictedSlowdownPolicy)
#: The built-in policies by name.
HEALTH_POLICIES: Mapping[str, type[HealthPolicy]] = MappingProxyType({policy.name: policy for policy in _BUILT_IN})
_REGISTRY: Registry[HealthPolicy] = Registry("health policy", "foretide.health_policies", HEALTH_POLICIES, HealthPolicy)


def make_health_policy(name: str, settings: Mapping[str, Any] | None = None) -> HealthPolicy:
    """Return the policy called `name`, with these settings.

    Other packages offer theirs as entry points of the group ``foretide.health_policies``.

    >>> make_health_policy("peers", {"factor": 4}).factor
    4.0
    >>> make_health_policy("pears")
    Traceback (most recent call last):
    ...
    foretide.errors.ConfigError: setting 'health policy': expected ... got 'pears'; did you mean 'peers'?
    """
    return validated(_REGISTRY.find(name), settings or {}, f"health.{name}")
