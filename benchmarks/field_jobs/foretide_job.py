"""The Twitter detection on Foretide, from Kafka to Kafka, exactly once, in batches or live.

It is told replicas by its input.
"""

from __future__ import annotations

import os
import sys
import threading

from foretide import Topology, flow
from foretide.apps.twitter_detection import DETECTORS
from foretide.spark import EngineSettings, create_session, start

SERVERS, SOURCE, SINK = os.environ["FIELD_KAFKA"].split()
SCHEMA = "id long, sent double, text string"


def topology() -> Topology:
    """Return the four operators between two topics."""
    job = flow("field")
    stream = job.source("in", "kafka", servers=SERVERS, topic=SOURCE, schema=SCHEMA, starting="earliest")
    for detector, _ in DETECTORS:
        stream = stream.operator(detector.column, detector, mode="arrow", replicas=(1, 8))
    stream.sink("out", "kafka", servers=SERVERS, topic=SINK)
    return job.build()


def tasks(count: int) -> dict[str, int]:
    """Return replicas with which all operators run in so many tasks."""
    first, *others = (detector.column for detector, _ in DETECTORS)
    return {first: count, **dict.fromkeys(others, 0)}


def main() -> None:
    """Run until killed, in the folder that is given, in so many tasks, which stay if it is to be live."""
    path, count, way = sys.argv[1:]
    spark = create_session(f"local[{os.cpu_count()}]", "field")
    with start(topology(), spark, path, EngineSettings(live=way == "live")) as running:
        running.change_replicas(tasks(int(count)))

        def listen() -> None:
            for line in sys.stdin:
                running.change_replicas(tasks(int(line)))

        threading.Thread(target=listen, daemon=True).start()
        running.wait()


if __name__ == "__main__":
    main()
