"""Orders from Kafka to Kafka within tens of milliseconds: a live topology.

foretide kafka up --topic orders:6 --topic totals:3
python examples/live.py feed                              # 1,000 orders a second for two minutes; another terminal
foretide run examples/live.py --live --minutes 1          # rates, replicas and latency while it runs
foretide run examples/live.py --live --policy foretide --slo 'p95<100ms' --minutes 2   # replicas follow the load
foretide kafka down
"""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.compute as pc

from foretide import flow

SERVERS = os.environ.get("KAFKA_SERVERS", "localhost:9092")


# The functions are those of any topology: with --live, or without, Foretide calls them with what is there.
def price(orders: pa.RecordBatch) -> pa.RecordBatch:
    total = pc.multiply(orders["price"], pc.cast(orders["count"], pa.float64()))
    return orders.append_column("total", total)


def tax(orders: pa.RecordBatch) -> pa.RecordBatch:
    return orders.append_column("tax", pc.round(pc.multiply(orders["total"], 0.19), 2))


job = flow("live-orders")
(
    job.source("orders", "kafka", servers=SERVERS, topic="orders", schema="id long, price double, count long")
    .operator("price", price, mode="arrow", replicas=(1, 4))
    .operator("tax", tax, mode="arrow", replicas=(1, 2))
    # Transactions hold results and offsets: read the topic with isolation.level=read_committed.
    .sink("totals", "kafka", servers=SERVERS, topic="totals", key="id")
)
topology = job.build()


def feed(seconds: float = 120.0, rate: int = 1_000) -> None:
    """Send orders to the topic, so many per second."""
    import json
    import time

    from confluent_kafka import Producer

    producer, began, sent = Producer({"bootstrap.servers": SERVERS, "linger.ms": 2}), time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        while sent < passed * rate:
            order = {"id": sent, "price": sent % 1000 / 7, "count": 1 + sent % 5}
            producer.produce("orders", json.dumps(order), partition=sent % 6)
            sent += 1
        producer.poll(0)
        time.sleep(0.002)
    producer.flush()
    print(f"{sent:,} orders sent")


if __name__ == "__main__":
    import sys

    if sys.argv[1:] == ["feed"]:
        feed()
    else:
        print(__doc__)
