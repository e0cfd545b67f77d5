"""Predictive elasticity for stream processing on Apache Spark.

The public names; each is imported when it is first used, so that the command line starts at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretide._lazy import lazy_names
from foretide._version import __version__

if TYPE_CHECKING:
    from foretide.control import ControlLoop, ControlSettings, Decision, LoopSettings, load_settings
    from foretide.errors import ForetideError
    from foretide.forecast import make_forecaster
    from foretide.plan import make_planner
    from foretide.spark.attached.attach import attach
    from foretide.topology import Topology, flow, load_topology

__all__ = [
    "ControlLoop",
    "ControlSettings",
    "Decision",
    "ForetideError",
    "LoopSettings",
    "Topology",
    "__version__",
    "attach",
    "flow",
    "load_settings",
    "load_topology",
    "make_forecaster",
    "make_planner",
]

_HOME = {
    "ControlLoop": "foretide.control",
    "ControlSettings": "foretide.control",
    "Decision": "foretide.control",
    "ForetideError": "foretide.errors",
    "LoopSettings": "foretide.control",
    "Topology": "foretide.topology",
    "attach": "foretide.spark.attached.attach",
    "flow": "foretide.topology",
    "load_settings": "foretide.control",
    "load_topology": "foretide.topology",
    "make_forecaster": "foretide.forecast",
    "make_planner": "foretide.plan",
}


__getattr__ = lazy_names(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(__all__)
