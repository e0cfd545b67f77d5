"""A topology steered as `foretide run` steers it, from a fresh start to its end."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from pyspark.sql import SparkSession

from foretide.commands.running.request import RunRequest
from foretide.commands.running.run import TRIGGER_S
from foretide.control.policies import Policy
from foretide.spark import EngineSettings
from foretide.spark.driver.run import RunOptions
from foretide.spark.steering.steered_run import SteeredRun, SteeredTopologyRun
from foretide.topology import Topology

__all__ = ["run_steered"]


def run_steered(
    spark: SparkSession,
    topology: Topology,
    path: Path,
    request: RunRequest,
    policy: Policy,
    seconds: float | None,
    *,
    live: bool = False,
) -> SteeredRun:
    """Run a topology under a policy to its last event, or for so many seconds, and return how it went."""
    settings = EngineSettings(trigger_s=0.0 if live else TRIGGER_S, live=live)
    options = RunOptions(topology=topology, path=path, seconds=seconds, settings=settings)
    with SteeredTopologyRun(spark, options, request.steering(topology, policy)) as run:
        deque(run.progress(), maxlen=0)
        run.drain()
    return run.result
