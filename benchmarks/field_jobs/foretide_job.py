"""The Twitter detection on Foretide, from Kafka to Kafka, exactly once. It is told replicas by its input."""

from __future__ import annotations

import os
import sys
import threading

from foretide import Topology, flow
from foretide.apps.twitter_detection import DETECTORS
from foretide.spark import EngineSettings, create_session, start

SERVERS, SOURCE, SINK = os.environ["FIELD_KAFKA"].split()
SCHEMA = "id long, sent double, text string"


def topology(replicas: int) -> Topology:
    """Return the four operators between two topics; the first has all replicas, the others run in its tasks."""
    job = flow("field")
    stream = job.source("in", "kafka", servers=SERVERS, topic=SOURCE, schema=SCHEMA, starting="earliest")
    for place, (detector, _) in enumerate(DETECTORS):
        given = (1, 8, replicas) if place == 0 else 1
        stream = stream.operator(detector.column, detector, mode="arrow", replicas=given)
    stream.sink("out", "kafka", servers=SERVERS, topic=SINK)
    return job.build()


def main() -> None:
    """Run until killed, in the folder that is given, with so many replicas."""
    path, replicas = sys.argv[1], int(sys.argv[2])
    spark = create_session(f"local[{os.cpu_count()}]", "field")
    with start(topology(replicas), spark, path, EngineSettings()) as running:

        def listen() -> None:
            for line in sys.stdin:
                running.change_replicas({DETECTORS[0][0].column: int(line)})

        threading.Thread(target=listen, daemon=True).start()
        running.wait()


if __name__ == "__main__":
    main()
