"""The field side by side: the Twitter detection from Kafka to Kafka on Foretide, Bytewax, Quix Streams and Pathway.

The same events, the same four Python operators, the same broker, two workers, each system in an environment of its own
that this script makes. Systems that take events one by one run the operators on one event, Foretide on Arrow batches:
each as its own guide would have it. An event is there when a consumer that reads what is committed has it.

- Throughput: a topic that is full; events at the sink per second of CPU that all processes of the system used.
- Latency: events at an even rate, from when each was sent to when it is there; memory meanwhile.
- Rescale: from one worker to two, in the way that the system has; the longest silence at the sink.
- Recovery: all processes killed and started again at once; silence, events that are missing, events that came twice.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from confluent_kafka import Consumer, Producer

from _field import FORETIDE, SYSTEMS, Job, System, start
from _harness import QUICK, Measured, Options, Ratio, Table, keep_row, kept_rows, progress, report, rotated
from _streams import scratch
from foretide.kafka import Broker, Cluster
from foretide.traces.payloads import payload

PARTITIONS, WORKERS = 4, 2
RATES = (1_000, 5_000)
KEPT = QUICK / "field.jsonl"
START_S = 120.0
FIGURES = (
    "events_per_cpu_s",
    "events_per_s",
    "p50_ms_1000",
    "p95_ms_1000",
    "p50_ms_5000",
    "p95_ms_5000",
    "p99_ms_5000",
)
MORE = ("memory_mb", "rescale_silence_s", "recovery_silence_s", "lost", "repeated")


def main() -> None:
    """Measure every system in every round."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--smoke", action="store_true", help="seconds of ours alone, as in the tests")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--systems", default=",".join(system.name for system in SYSTEMS))
    parser.add_argument("--results", type=Path)
    parser.add_argument("--markdown", type=Path)
    given = parser.parse_args()
    options = Options.of(given, repeats=1 if given.quick or given.smoke else given.repeats)
    kept = KEPT.with_suffix(".quick.jsonl") if options.quick else KEPT
    if options.quick:
        kept.unlink(missing_ok=True)
    wanted = [FORETIDE.name] if given.smoke else given.systems.split(",")
    systems = [system for system in SYSTEMS if system.name in wanted]
    done = {(row["system"], row["round"]) for row in kept_rows(kept)}
    with scratch() as path, Broker(path / "broker", port=0, heap_mb=768) as broker:
        field = Field(broker.servers, path, options)
        for number in range(options.repeats):
            for system in rotated(systems, number):
                if (system.name, number) not in done:
                    row = {"system": system.name, "round": number, **field.measure(system)}
                    keep_row(row, kept)
                    progress(f"  {number + 1}/{options.repeats} {system.name}: {shown(row)}")
    write(kept_rows(kept), options)


def shown(row: Mapping[str, Any]) -> str:
    """Return the figures of a row as text."""
    return "  ".join(f"{name} {row[name]:,.4g}" for name in (*FIGURES, *MORE) if row.get(name) is not None)


class Field:
    """Measures one system after another, with one broker."""

    def __init__(self, servers: str, path: Path, options: Options) -> None:
        self._servers, self._path = servers, path
        self._size = options.size(
            {"events": 1_500_000, "full_s": 20.0, "warm_s": 10.0, "even_s": 20.0},
            quick={"events": 300_000, "full_s": 5.0, "warm_s": 5.0, "even_s": 5.0},
            smoke={"events": 2_000, "full_s": 0.5, "warm_s": 1.0, "even_s": 1.0},
        )
        self._smoke = options.smoke
        self._full = ""

    def measure(self, system: System) -> dict[str, float | None]:
        """Return all figures of a system."""
        found = self.throughput(system)
        if self._smoke:
            return found
        for rate in RATES:
            found |= self.latency(system, rate)
        found |= self.disturbed(system, "rescale", lambda job: job.rescale(WORKERS), workers=1)
        found |= self.disturbed(system, "recovery", _kill_and_restart, workers=WORKERS)
        return found

    def throughput(self, system: System) -> dict[str, float | None]:
        """Return how fast a system works through a topic that is full."""
        if not self._full:
            self._full = self._topic("full")
            fill(self._servers, self._full, int(self._size["events"]))
        with self._job(system, self._full) as (job, sink):
            consumer = Sink(self._servers, sink)
            consumer.wait(job, START_S)
            consumer.read(self._size["warm_s"])
            (before_s, _), began = job.usage(), time.monotonic()
            events = len(consumer.read(self._size["full_s"], parse=False))
            (after_s, _), ended = job.usage(), time.monotonic()
            consumer.close()
        return {"events_per_s": events / (ended - began), "events_per_cpu_s": events / max(after_s - before_s, 1e-9)}

    def latency(self, system: System, rate: int) -> dict[str, float | None]:
        """Return how long events take that come at an even rate."""
        source = self._topic("even")
        seconds = self._size["warm_s"] + self._size["even_s"]
        with self._job(system, source) as (job, sink):
            consumer = self._ready(job, source, sink)
            with sending(self._servers, source, rate):
                seen = consumer.read(seconds)
                _, held_mb = job.usage()
            consumer.close()
        late_ms = 1e3 * np.array([at - sent for at, _, sent in seen if at > seen[0][0] + self._size["warm_s"]])
        p50, p95, p99 = np.quantile(late_ms, (0.5, 0.95, 0.99)) if late_ms.size else (np.nan,) * 3
        named = {f"p50_ms_{rate}": p50, f"p95_ms_{rate}": p95, f"p99_ms_{rate}": p99, "memory_mb": held_mb}
        return {name: float(value) for name, value in named.items()}

    def disturbed(
        self, system: System, name: str, disturb: Callable[[Job], None], workers: int
    ) -> dict[str, float | None]:
        """Return the longest silence after something happens, and what was lost or repeated over it."""
        source, rate = self._topic("even"), RATES[0]
        with self._job(system, source, workers) as (job, sink):
            consumer = self._ready(job, source, sink)
            with sending(self._servers, source, rate) as sent:
                seen = consumer.read(self._size["warm_s"])
                at_s = time.time()
                disturb(job)
                seen += consumer.read(30.0)
                sent.stop()
                seen += consumer.read(10.0)
            consumer.close()
        times = np.array([at_s, *(at for at, _, _ in seen if at > at_s)])
        found = {f"{name}_silence_s": float(np.diff(times).max()) if times.size > 1 else None}
        if name == "recovery":
            ids = Counter(id for _, id, _ in seen)
            lost = set(range(min(ids), max(ids) + 1)) - set(ids)
            found |= {"lost": float(len(lost)), "repeated": float(sum(count - 1 for count in ids.values()))}
        return found

    def _ready(self, job: Job, source: str, sink: str) -> Sink:
        """Send one event and wait until it is through, so that none waits for a system to start."""
        fill(self._servers, source, 1)
        consumer = Sink(self._servers, sink)
        consumer.wait(job, START_S)
        return consumer

    @contextmanager
    def _job(self, system: System, source: str, workers: int = WORKERS) -> Iterator[tuple[Job, str]]:
        """Run the job of a system on a topic; give it and the topic that it writes."""
        sink = self._topic("out")
        with start(system, f"{self._servers} {source} {sink}", self._path / sink, workers) as job:
            yield job, sink

    def _topic(self, name: str) -> str:
        topic = f"{name}-{uuid.uuid4().hex[:8]}"
        Cluster(self._servers, "field").ensure_topic(topic, PARTITIONS)
        return topic


def _kill_and_restart(job: Job) -> None:
    job.kill()
    job.restart(WORKERS)


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
        self._over = multiprocessing.Event()
        self._process = multiprocessing.Process(target=_send, args=(servers, topic, rate, self._over), daemon=True)
        self._process.start()

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


def _send(servers: str, topic: str, rate: int, over: Any) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 1})
    made, began, id = texts(0, 20_000), time.monotonic(), 0
    while not over.is_set():
        due = int((time.monotonic() - began) * rate)
        while id < due:
            value = json.dumps({"id": id, "sent": time.time(), "text": made[id % len(made)]})
            producer.produce(topic, value, partition=id % PARTITIONS)
            id += 1
        producer.poll(0)
        time.sleep(0.002)
    producer.flush()


def write(rows: Sequence[Mapping[str, Any]], options: Options) -> None:
    """Write the tables: ours against the best of the others in each round, and all figures of all systems."""
    rounds: dict[int, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        rounds.setdefault(row["round"], {})[row["system"]] = row
    lines = [
        Measured(
            "events per second of CPU", "the best of the others", "at least", 1.5, against(rounds, FIGURES[0], max)
        ),
        Measured("silence at a rescale", "the best of the others", "at most", 0.2, against(rounds, MORE[1], min)),
    ]
    names = list(dict.fromkeys(row["system"] for row in rows))
    cells = [
        [
            name,
            next(one.guarantee for one in SYSTEMS if one.name == name),
            *(figure(rows, name, column) for column in (*FIGURES, *MORE)),
        ]
        for name in names
    ]
    about = "Medians over rounds; times in ms or s as the column says, memory in MB:"
    intro = (
        f"The Twitter detection from Kafka to Kafka, {WORKERS} workers each, all figures as a consumer sees them that"
        " reads what is committed. Others were set up by their own guides: batches of 1,000 messages for Bytewax,"
        " transactions every 50 ms for Quix Streams, commits every 10 ms for Pathway."
    )
    table = Table(about, ["system", "promise", *FIGURES, *MORE], cells)
    packages = ["pyspark", "confluent-kafka"]
    report("field", "The field", lines, {"rows": list(rows)}, options, intro=intro, tables=[table], packages=packages)


def against(
    rounds: Mapping[int, Mapping[str, Mapping[str, Any]]], name: str, best: Callable[[list[float]], float]
) -> Ratio | None:
    """Return our figure ÷ the best of the others, of every round that has both."""
    found = []
    for systems in rounds.values():
        ours = systems.get(FORETIDE.name, {}).get(name)
        others = [row[name] for system, row in systems.items() if system != FORETIDE.name and row.get(name) is not None]
        if ours is not None and others:
            found.append(ours / best(others))
    return Ratio(tuple(found)) if found else None


def figure(rows: Sequence[Mapping[str, Any]], system: str, name: str) -> str:
    """Return the median of a system's figure as text."""
    known = [row[name] for row in rows if row["system"] == system and row.get(name) is not None]
    return f"{median(known):,.4g}" if known else "–"


if __name__ == "__main__":
    main()
