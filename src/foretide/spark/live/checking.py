"""Which stages of a run are live, checked against what they are."""

from __future__ import annotations

from foretide.compile.live import check_live, live_stages, over_topics
from foretide.compile.queues import queue_limits
from foretide.compile.stages import StageGraph
from foretide.errors import ConfigError
from foretide.spark.inputs.topic_edges import traces_need_a_cluster
from foretide.spark.settings import EngineSettings

__all__ = ["live_graph"]


def live_graph(graph: StageGraph, settings: EngineSettings) -> StageGraph:
    """Return the stages with those marked that are to be live, and topics between them.

    Raises
    ------
    ConfigError
        When one of them cannot be.
    """
    live = live_stages(graph, settings.live)
    if not live:
        return graph
    found = over_topics(graph, live)
    check_live(found, queue_limits(found, settings.every_queue, settings.queues))
    for source in traces_need_a_cluster(found, settings.kafka_servers):
        raise ConfigError(
            f"source {source!r}",
            expected="a Kafka cluster through which its trace reaches tasks that stay",
            got="none",
            remedy="say which (--engine kafka_servers=localhost:9092), or run the stage in batches",
        )
    return found
