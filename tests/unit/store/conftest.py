"""What the tests of the store share: a small topology, and measurements of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from foretide.records import Measurement
from foretide.store import RunSpec
from foretide.topology import Topology, flow


def line() -> Topology:
    job = flow("line")
    job.source("in").operator("a", execution_s=0.01, replicas=(1, 4)).operator("b", execution_s=0.01, replicas=(1, 4))
    return job.build()


def measurement_at(end_s: float, arrived: float = 100.0, duration_s: float = 1.0) -> Measurement:
    return Measurement(
        layout=line().layout,
        ended_at_s=end_s,
        duration_s=duration_s,
        arrived=np.array([arrived]),
        passed=np.array([arrived, arrived]),
        processed=np.array([arrived, arrived]),
        queued=np.zeros(2),
        busy_s=np.array([0.5, 0.5]),
        replicas=np.array([1, 1]),
    )


@pytest.fixture(scope="session")
def spec() -> RunSpec:
    return RunSpec(topology=line(), policy="pasps", started_at_s=0.0)


@pytest.fixture(scope="session")
def measured() -> Callable[..., Measurement]:
    """Return the function that makes a measurement that ended at an instant."""
    return measurement_at
