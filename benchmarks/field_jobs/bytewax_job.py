"""The Twitter detection on Bytewax, from Kafka to Kafka: ``python -m bytewax.testing -p 2 bytewax_job:flow``."""

from __future__ import annotations

import json
import os

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from confluent_kafka import OFFSET_BEGINNING
from operators import operators

SERVERS, SOURCE, SINK = os.environ["FIELD_KAFKA"].split()

flow = Dataflow("field")
# A batch is whatever is there, up to so many: larger ones are no faster here, and none waits to be full.
messages = op.input(
    "in", flow, KafkaSource([SERVERS], [SOURCE], tail=True, starting_offset=OFFSET_BEGINNING, batch_size=1000)
)
events = op.map("decode", messages, lambda message: json.loads(message.value))
for column, operator in operators():
    events = op.map(column, events, operator)
values = op.map("encode", events, lambda event: KafkaSinkMessage(None, json.dumps(event).encode()))
op.output("out", values, KafkaSink([SERVERS], SINK, add_config={"linger.ms": "5", "compression.type": "lz4"}))
