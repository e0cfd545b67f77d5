"""The Twitter detection on Quix Streams, from Kafka to Kafka, exactly once; a second process shares the partitions."""

from __future__ import annotations

import os

from operators import operators
from quixstreams import Application

SERVERS, SOURCE, SINK = os.environ["FIELD_KAFKA"].split()
#: Seconds between two transactions: what they write shows when they commit.
COMMIT_S = float(os.environ.get("FIELD_COMMIT_S", "0.05"))


def main() -> None:
    """Run until killed."""
    application = Application(
        broker_address=SERVERS,
        consumer_group=f"field-{SINK}",
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=COMMIT_S,
        state_dir=os.environ["FIELD_STATE"],
        # What a process that was killed held is free again after seconds, not after a minute.
        consumer_extra_config={"session.timeout.ms": 6_000},
        producer_extra_config={"linger.ms": "5", "compression.type": "lz4", "transaction.timeout.ms": 10_000},
    )
    source = application.topic(SOURCE, value_deserializer="json")
    sink = application.topic(SINK, value_serializer="json")
    events = application.dataframe(source)
    for _, operator in operators():
        events = events.apply(operator)
    events.to_topic(sink)
    application.run()


if __name__ == "__main__":
    main()
