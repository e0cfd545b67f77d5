"""What tests on a cluster in namespaces begin with: they need root, and may be left out without it, or fail."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest
from benchmark_modules import benchmark_module

__all__ = ["needs_clusters"]


def needs_clusters(missing: str | None = None, variables: Mapping[str, str] = os.environ) -> pytest.MarkDecorator:
    """Leave tests out where this machine lacks something; with ``CI`` set they run, and say what it is as they fail."""
    clusters: Any = benchmark_module("standalone_cluster")
    reason = clusters.missing_for_clusters() if missing is None else missing
    return pytest.mark.skipif(bool(reason) and not variables.get("CI"), reason=reason)
