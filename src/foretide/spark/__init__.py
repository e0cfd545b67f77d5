"""Topologies on Spark: the only package that imports pyspark."""

import pyspark

from foretide.errors import ConfigError

_NEEDED = (4, 2)
if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < _NEEDED:
    raise ConfigError(
        "pyspark",
        expected="version 4.2 or newer, whose Python data sources have read limits",
        got=pyspark.__version__,
        remedy="pip install 'pyspark>=4.2,<5'; planning and forecasting work without",
    )

from foretide.spark.running import RunningTopology, start  # noqa: E402 - after the check of the version
from foretide.spark.session import create_session, session_settings  # noqa: E402
from foretide.spark.settings import EngineSettings  # noqa: E402
from foretide.spark.stages import StageGraph, compile_stages  # noqa: E402

__all__ = [
    "EngineSettings",
    "RunningTopology",
    "StageGraph",
    "compile_stages",
    "create_session",
    "session_settings",
    "start",
]
