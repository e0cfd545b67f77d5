"""Predictive elasticity for stream processing on Apache Spark."""

from foretide._version import __version__

__all__ = ["__version__"]
