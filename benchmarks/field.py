"""The field side by side: the Twitter detection from Kafka to Kafka on ours and on five other systems.

Ours is Foretide in batches and live; the others are plain PySpark, PyFlink, Bytewax, Quix Streams and Pathway. The same
events, the same four Python operators, the same broker, two workers, each system in an environment of its own that this
script makes. Systems that take events one by one run the operators on one event, Foretide, Spark and Flink on batches:
each as its own guide would have it, and each with a folder to recover from that is made anew for every job. An event is
there when a consumer that reads what is committed has it.

- Throughput: a topic that is full; events at the sink per second of CPU that all processes of the system used.
- Latency: events at an even rate, from when each was sent to when it is there; memory meanwhile.
- Rescale: from one worker to two, in the way that the system has; the longest silence at the sink.
- Recovery: all processes killed and started again at once; silence, events that are missing, events that came twice.

What a system fails at is kept as what was found of it. One that cannot be installed here is skipped. What was measured
is kept round by round, with its commit, in `benchmarks/results/field.jsonl`: the same command goes on where it was
stopped.
"""

from __future__ import annotations

import argparse
import math
import re
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from _field import OURS, SYSTEMS, Job, System, UnavailableError, start
from _field_streams import PARTITIONS, Sink, fill, sending
from _harness import ROOT, Measured, Options, Ratio, Table, Turns, kept_turns, progress, report, rotated
from _report import provenance
from _streams import scratch
from foretide.kafka import Broker, Cluster

WORKERS = 2
RATES = (1_000, 5_000)
START_S = 120.0
#: How long events may take to come after the last was sent, until they count as lost.
LATE_S = 90.0
#: What a turn of the benchmark holds: all figures of a system.
ALL = "figures"
#: What stands for a figure of a system that could not be had here, and of one that failed at it.
SKIPPED, FAILED = "skipped", "failed"
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
    wanted = [one.name for one in OURS] if given.smoke else given.systems.split(",")
    turns = kept_turns("field", options)
    with scratch() as path, Broker(path / "broker", port=0, heap_mb=768) as broker:
        measure([one for one in SYSTEMS if one.name in wanted], Field(broker.servers, path, options), options, turns)
    write(turns.rows, options)


def measure(systems: Sequence[System], field: Field, options: Options, turns: Turns) -> None:
    """Measure what is not measured yet; a system that cannot be had here is skipped."""
    # Of all systems: those that are not asked for now stay in the tables.
    known = {one.name: turns.known(one.name, field.settings(one)) for one in SYSTEMS}
    absent = set[str]()
    for number in range(options.repeats):
        for system in rotated(systems, number):
            if (ALL, number) in known[system.name] or system.name in absent:
                continue
            try:
                found = field.measure(system)
            except UnavailableError as error:
                absent.add(system.name)
                progress(f"  {SKIPPED}: {error}")
                continue
            turns.keep(system.name, field.settings(system), ALL, number, found)
            progress(f"  {number + 1}/{options.repeats} {system.name}: {shown(found)}")


def shown(row: Mapping[str, Any]) -> str:
    """Return the figures of a row as text, and what failed."""
    figures = [f"{name} {row[name]:,.4g}" for name in (*FIGURES, *MORE) if row.get(name) is not None]
    return "  ".join([*figures, *(f"{part} failed: {why}" for part, why in row["failed"].items())])


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

    def settings(self, system: System) -> dict[str, Any]:
        """Return what figures of a system must have in common to belong together."""
        return {**self._size, "workers": WORKERS, "partitions": PARTITIONS, "packages": list(system.packages)}

    def measure(self, system: System) -> dict[str, Any]:
        """Return all figures of a system, and of each part that it has failed at, why."""
        parts: dict[str, Callable[[], dict[str, float]]] = {"throughput": lambda: self.throughput(system)}
        if not self._smoke:
            for rate in RATES:
                parts[f"latency at {rate:,}/s"] = partial(self.latency, system, rate)
            parts["rescale"] = lambda: self.disturbed(system, "rescale", lambda job: job.rescale(WORKERS), workers=1)
            parts["recovery"] = lambda: self.disturbed(system, "recovery", _kill_and_restart, workers=WORKERS)
        found, failed = dict[str, float](), dict[str, str]()
        for part, figures in parts.items():
            try:
                found |= figures()
            except UnavailableError:
                raise
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                failed[part] = reason(error, self._path)
        if self._smoke and failed:
            raise RuntimeError(f"{system.name}: expected figures, got {failed}")
        return {**found, "failed": failed}

    def throughput(self, system: System) -> dict[str, float]:
        """Return how fast a system works through a topic that is full."""
        events = int(self._size["events"])
        if not self._full:
            self._full = self._topic("full")
            fill(self._servers, self._full, events)
        with self._job(system, self._full) as (job, sink):
            consumer = Sink(self._servers, sink)
            consumer.wait(job, START_S)
            samples, most_s = [Sample(time.monotonic(), job.usage()[0], 1)], self._size["warm_s"] + self._size["full_s"]
            while samples[-1].events < events and samples[-1].at_s < samples[0].at_s + most_s:
                came = len(consumer.read(0.1, parse=False))
                samples.append(Sample(time.monotonic(), job.usage()[0], samples[-1].events + came))
                job.check()
            consumer.close()
        first, last = counted(samples, events, self._size["warm_s"])
        done = last.events - first.events
        if not done:
            raise RuntimeError(
                f"expected events at the sink in {most_s:g} s, got none after the first {first.events:,}"
            )
        return {
            "events_per_s": done / (last.at_s - first.at_s),
            "events_per_cpu_s": done / max(last.cpu_s - first.cpu_s, 1e-9),
        }

    def latency(self, system: System, rate: int) -> dict[str, float]:
        """Return how long events take that come at an even rate."""
        source = self._topic("even")
        seconds = self._size["warm_s"] + self._size["even_s"]
        with self._job(system, source) as (job, sink):
            consumer = self._ready(job, source, sink)
            with sending(self._servers, source, rate):
                seen = consumer.read(seconds)
                _, held_mb = job.usage()
                job.check()
            consumer.close()
        late_ms = 1e3 * np.array([at - sent for at, _, sent in seen if at > seen[0][0] + self._size["warm_s"]])
        if not late_ms.size:
            raise RuntimeError(f"expected events at the sink for {seconds:g} s, got {len(seen):,} at first only")
        p50, p95, p99 = np.quantile(late_ms, (0.5, 0.95, 0.99))
        named = {f"p50_ms_{rate}": p50, f"p95_ms_{rate}": p95, f"p99_ms_{rate}": p99, "memory_mb": held_mb}
        return {name: float(value) for name, value in named.items()}

    def disturbed(self, system: System, name: str, disturb: Callable[[Job], None], workers: int) -> dict[str, float]:
        """Return the longest silence after something happens, and what was lost or repeated over it."""
        source, rate = self._topic("even"), RATES[0]
        with self._job(system, source, workers) as (job, sink):
            consumer = self._ready(job, source, sink)
            with sending(self._servers, source, rate) as sent:
                seen = consumer.read(self._size["warm_s"])
                at_s = time.time()
                disturb(job)
                seen += consumer.read(30.0)
                ended_s = time.time()
                sent.stop()
                # What only comes late is not lost.
                while len({id for _, id, _ in seen}) < sent.events and time.time() < ended_s + LATE_S:
                    seen += consumer.read(2.0)
                seen += consumer.read(2.0)
            job.check()
            consumer.close()
        came_s = [at for at, _, _ in seen]
        found = {f"{name}_silence_s": silence(came_s, at_s, max([ended_s, *came_s]))}
        if name == "recovery":
            found |= missed([id for _, id, _ in seen], sent.events)
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


@dataclass(frozen=True)
class Sample:
    """The time, the CPU that a job has used, and the events that have come out of it until then."""

    at_s: float
    cpu_s: float
    events: int


def counted(samples: Sequence[Sample], events: int, warm_s: float) -> tuple[Sample, Sample]:
    """Return the samples between which throughput counts: after the first seconds, or the first fifth of all events.

    A system that is through with all of them sooner must not be measured while there is nothing to do.
    """
    if samples[-1].events >= events:
        warm = [one for one in samples if one.events <= events / 5] or list(samples[:1])
        return warm[-1], samples[-1]
    return next((one for one in samples if one.at_s >= samples[0].at_s + warm_s), samples[0]), samples[-1]


def silence(came_s: Sequence[float], begin_s: float, end_s: float) -> float:
    """Return the longest time without an event between two instants, the last of them included."""
    return float(np.diff([begin_s, *sorted(at for at in came_s if begin_s < at < end_s), end_s]).max())


def missed(ids: Sequence[int], sent: int) -> dict[str, float]:
    """Return how many of the events that were sent did not come, and how many came once more."""
    seen = Counter(ids)
    lost = sum(id not in seen for id in range(sent))
    return {"lost": float(lost), "repeated": float(sum(count - 1 for count in seen.values()))}


def reason(error: BaseException, path: Path) -> str:
    """Return why something failed: the last error in its text, or its last line, without folders of this machine."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    told = [line for line in lines if re.search(r"error|exception", line, re.IGNORECASE)] or lines
    return told[-1].replace(str(path), "").replace(str(ROOT), "")[:300]


def _kill_and_restart(job: Job) -> None:
    job.kill()
    job.restart(WORKERS)


def write(kept: Sequence[Mapping[str, Any]], options: Options) -> None:
    """Write the tables: ours against the best of the others in each round, and all figures of all systems."""
    rows = [{"system": row["part"], "round": row["turn"], **row["value"]} for row in kept]
    rounds: dict[int, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        rounds.setdefault(row["round"], {})[row["system"]] = row
    best, silent = FIGURES[0], MORE[1]
    lines = [
        Measured(f"{system.name}: {what}", "the best of the others", sense, target, against(rounds, system, *of))
        for what, sense, target, of in (
            ("events per second of CPU", "at least", 1.5, (best, max, 0.0)),
            ("silence at a rescale", "at most", 0.2, (silent, min, math.inf)),
        )
        for system in OURS
    ]
    columns = (*FIGURES, *MORE)
    cells = [[one.name, one.guarantee, *(figure(rows, one.name, column) for column in columns)] for one in SYSTEMS]
    about = f"Medians over rounds; times in ms or s as the column says, memory in MB; {SKIPPED}: not measured here:"
    intro = (
        f"The Twitter detection from Kafka to Kafka, {WORKERS} workers each, all figures as a consumer sees them that"
        " reads what is committed. Others were set up by their own guides: all operators in one call for plain PySpark,"
        " on Arrow batches of up to 100,000 rows, and for PyFlink, with a checkpoint every 200 ms; batches of 1,000"
        " messages for Bytewax, transactions every 50 ms for Quix"
        f" Streams, commits every 10 ms for Pathway.{failures(rows)} {provenance(kept)}"
    )
    table = Table(about, ["system", "promise", *columns], cells)
    packages = ["pyspark", "confluent-kafka"]
    details = {"rows": list(kept)}
    report("field", "The field", lines, details, options, intro=intro, tables=[table], packages=packages)


def failures(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return in how many rounds which system failed at what, and why in the last of them."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for part, why in row["failed"].items():
            found.setdefault((row["system"], part), []).append(why)
    told = [f"{system}, {part}, in {len(whys)}: {whys[-1]}" for (system, part), whys in found.items()]
    return f" Rounds that failed: {'; '.join(told)}." if told else ""


def against(
    rounds: Mapping[int, Mapping[str, Mapping[str, Any]]],
    system: System,
    name: str,
    best: Callable[[list[float]], float],
    failed: float,
) -> Ratio | None:
    """Return a figure of ours ÷ the best of the others, of every round that has both; where ours failed, the worst."""
    found, ours = [], {one.name for one in OURS}
    for systems in rounds.values():
        others = [row[name] for other, row in systems.items() if other not in ours and row.get(name) is not None]
        if system.name in systems and others:
            own = systems[system.name].get(name)
            found.append(failed if own is None else own / best(others))
    return Ratio(tuple(found)) if found else None


def figure(rows: Sequence[Mapping[str, Any]], system: str, name: str) -> str:
    """Return the median of a system's figure as text, or that it failed at it, or was not measured at all."""
    measured = [row for row in rows if row["system"] == system]
    known = [row[name] for row in measured if row.get(name) is not None]
    return f"{median(known):,.4g}" if known else FAILED if measured else SKIPPED


if __name__ == "__main__":
    main()
