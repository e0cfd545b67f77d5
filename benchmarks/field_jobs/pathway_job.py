"""The Twitter detection on Pathway, from Kafka to Kafka: ``pathway spawn --processes 2 python pathway_job.py``."""

from __future__ import annotations

import os

import pathway as pw
from operators import operators

SERVERS, SOURCE, SINK = os.environ["FIELD_KAFKA"].split()


class Tweet(pw.Schema):  # type: ignore[misc]
    """An event; Pathway keeps the name ``id`` to itself."""

    number: int
    sent: float
    text: str


def main() -> None:
    """Run until killed."""
    settings = {
        "bootstrap.servers": SERVERS,
        "group.id": f"field-{SINK}",
        "auto.offset.reset": "earliest",
        "session.timeout.ms": "6000",
    }
    events = pw.io.kafka.read(
        settings,
        topic=SOURCE,
        schema=Tweet,
        format="json",
        autocommit_duration_ms=10,
        json_field_paths={"number": "/id"},
        name="events",
    )
    for column, operator in operators():
        events = events.with_columns(**{column: pw.apply_with_type(found(operator, column), str, events.text)})
    pw.io.kafka.write(
        events,
        {"bootstrap.servers": SERVERS, "linger.ms": "5", "compression.type": "lz4"},
        topic_name=SINK,
        format="json",
    )
    kept = pw.persistence.Config(
        pw.persistence.Backend.filesystem(os.environ["FIELD_STATE"]), snapshot_interval_ms=1_000
    )
    pw.run(monitoring_level=pw.MonitoringLevel.NONE, persistence_config=kept)


def found(operator: object, column: str) -> object:
    """Return an operator as a function of the text."""

    def function(text: str) -> str:
        return operator({"text": text})[column]  # type: ignore[operator]

    return function


if __name__ == "__main__":
    main()
