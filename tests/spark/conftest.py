"""One Spark session for all tests that need one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from foretide.spark.sources import register_sources

HERE = Path(__file__).parent

# What PySpark leaves to the garbage collector when it talks to Java; all other warnings stay errors.
PYSPARK_WARNINGS = (
    "ignore:unclosed <socket.socket:ResourceWarning",
    "ignore:unclosed file <_io:ResourceWarning",
    "ignore:subprocess [0-9]+ is still running:ResourceWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            for text in PYSPARK_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(text))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    directory = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("foretide-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.local.dir", str(directory / "local"))
        .config("spark.sql.streaming.checkpointLocation", str(directory / "checkpoints"))
        .config("spark.sql.streaming.stopTimeout", "20s")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    register_sources(session)
    yield session
    session.stop()
