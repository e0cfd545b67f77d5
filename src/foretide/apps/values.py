"""The streams of values that the DABS applications work on (SPEC D6), and what a value costs.

Values are distributed evenly or by Zipf's law of skew 1.5. If the cost depends on the value, it is proportional to it.
Popular values are not the cheap ones: ranks are dealt over the values.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from foretide.apps.base import AppOptions, rate_field, store_field, trace_field
from foretide.traces import Payload
from foretide.traces.hashing import draw, pick
from foretide.traces.parts import zipf

__all__ = ["SKEW", "UNIFORM", "VALUES", "ZIPF", "DabsOptions", "cost_s", "draw_values", "mean_cost_s"]

Law: TypeAlias = Literal["uniform", "zipf"]

#: The number of values, which start at 0.
VALUES = 64
SKEW = 1.5

# Odd, so that every rank gets a different value.
_DEAL, _SHIFT = 37, 21


class DabsOptions(AppOptions):
    """Options of the DABS applications."""

    trace: str = trace_field("dabs_progressive")
    rate_scale: float = rate_field(0.4)
    speed: float = Field(default=5.0, gt=0, description="Seconds of the trace that pass in one second.")
    store: str = store_field("none")
    values: Law = Field(default="uniform", description="How values are distributed: uniform, or zipf with skew 1.5.")
    work_ms: float = Field(default=2.0, ge=0, le=1000, description="Milliseconds that an event costs on average.")

    @property
    def payload(self) -> str:
        """Values, distributed as set."""
        return f"{__name__}:{self.values.upper()}"


def draw_values(ids: NDArray[np.int64], seed: int, law: Law, lane: int = 0) -> NDArray[np.int64]:
    """Return a value for each event."""
    bits = draw(ids, seed, lane)
    ranks = pick(bits, VALUES) if law == "uniform" else zipf(bits, VALUES, SKEW).astype(np.int64)
    return (ranks * _DEAL + _SHIFT) % VALUES


def cost_s(value: int, mean_s: float) -> float:
    """Return what a value costs, if equally frequent values cost `mean_s` on average.

    >>> cost_s(0, 0.065), cost_s(63, 0.065)
    (0.002, 0.128)
    """
    return 2 * mean_s * (value + 1) / (VALUES + 1)


def mean_cost_s(law: Law, mean_s: float) -> float:
    """Return what an event costs on average, given the distribution of values.

    >>> round(mean_cost_s("uniform", 0.002), 6), round(mean_cost_s("zipf", 0.002), 6)
    (0.002, 0.001899)
    """
    weights = np.ones(VALUES) if law == "uniform" else 1.0 / np.arange(1, VALUES + 1) ** SKEW
    costs = [cost_s(int(rank * _DEAL + _SHIFT) % VALUES, mean_s) for rank in range(VALUES)]
    return float(np.average(costs, weights=weights))


def _uniform(ids: NDArray[np.int64], seed: int) -> list[pa.Array]:
    return [pa.array(draw_values(ids, seed, "uniform"))]


def _zipf(ids: NDArray[np.int64], seed: int) -> list[pa.Array]:
    return [pa.array(draw_values(ids, seed, "zipf"))]


_SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.int64())])

#: A value each.
UNIFORM = Payload("uniform values", _SCHEMA, _uniform)
ZIPF = Payload("zipf values", _SCHEMA, _zipf)
