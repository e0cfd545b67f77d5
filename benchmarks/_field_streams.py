"""What the field is fed with and what is seen of it: events sent into a topic, and read from another one."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from confluent_kafka import Consumer, Producer

from _field import Job
from foretide.traces.payloads import payload

__all__ = ["PARTITIONS", "Sending", "Sink", "fill", "sending"]

PARTITIONS = 4


class Sink:
    """Reads what a system has committed, and notes when each event came."""

    def __init__(self, servers: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": f"sink-{topic}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 5,
            }
        )
        self._consumer.subscribe([topic])

    def wait(self, job: Job, seconds: float) -> None:
        """Return when the first event is there."""
        deadline_s = time.monotonic() + seconds
        while not self._consumer.consume(1, 0.1):
            job.check()
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{job.system.name}: expected an event at the sink in {seconds:.0f} s")

    def read(self, seconds: float, *, parse: bool = True) -> list[tuple[float, int, float]]:
        """Return the events of so many seconds: when each came, its id, and when it was sent."""
        found: list[tuple[float, int, float]] = []
        deadline_s = time.monotonic() + seconds
        while (left_s := deadline_s - time.monotonic()) > 0:
            messages = self._consumer.consume(5_000, min(left_s, 0.005))
            now_s = time.time()
            for message in messages:
                event = json.loads(message.value()) if parse else {"id": 0, "sent": 0.0}
                found.append((now_s, event.get("id", event.get("number")), event["sent"]))
        return found

    def close(self) -> None:
        """Leave."""
        self._consumer.close()


def texts(first: int, events: int) -> list[str]:
    """Return the texts of so many events."""
    return payload("tweets")(np.arange(first, first + events))["text"].to_pylist()


def fill(servers: str, topic: str, events: int) -> None:
    """Put so many events into a topic."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 20,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 500_000,
        }
    )
    step = 10_000
    for first in range(0, events, step):
        for id, text in enumerate(texts(first, min(step, events - first)), first):
            value = json.dumps({"id": id, "sent": 0.0, "text": text})
            producer.produce(topic, value, partition=id % PARTITIONS)
        producer.flush() if first % (20 * step) == 0 else producer.poll(0)
    producer.flush()


class Sending:
    """A process that sends events at an even rate until it is stopped."""

    def __init__(self, servers: str, topic: str, rate: int) -> None:
        self._over, self._sent = multiprocessing.Event(), multiprocessing.Value("q", 0)
        given = (servers, topic, rate, self._over, self._sent)
        self._process = multiprocessing.Process(target=_send, args=given, daemon=True)
        self._process.start()

    @property
    def events(self) -> int:
        """How many it has sent."""
        return int(self._sent.value)

    def stop(self) -> None:
        """Send no more."""
        self._over.set()
        self._process.join(30)


@contextmanager
def sending(servers: str, topic: str, rate: int) -> Iterator[Sending]:
    """Send events meanwhile."""
    sender = Sending(servers, topic, rate)
    try:
        yield sender
    finally:
        sender.stop()


def _send(servers: str, topic: str, rate: int, over: Any, sent: Any) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 1})
    made, began, id = texts(0, 20_000), time.monotonic(), 0
    while not over.is_set():
        due = int((time.monotonic() - began) * rate)
        while id < due:
            value = json.dumps({"id": id, "sent": time.time(), "text": made[id % len(made)]})
            producer.produce(topic, value, partition=id % PARTITIONS)
            id += 1
        sent.value = id
        producer.poll(0)
        time.sleep(0.002)
    producer.flush()
