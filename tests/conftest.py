"""Fixtures that tests of several packages share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from hadoop_cluster import HadoopCluster
from hypothesis import HealthCheck, settings
from postgres_server import PostgresServer, UnavailableError

from foretide.commands.machine.s3_server import S3Server
from foretide.errors import ConfigError, ForetideError
from foretide.kafka import Broker, KafkaError
from foretide.plan.base import Situation
from foretide.records import CpuUse, Floats, Forecast, Layout, Window
from foretide.topology import Topology, flow

# Networks of tests are small and short-lived: code that is compiled quickly does better than quick code.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

# No test may fail because the machine is busy, and runs are repeatable; `make explore` draws many more, and anew.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("foretide", PATIENT, derandomize=True, max_examples=25)
settings.register_profile("explore", PATIENT, max_examples=400, print_blob=True)
settings.load_profile("foretide")

Amounts: TypeAlias = float | npt.ArrayLike | Mapping[str, float]
Rates: TypeAlias = float | Sequence[float]
HISTORY = 16


def line_topology() -> Topology:
    """Return source "in" -> O1 -> O2 -> O3, each with 1 to 32 replicas."""
    job = flow("line")
    stream = job.source("in")
    for operator in ("O1", "O2", "O3"):
        stream = stream.operator(operator, replicas=(1, 32))
    return job.build()


def column(names: Sequence[Any], values: Amounts, default: Floats | float) -> Floats:
    """Return one value for each name: the same for all, by name (else the default), or an array as it is."""
    filled = np.array(np.broadcast_to(default, len(names)), dtype=np.float64)
    if isinstance(values, Mapping):
        unknown = set(values) - set(names)
        assert not unknown, f"{sorted(unknown)} not among {list(names)}"
        filled[[list(names).index(name) for name in values]] = list(values.values())
        return filled
    filled[:] = values
    return filled


def edge_column(
    layout: Layout, values: Mapping[tuple[str, str], float] | npt.ArrayLike | None, default: Floats
) -> Floats:
    """Return the share of every edge, given by (start, end)."""
    if values is None:
        return np.array(default)
    return column([(start, end) for start, _, end in layout.edges], values, default)  # type: ignore[arg-type]


def forecasts_of(
    layout: Layout, rates: Rates | Mapping[str, Rates] | None, now_s: float, step_s: float
) -> dict[str, Forecast]:
    """Return a forecast for each source that has rates."""
    if rates is None:
        return {}
    by_source = rates if isinstance(rates, Mapping) else dict.fromkeys(layout.sources, rates)
    return {
        source: Forecast(
            series=source, model="given", made_at_s=now_s, step_s=step_s, mean=np.atleast_1d(np.asarray(mean, float))
        )
        for source, mean in by_source.items()
    }


def build_situation(
    topology: Topology | None = None,
    *,
    td_s: float = 1.0,
    arrived: Amounts = 100.0,
    share: Mapping[tuple[str, str], float] | npt.ArrayLike | None = None,
    queued: Amounts = 0.0,
    execution_s: Amounts = 0.01,
    processed: Amounts | None = None,
    utilisation: Amounts | None = None,
    replicas: Amounts | None = None,
    forecast: Rates | Mapping[str, Rates] | None = None,
    history: npt.ArrayLike | None = None,
    received_history: npt.ArrayLike | None = None,
    changed_at_s: Amounts | None = None,
    now_s: float = 1000.0,
    cpu: CpuUse | None = None,
) -> Situation:
    """Return a situation in which everything that is not given follows from what is.

    Amounts are one value for all, a mapping by source or operator (others keep the default), or an array. Shares
    default to the declared ones, events received to the arrivals spread down the DAG, events processed to those
    received, utilisation to busy time over replica time (at most 1), replicas to the initial ones. `forecast` is a
    rate per second, or one for each interval, of all sources or by source; without it there are no forecasts.
    Histories are rates per second, one row per interval, by default the last interval's, 16 times.
    """
    topology = topology or line_topology()
    layout, flow_graph = topology.layout, topology.flow
    arrivals = column(layout.sources, arrived, 100.0)
    shares = edge_column(layout, share, topology.declared_share)
    received = flow_graph.propagate(arrivals, np.zeros(flow_graph.operators), shares)
    finished = received if processed is None else column(layout.operators, processed, received)
    seconds = column(layout.operators, execution_s, 0.01)
    active = topology.initial_replicas.astype(np.float64)
    active = active if replicas is None else column(layout.operators, replicas, active)
    used = np.clip(np.nan_to_num(finished * seconds / (td_s * active)), 0.0, 1.0)
    changed = -np.inf if changed_at_s is None else changed_at_s
    counts = active.astype(np.int64)
    window = Window(
        layout=layout,
        ended_at_s=now_s,
        duration_s=td_s,
        sample_s=td_s,
        arrival_rates=np.tile(arrivals / td_s, (HISTORY, 1)) if history is None else np.asarray(history, float),
        received_rates=(
            np.tile(received / td_s, (HISTORY, 1)) if received_history is None else np.asarray(received_history, float)
        ),
        arrived=arrivals,
        received=received,
        processed=finished,
        queued=column(layout.operators, queued, 0.0),
        share=shares,
        execution_s=seconds,
        utilisation=used if utilisation is None else column(layout.operators, utilisation, used),
        replicas=counts,
        cpu=cpu,
    )
    return Situation(
        topology=topology,
        window=window,
        forecasts=forecasts_of(layout, forecast, now_s, td_s),
        replicas=counts,
        changed_at_s=column(layout.operators, changed, -np.inf),
    )


@pytest.fixture(scope="session")
def make_situation() -> Callable[..., Situation]:
    """Return `build_situation`, the factory of situations that planners and guards are tested with."""
    return build_situation


def unavailable(what: str, error: Exception) -> NoReturn:
    """Leave a test out whose server cannot be started; where none may be left out, it fails."""
    text = f"{what} cannot be started: {error}"
    if os.environ.get("CI"):
        pytest.fail(text, pytrace=False)
    pytest.skip(text)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Return a PostgreSQL server of our own, running; a test that stops it starts it again."""
    try:
        server = PostgresServer()
    except UnavailableError as error:
        unavailable("PostgreSQL", error)
    yield server
    server.close()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Return a Kafka broker of our own, running; a test that stops it starts it again."""
    broker = Broker(tmp_path_factory.mktemp("kafka"), port=0)
    try:
        broker.start()
    except (ConfigError, KafkaError) as error:
        unavailable("Kafka", error)
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Return an S3 server of our own with a bucket ``runs``, to which clients of this process go."""
    server = S3Server(tmp_path_factory.mktemp("s3"), ["runs"])
    try:
        server.start()
    except ForetideError as error:
        unavailable("an S3 server", error)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server
    server.stop()


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HadoopCluster]:
    """Return an HDFS of our own, running."""
    cluster = HadoopCluster(tmp_path_factory.mktemp("hadoop"))
    try:
        cluster.start()
    except ForetideError as error:
        unavailable("HDFS", error)
    yield cluster
    cluster.stop()
