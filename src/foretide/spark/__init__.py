"""Topologies on Spark: the only package that imports pyspark. Its rooms follow an event's way.

May import `health`, `control`, `kafka` and everything below them.
"""

from typing import TYPE_CHECKING

from foretide._lazy import lazy_names
from foretide.errors import ConfigError
from foretide.extras import needs_extra

with needs_extra("spark", "a run on Spark"):
    import pyarrow as _  # noqa: F401
    import pyspark

_NEEDED = (4, 2)
if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < _NEEDED:
    raise ConfigError(
        "pyspark",
        expected="version 4.2 or newer, whose Python data sources have read limits",
        got=pyspark.__version__,
        remedy="pip install 'foretide[spark]'; planning and forecasting work without",
    )

if TYPE_CHECKING:
    from foretide.compile.stages import StageGraph, compile_stages
    from foretide.spark.driver.running_topology import RunningTopology, start
    from foretide.spark.session.builder import create_session, session_settings
    from foretide.spark.settings import EngineSettings

__all__ = [
    "EngineSettings",
    "RunningTopology",
    "StageGraph",
    "compile_stages",
    "create_session",
    "session_settings",
    "start",
]

# Spark starts a process for the source of every query, which needs none of these.
__getattr__ = lazy_names(
    __name__,
    {
        "EngineSettings": "foretide.spark.settings",
        "RunningTopology": "foretide.spark.driver.running_topology",
        "StageGraph": "foretide.compile.stages",
        "compile_stages": "foretide.compile.stages",
        "create_session": "foretide.spark.session.builder",
        "session_settings": "foretide.spark.session.builder",
        "start": "foretide.spark.driver.running_topology",
    },
)
