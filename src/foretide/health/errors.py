"""Errors of worker health."""

from __future__ import annotations

from foretide.errors import ForecastError

__all__ = ["HealthModelError"]


class HealthModelError(ForecastError):
    """A model of workers cannot be used: it is of another version, damaged, or for other features."""
