"""What the tests of the service share: a store with two simulated runs, and clients for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from simulated_recording import Recording, record_simulation

from foretide.plan.planners.foretide import Foretide
from foretide.service import ServiceSettings, create_app
from foretide.sim.options import SimulationOptions
from foretide.sim.settings import MicroBatch, SimulationSettings
from foretide.store import FeatureSample, RunRecorder, RunStore
from foretide.topology import Topology, flow
from foretide.traces import RateTrace

#: Well after anything was recorded: every run has ended.
LATER_S = 4e9


def branching() -> Topology:
    """Return in -> split -> (a, b) -> join -> out, with a named output each."""
    job = flow("branching")
    split = job.source("in").operator(
        "split", execution_s=0.01, outputs=("left", "right"), selectivity={"left": 0.5, "right": 0.5}, replicas=(1, 4)
    )
    left = split["left"].operator("a", execution_s=0.02, replicas=(1, 6))
    right = split["right"].operator("b", execution_s=0.01, replicas=(1, 4))
    job.operator("join", inputs=[left, right], execution_s=0.005, replicas=(1, 4)).sink("out")
    return job.build()


def features(recorder: RunRecorder, now_s: float) -> None:
    if now_s % 10 == 0:
        values = {"cpu": 50.0, "queueing_ms": float("nan")}
        recorder.features([FeatureSample.of(now_s, "worker", "executor-1", "host-a", values)])


def record(store: RunStore, planner: str = "pasps", recording: Recording | None = None) -> str:
    """Record a simulated run of a minute, with a decision every ten seconds."""
    trace = RateTrace("steps", bin_s=15, rates=[40, 120, 60, 80])
    forecaster = "lr" if planner == "pasps" else None
    options = SimulationOptions.of({"planner": planner, "forecaster": forecaster, "td_s": 10.0})
    return record_simulation(store, branching(), trace, options, recording or Recording(on_sample=features))


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run of `static`, then one of `pasps`; only read it."""
    path = tmp_path_factory.mktemp("service") / "runs.db"
    with RunStore(path, threaded=False) as store:
        record(store, "static")
        record(store)
    return path


@pytest.fixture
def store(recorded: Path) -> Iterator[RunStore]:
    with RunStore(recorded, threaded=False) as store:
        yield store


@pytest.fixture
def client_of(store: RunStore) -> Iterator[Callable[..., TestClient]]:
    """Return the function that makes a client of a service with some settings."""
    clients: list[TestClient] = []

    def make(**settings: object) -> TestClient:
        app = create_app(store, ServiceSettings.model_validate(settings))
        clients.append(TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False).__enter__())
        return clients[-1]

    yield make
    for client in clients:
        client.__exit__()


@pytest.fixture
def client(client_of: Callable[..., TestClient]) -> TestClient:
    return client_of()


@pytest.fixture(scope="session")
def promised_run() -> Callable[[RunStore], str]:
    """Return the function that records a run on batches, with a promise."""

    def promised(store: RunStore) -> str:
        options = SimulationOptions.of(
            {
                "planner": Foretide(slo="p95<2s"),
                "forecaster": "basic",
                "td_s": 10.0,
                "settings": SimulationSettings(micro_batch=MicroBatch(fixed_s=0.1, trigger_s=0.5)),
            }
        )
        return record_simulation(store, branching(), RateTrace("flat", bin_s=60, rates=[60]), options)

    return promised


@pytest.fixture(scope="session")
def record_run() -> Callable[..., str]:
    """Return the function that records a simulated run."""
    return record
