"""What the user declares: operators, the streams between them, and their bounds.

May import `records`, `postgres` and the small modules; never Spark.
"""

from foretide.topology.builder import Flow, Stream, flow
from foretide.topology.dumper import dump_topology, dump_yaml
from foretide.topology.elements import (
    DEFAULT_OUTPUT,
    GROUPING_RULES,
    Connector,
    Edge,
    GroupingRule,
    GroupingSpec,
    Operator,
    OperatorMode,
    Processor,
    ReplicaBounds,
    Sink,
    Source,
    Transport,
    is_processor,
)
from foretide.topology.flow import FlowGraph
from foretide.topology.graph import Topology
from foretide.topology.loader import load_topology
from foretide.topology.options import KindOptions, register_sink_kind, register_source_kind

__all__ = [
    "DEFAULT_OUTPUT",
    "GROUPING_RULES",
    "Connector",
    "Edge",
    "Flow",
    "FlowGraph",
    "GroupingRule",
    "GroupingSpec",
    "KindOptions",
    "Operator",
    "OperatorMode",
    "Processor",
    "ReplicaBounds",
    "Sink",
    "Source",
    "Stream",
    "Topology",
    "Transport",
    "dump_topology",
    "dump_yaml",
    "flow",
    "is_processor",
    "load_topology",
    "register_sink_kind",
    "register_source_kind",
]
