"""One Spark session for all tests of a process that need one, and what makes tests on Spark quick."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kafka_driver
import kill_driver
import live_driver
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from xdist.scheduler import LoadScopeScheduling

from foretide.spark import create_session

HERE = Path(__file__).parent

# What PySpark leaves to the garbage collector when it talks to Java; all other warnings stay errors.
PYSPARK_WARNINGS = (
    "ignore:unclosed <socket.socket:ResourceWarning",
    "ignore:unclosed file <_io:ResourceWarning",
    "ignore:subprocess [0-9]+ is still running:ResourceWarning",
)


# Virtual machines of tests live for seconds: a quick compiler and one thread that collects garbage take a third less
# processor time. By this variable the flags reach the sessions of commands and programs that tests start as well.
FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
os.environ.setdefault(
    "PYSPARK_SUBMIT_ARGS",
    f'--conf "spark.driver.extraJavaOptions={FLAGS}" --conf "spark.executor.extraJavaOptions={FLAGS}" pyspark-shell',
)

# Files in the order in which processes take them, those that take longest first; the others follow. While a process is
# at the last tests of a file it takes the next one, so that files of a single long test lie between others.
ORDER = (
    "test_benchmarks",
    "test_scale_downs",
    "test_no_shared_disk",
    "test_kafka",
    "test_live",
    "test_transport",
    "test_log",
    "test_transactions",
    "test_kafka_commands",
    "test_nexmark",
    "test_run_command",
    "test_kill",
    "test_engine",
    "test_closed_loop",
    "test_tutorial",
    "test_training",
    "test_apps",
)
# Files whose tests share the Kafka broker; those of live stages have one of their own, since they take as long again.
WITH_BROKER = ("tests/spark/test_kafka.py", "tests/contracts/", "tests/unit/")


class Groups(LoadScopeScheduling):
    """Gives all tests of a file, which share a session, to one process; and all tests that share the broker."""

    def _split_scope(self, nodeid: str) -> str:
        return "kafka" if nodeid.startswith(WITH_BROKER) else nodeid.partition("::")[0]


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups | None:
    return Groups(config, log) if config.getvalue("dist") == "loadscope" else None


for program in (kafka_driver, kill_driver, live_driver):
    cloudpickle.register_pickle_by_value(program)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            # Workers can import neither tests nor programs, so what is defined there travels with the topology.
            if isinstance(item, pytest.Function):
                cloudpickle.register_pickle_by_value(item.module)
            for text in PYSPARK_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(text))
    places = {name: place for place, name in enumerate(ORDER)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    directory = tmp_path_factory.mktemp("spark")
    session = create_session(
        "local[2]",
        "foretide-tests",
        settings={
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.local.dir": str(directory / "local"),
            "spark.sql.streaming.checkpointLocation": str(directory / "checkpoints"),
            "spark.sql.streaming.stopTimeout": "20s",
        },
    )
    yield session
    session.stop()


@pytest.fixture
def write_trace(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes a trace of so many events per second, second by second, and returns its path."""

    def write(*rates: float, name: str = "trace") -> str:
        path = tmp_path / f"{name}.csv"
        lines = [f"{second},{rate}" for second, rate in enumerate(rates)]
        path.write_text("\n".join(["second,events_per_second", *lines]) + "\n", encoding="utf-8")
        return str(path)

    return write
