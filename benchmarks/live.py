"""Live stages: latency from Kafka to Kafka against batches and PyFlink, and silence as replicas change.

All read the same kind of topic and run the same four Python functions, in transactions, exactly once. PyFlink has them
in one vectorised function, and that interval of checkpoints with which its p50 is least. Latency counts
from the instant a producer has an event to the instant at which a reader of committed messages has what became of it;
broker, producer and reader share the machine. Events that are lost or come twice end the benchmark. Turns are kept,
with their commits and settings, in `benchmarks/results/live.jsonl`: the same command goes on where it was stopped, and
turns of other rates or intervals are not looked at.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from _flink import LIVE_JOB, MISSING, find_python, kafka_arguments, kafka_job, start_cluster
from _harness import (
    OF_TURNS,
    QUICK,
    RESULTS,
    Measured,
    Turns,
    alternate,
    between,
    parse_options,
    progress,
    report,
)
from _report import provenance
from _streams import open_session, scratch
from foretide.kafka import Broker, Cluster
from foretide.spark import EngineSettings, start
from foretide.topology import Topology, flow

PARTITIONS, TARGET, SILENCE_S = 6, 0.25, 0.3
# What an application of this kind is promised: p50 and p95.
PROMISED_MS = {"p50": 50.0, "p95": 120.0}
# Milliseconds between checkpoints that are tried, and seconds that PyFlink gets to warm up in every turn.
INTERVALS_MS, SETTLE_S = (60, 120, 250, 500, 1_000), 30.0
RATES = (1_000, 5_000)
TEXT = "the quick brown fox jumps over the lazy dog again and again"
INTRO = (
    "From Kafka to Kafka through four Python functions, exactly once on both sides; broker, producer and reader share"
    f" the machine. {OF_TURNS}"
)
_TIMEOUT_S = 120.0


def words(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "words": len(row["text"].split())}


def letters(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "letters": len(row["text"])}


def mean(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "mean": row["letters"] / row["words"]}


def short(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "text": row["text"][:20].upper()}


def topology(servers: str, source: str, sink: str, replicas: int) -> Topology:
    job = flow("live")
    rows = job.source("in", "kafka", servers=servers, topic=source, schema="id long, sent double, text string")
    for number, function in enumerate((words, letters, mean, short)):
        rows = rows.operator(function.__name__, function, mode="rows", replicas=(1, 8, replicas if not number else 1))
    rows.sink("out", "kafka", servers=servers, topic=sink)
    return job.build()


@dataclass
class Seen:
    """What a reader of the results has seen: instants, latencies and ids."""

    at_s: list[float] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)

    def quantile_s(self, level: float, since_s: float) -> float:
        """Return a quantile of the latencies."""
        late = np.array(self.latency_s)[np.array(self.at_s) >= since_s]
        return float(np.quantile(late, level))

    def silence_s(self, since_s: float) -> float:
        """Return the longest time without a result."""
        return float(np.diff([at for at in self.at_s if at >= since_s]).max())


def new_topics(cluster: Cluster) -> tuple[str, str]:
    """Make a topic to read from and one to write to, and return their names."""
    names = {name: f"{name}-{uuid.uuid4().hex[:8]}" for name in ("in", "out")}
    for topic, partitions in ((names["in"], PARTITIONS), (names["out"], 3)):
        cluster.ensure_topic(topic, partitions)
    return names["in"], names["out"]


class Stream:
    """A producer and a reader on a topic each, until `stop`."""

    def __init__(self, servers: str, rate: int) -> None:
        self._cluster, self._rate, self.sent, self.seen = Cluster(servers, "benchmark"), rate, 0, Seen()
        self._stop, self._over, self._warm = threading.Event(), threading.Event(), 0
        self.source, self.sink = new_topics(self._cluster)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._send)]

    def start(self) -> None:
        """Begin, once an event of every partition has come through: starts are no matter here."""
        self._threads[0].start()
        producer = Producer(self._cluster.config())
        for partition in range(PARTITIONS):
            event = {"id": -1, "sent": time.time(), "text": TEXT}
            producer.produce(self.source, json.dumps(event), partition=partition)
        producer.flush()
        deadline_s = time.monotonic() + _TIMEOUT_S
        while self._warm < PARTITIONS:
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"expected the first events within {_TIMEOUT_S:g} s, got {self._warm}")
            time.sleep(0.05)
        self._threads[1].start()

    def stop(self) -> None:
        """End the input, and wait until all of it was seen, each event once."""
        self._stop.set()
        deadline_s = time.monotonic() + _TIMEOUT_S
        self._threads[1].join()
        while len(self.seen.ids) < self.sent and time.monotonic() < deadline_s:
            time.sleep(0.05)
        time.sleep(0.5)  # what comes twice comes late
        self._over.set()
        self._threads[0].join()
        got = len(self.seen.ids), len(set(self.seen.ids))
        if got != (self.sent, self.sent):
            raise RuntimeError(f"expected {self.sent:,} events once each, got {got[0]:,} of {got[1]:,} events")

    def _send(self) -> None:
        producer = Producer(self._cluster.config(linger_ms=2))
        began_s = time.monotonic()
        while not self._stop.wait(0.002):
            while self.sent < (time.monotonic() - began_s) * self._rate:
                event = {"id": self.sent, "sent": time.time(), "text": TEXT}
                producer.produce(self.source, json.dumps(event), partition=self.sent % PARTITIONS)
                self.sent += 1
            producer.poll(0)
        producer.flush()

    def _read(self) -> None:
        consumer = self._cluster.make_consumer(auto_offset_reset="earliest", group_id=self.sink, fetch_wait_max_ms=50)
        consumer.subscribe([self.sink])
        while not self._over.is_set():
            first = consumer.poll(0.05)
            for message in () if first is None else (first, *consumer.consume(5_000, 0)):
                if message.error() is None:
                    row, now_s = json.loads(message.value()), time.time()
                    if row["id"] < 0:
                        self._warm += 1
                        continue
                    self.seen.at_s.append(now_s)
                    self.seen.latency_s.append(now_s - row["sent"])
                    self.seen.ids.append(row["id"])
        consumer.close()


@contextmanager
def running(spark: SparkSession, servers: str, rate: int, *, live: bool, replicas: int) -> Iterator[tuple[Stream, Any]]:
    stream = Stream(servers, rate)
    settings = EngineSettings(live=live, trigger_s=0.0)
    with scratch() as path:
        with start(topology(servers, stream.source, stream.sink, replicas), spark, path, settings) as found:
            slots(found, replicas)
            stream.start()
            yield stream, found
            stream.stop()


def slots(found: Any, count: int) -> None:
    """Let all operators of the stage have so many slots together."""
    found.change_replicas({"words": count, "letters": 0, "mean": 0, "short": 0})


def latencies(spark: SparkSession, servers: str, rate: int, seconds: float, *, live: bool) -> tuple[float, float]:
    """Return p50 and p95 of one turn, after its first seconds."""
    with running(spark, servers, rate, live=live, replicas=2) as (stream, _):
        began_s = time.time() + min(3.0, seconds / 2)
        time.sleep(seconds)
    return stream.seen.quantile_s(0.5, began_s), stream.seen.quantile_s(0.95, began_s)


def throughput(spark: SparkSession, servers: str, events: int, *, live: bool) -> float:
    """Return the events per second at which a full topic is worked off, after its first fifth."""
    cluster = Cluster(servers, "benchmark")
    source, sink = new_topics(cluster)
    producer = Producer(cluster.config(linger_ms=20, queue_buffering_max_messages=2 * events))
    for number in range(events):
        event = {"id": number, "sent": 0.0, "text": TEXT}
        producer.produce(source, json.dumps(event), partition=number % PARTITIONS)
    producer.flush()
    instants: list[tuple[float, int]] = []
    with scratch() as path:
        settings = EngineSettings(live=live, trigger_s=0.0)
        with start(topology(servers, source, sink, 2), spark, path, settings) as found:
            slots(found, 2)
            deadline_s = time.monotonic() + _TIMEOUT_S
            while not instants or instants[-1][1] < events:
                found.check()
                instants.append((time.monotonic(), found.inputs()["in"].done))
                if time.monotonic() > deadline_s:
                    raise RuntimeError(f"expected {events:,} events within {_TIMEOUT_S:g} s, got {instants[-1][1]:,}")
                time.sleep(0.02)
    began_s, before = [one for one in instants if one[1] <= events / 5][-1]
    return (events - before) / (instants[-1][0] - began_s)


def flink_latencies(python: Path, servers: str, rate: int, seconds: float, interval_ms: int) -> tuple[float, float]:
    """Return p50 and p95 of one turn of PyFlink, after it has had time to warm up."""
    stream = Stream(servers, rate)
    with kafka_job(python, servers, stream.source, stream.sink, interval_ms):
        stream.start()
        began_s = time.time() + SETTLE_S
        time.sleep(SETTLE_S + seconds)
        stream.stop()
    return stream.seen.quantile_s(0.5, began_s), stream.seen.quantile_s(0.95, began_s)


def sweep(python: Path, servers: str, rate: int, seconds: float, turns: Turns) -> dict[int, float | None]:
    """Return the p50 of PyFlink for each interval of checkpoints; None where it falls behind."""
    part, settings = "p50_by_interval_ms", settings_of(rate=rate, seconds=seconds / 2)
    known = turns.known(part, settings)
    for ms in INTERVALS_MS:
        if (str(ms), 0) not in known:
            try:
                p50, p95 = flink_latencies(python, servers, rate, seconds / 2, ms)
                progress(f"  PyFlink, a checkpoint every {ms} ms: p50 {1e3 * p50:.0f} ms, p95 {1e3 * p95:.0f} ms")
            except RuntimeError as error:
                p50 = None
                progress(f"  PyFlink, a checkpoint every {ms} ms: {error}")
            known[str(ms), 0] = p50
            turns.keep(part, settings, str(ms), 0, p50)
    return {ms: known[str(ms), 0] for ms in INTERVALS_MS}


def settings_of(**more: Any) -> dict[str, Any]:
    """Return what turns must have in common to be compared."""
    return {"partitions": PARTITIONS, "settle_s": SETTLE_S, **more}


def swept_in_words(rate: int, p50_s: Mapping[int, float | None]) -> str:
    """Return what a sweep found."""
    found = ", ".join(f"{ms}: {'behind' if p50 is None else f'{1e3 * p50:.0f}'}" for ms, p50 in p50_s.items())
    return f"PyFlink at {rate:,}/s, p50 in ms by the interval of its checkpoints in ms: {found}."


def silence(spark: SparkSession, servers: str, seconds: float) -> float:
    """Return the longest silence at the sink while replicas change from two to three and back."""
    with running(spark, servers, 1_000, live=True, replicas=2) as (stream, found):
        time.sleep(seconds / 2)
        began_s = time.time()
        for count in (3, 2):
            slots(found, count)
            time.sleep(seconds / 2)
    return stream.seen.silence_s(began_s)


def flink_silence(python: Path, servers: str, seconds: float, interval_ms: int) -> float:
    """Return the same of PyFlink, on a cluster with its adaptive scheduler, after it has had time to warm up."""
    stream = Stream(servers, 1_000)
    with scratch() as path:
        arguments = kafka_arguments(servers, stream.source, stream.sink, path, interval_ms)
        with start_cluster(python, 3, job=LIVE_JOB, arguments=arguments) as cluster:
            stream.start()
            cluster.rescale(2)
            time.sleep(SETTLE_S)
            began_s = time.time()
            for count in (3, 2):
                cluster.rescale(count)
                time.sleep(seconds / 2)
            stream.stop()
    return stream.seen.silence_s(began_s)


def main() -> None:
    options = parse_options(__doc__)
    seconds = options.size(20.0, 10.0, 3.0)
    rates = RATES[: options.size(2, 2, 1)]
    spark = open_session("local[8]")
    # What the tests run has no PyFlink; a short run of it would say nothing.
    python = None if options.smoke else find_python()
    lines, details = [], {"partitions": PARTITIONS, "seconds": seconds}
    kept = (QUICK if options.quick else RESULTS) / "live.jsonl"
    if options.quick:
        kept.unlink(missing_ok=True)
    turns = Turns(kept)
    with scratch() as path, Broker(Path(path) / "kafka", port=0) as broker:
        for rate in rates:
            progress(f"live: {rate:,} events/s")
            sides = {
                "live": partial(latencies, spark, broker.servers, rate, seconds, live=True),
                "batches": partial(latencies, spark, broker.servers, rate, seconds, live=False),
            }
            about, interval_ms = "", None
            if python is not None:
                swept = sweep(python, broker.servers, rate, seconds, turns)
                kept_up = {ms: p50 for ms, p50 in swept.items() if p50 is not None}
                details[f"interval_ms_at_{rate}"] = interval_ms = min(kept_up, key=kept_up.__getitem__)
                about = swept_in_words(rate, swept)
                sides["PyFlink"] = partial(flink_latencies, python, broker.servers, rate, seconds, interval_ms)
            found = alternate(
                sides,
                options.repeats,
                warm_up=options.warm_up,
                show=lambda pair: f"p50 {1e3 * pair[0]:.0f} ms, p95 {1e3 * pair[1]:.0f} ms",
                turns=turns,
                part="latency",
                settings=settings_of(rate=rate, seconds=seconds, interval_ms=interval_ms),
            )
            details[f"at_{rate}"] = found
            for place, name in enumerate(("p50", "p95")):
                times = {side: [turn[place] for turn in turns] for side, turns in found.items()}
                shown = ", ".join(f"{1e3 * np.median(own):.0f} ms {side}" for side, own in times.items())
                what, note = f"latency {name}, {rate:,} events/s", f"{name} at {rate:,}/s: {shown}."
                promised = between(times["live"], [PROMISED_MS[name] / 1e3] * options.repeats)
                lines.append(Measured(what, f"{PROMISED_MS[name]:g} ms", "at most", 1.0, promised))
                ratio = between(times["live"], times["batches"])
                lines.append(Measured(what, "the same in batches", "at most", TARGET, ratio, note))
                against = between(times["live"], times["PyFlink"]) if python is not None else None
                lines.append(Measured(what, "PyFlink", "at most", 1.0, against, MISSING if python is None else about))
        events = options.size(400_000, 100_000, 3_000)
        progress(f"live: {events:,} events that wait")
        rates_of = alternate(
            {
                "live": partial(throughput, spark, broker.servers, events, live=True),
                "batches": partial(throughput, spark, broker.servers, events, live=False),
            },
            options.repeats,
            warm_up=options.warm_up,
            show=lambda rate: f"{rate:,.0f} events/s",
            turns=turns,
            part="events_per_s",
            settings=settings_of(events=events),
        )
        details["events_per_s"] = rates_of
        ratio = between(rates_of["live"], rates_of["batches"])
        lines.append(Measured("throughput of a full topic", "the same in batches", "at least", 0.7, ratio))
        quiet = {"live": partial(silence, spark, broker.servers, seconds)}
        interval_ms = details.get(f"interval_ms_at_{rates[0]}")
        if python is not None:
            quiet["PyFlink"] = partial(flink_silence, python, broker.servers, seconds, interval_ms)
        silences = alternate(
            quiet,
            options.repeats,
            warm_up=0,
            show=lambda gap_s: f"{1e3 * gap_s:.0f} ms",
            turns=turns,
            part="silence_s",
            settings=settings_of(seconds=seconds, interval_ms=interval_ms),
        )
        details["silence_s"], gaps = silences, silences["live"]
        against = between(gaps, silences["PyFlink"]) if python is not None else None
        what, itself = "longest silence at a change of replicas", between(gaps, [SILENCE_S] * len(gaps))
        lines.append(Measured(what, f"{SILENCE_S:g} s", "at most", 1.0, itself))
        note = MISSING if python is None else ""
        lines.append(Measured(what, "PyFlink's adaptive rescale", "at most", 0.2, against, note))
    spark.stop()
    report("live", "Live stages", lines, details, options, intro=f"{INTRO} {provenance(turns.rows)}")


if __name__ == "__main__":
    main()
