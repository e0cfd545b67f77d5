"""A Spark session fit for Foretide."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from foretide.spark.inputs.registration import register_sources
from foretide.spark.settings import PRELOAD_VARIABLE

__all__ = ["create_session", "session_settings"]


def session_settings(preload: Sequence[str] = ()) -> dict[str, str]:
    """Return the Spark settings that Foretide relies on, for those who make their session themselves.

    Parameters
    ----------
    preload : sequence of str
        Modules that workers import before they are forked, for instance those of the operators.
    """
    return {
        # The interpreter that runs the driver has the packages; the first python3 on a PATH may not.
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        "spark.python.daemon.module": "foretide.spark.pool.daemon",
        f"spark.executorEnv.{PRELOAD_VARIABLE}": ",".join(preload),
        # Stages share the executors fairly, each in a pool of its own.
        "spark.scheduler.mode": "FAIR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        # Each batch is planned afresh, about once a second; adaptive execution would cost more than it finds.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }


def create_session(
    master: str = "local[*]",
    name: str = "foretide",
    *,
    preload: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start a Spark session with Foretide's settings, its data sources registered.

    Parameters
    ----------
    master : str
        Where to run, such as ``local[*]`` or ``local-cluster[2,2,1024]``.
    name : str
        The application's name.
    preload : sequence of str
        Modules that workers import before they are forked.
    settings : mapping of str to str
        Further Spark settings, which win.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ[PRELOAD_VARIABLE] = ",".join(preload)
    builder = SparkSession.builder.master(master).appName(name)
    defaults = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1" if master.startswith("local") else None,
        "spark.driver.bindAddress": "127.0.0.1" if master.startswith("local") else None,
    }
    for key, value in {**session_settings(preload), **defaults, **(settings or {})}.items():
        if value is not None:
            builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    register_sources(session)
    return session
