"""Modules of benchmarks/, which is not a package, for tests of what benchmarks share."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

__all__ = ["BENCHMARKS", "benchmark_module"]

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def benchmark_module(name: str) -> ModuleType:
    """Return a module of benchmarks/ by name."""
    if str(BENCHMARKS) not in sys.path:
        # Last, so that a benchmark named like an installed package hides nothing.
        sys.path.append(str(BENCHMARKS))
    return importlib.import_module(name)
