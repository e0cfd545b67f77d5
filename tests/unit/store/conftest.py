"""What the tests of the store share: a small topology, and measurements of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stores import TOPOLOGY, measurement_at

from foretide.events import EventLog
from foretide.records import Measurement
from foretide.store import RunSpec


@pytest.fixture(scope="session")
def spec() -> RunSpec:
    return RunSpec(topology=TOPOLOGY, policy="pasps", started_at_s=0.0)


@pytest.fixture(scope="session")
def measured() -> Callable[..., Measurement]:
    """Return the function that makes a measurement that ended at an instant."""
    return measurement_at


@pytest.fixture
def log() -> EventLog:
    return EventLog()
