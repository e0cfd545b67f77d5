"""Runs of examples/plain_job.py on a cluster, and what Spark's own event log and the machine say about them."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from _connector import OTHER, Connector
from foretide.advise.learning import arrivals
from foretide.commands.running.attach import launcher_path
from foretide.eventlogs.application import LoggedApplication, read_application
from foretide.eventlogs.files import find_logs
from foretide.sim.attached.curve import ArrivalCurve
from foretide.sim.attached.latencies import Latencies
from foretide.traces import load_trace

__all__ = ["CORE_S", "Load", "Place", "Run", "load_turns", "run_job", "turns"]

ROOT = Path(__file__).resolve().parents[1]
JOB = ROOT / "examples" / "plain_job.py"
# What an order takes of a task slot: mostly a wait, so that four slots do four times as much on two cores.
WAIT_MS, ROUNDS = 2.5, 20
CORE_S = WAIT_MS / 1000
PARTS = 8
_LIGHT = "-XX:TieredStopAtLevel=1"
# The rows of a batch, in its report.
_ROWS = re.compile(rb'QueryProgressEvent".*?"numInputRows":(\d+)')


@dataclass(frozen=True)
class Place:
    """Where jobs run: master, address of the driver, Kafka's broker if there is one, and the most executors."""

    master: str
    address: str
    broker: str | None
    folder: Path
    executors: int


@dataclass(frozen=True)
class Load:
    """The input of a run: a trace, how fast it passes, how many seconds of it, and its peak in executors' work."""

    trace: str
    speed: float
    seconds: float
    peak: float

    @property
    def scale(self) -> float:
        """What rates are multiplied by, so that the peak keeps `peak` task slots busy."""
        return self.peak / CORE_S / (load_trace(self.trace).peak_rate * self.speed)

    def rates(self) -> tuple[np.ndarray, np.ndarray]:
        """Return instants of the run, and rows per second from each on."""
        trace = load_trace(self.trace)
        at_s = np.arange(trace.rates.size) * trace.bin_s / self.speed
        kept = at_s < self.seconds
        return at_s[kept], trace.rates[kept] * self.scale * self.speed

    def curve(self, began_at_s: float) -> ArrivalCurve:
        """Return the rows that had come by when."""
        at_s, rates = self.rates()
        ends = np.append(at_s[1:], self.seconds)
        counts = np.concatenate([[0.0], np.cumsum(rates * (ends - at_s))])
        return ArrivalCurve.of(zip((began_at_s + np.append(at_s, self.seconds)).tolist(), counts.tolist(), strict=True))

    def options(self, folder: Path) -> list[str]:
        """Return the options of the job that say so; the trace is written as a file beside it."""
        trace = load_trace(self.trace)
        file = folder / f"{self.trace}.csv"
        lines = (f"{place * trace.bin_s:g},{rate:.6g}" for place, rate in enumerate(trace.rates.tolist()))
        file.write_text("second,events_per_second\n" + "\n".join(lines) + "\n")
        return [
            "--trace",
            str(file),
            "--speed",
            f"{self.speed:g}",
            "--scale",
            f"{self.scale:.6g}",
            "--parts",
            str(PARTS),
        ]


@dataclass(frozen=True)
class Run:
    """What one run gave."""

    executor_s: float
    p50_s: float
    p95_s: float
    rows: int
    turns: int
    changes: int
    cpu_share: float
    memory_mb: float
    return_s: float
    log: str

    def row(self) -> dict[str, Any]:
        """Return its figures as plain values."""
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in asdict(self).items()
            if name != "log"
        }


def run_job(place: Place, load: Load, name: str, settings: Mapping[str, str], attach: Sequence[str] | None) -> Run:
    """Run the job once, from a topic of its own and its feeder to a stop, and return what it gave."""
    folder = place.folder / name
    folder.mkdir(parents=True)
    logs = folder / "logs"
    logs.mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{logs}",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": place.address,
        "spark.driver.bindAddress": place.address,
        "spark.executor.memory": "768m",
        "spark.executor.cores": "1",
        # Eight virtual machines share two cores: what they compile is to be little.
        "spark.driver.defaultJavaOptions": _LIGHT,
        "spark.executor.defaultJavaOptions": _LIGHT,
        # Released executors finish what they do, whoever releases them.
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.replicationReattemptInterval": "1s",
        # Tasks go to whoever is free: Kafka's partitions are near to nobody here.
        "spark.locality.wait": "0s",
        **({"spark.jars": ",".join(map(str, Connector.of(OTHER).jars))} if place.broker else {}),
        **settings,
    }
    given = os.environ.get("PYSPARK_SUBMIT_ARGS", "").removesuffix("pyspark-shell")
    given += " ".join(f"--conf {key}={value}" for key, value in conf.items())
    environment = os.environ | {
        "MASTER": place.master,
        "PYSPARK_SUBMIT_ARGS": f"{given} pyspark-shell",
        "PYSPARK_PYTHON": sys.executable,
        "FORETIDE_STORE": str(folder / "runs.db"),
    }
    options = load.options(folder)
    work = ["--wait-ms", str(WAIT_MS), "--rounds", str(ROUNDS), "--trigger", "5"]
    source = ["--kafka", place.broker, "--topic", name] if place.broker else options
    before = [] if attach is None else [str(launcher_path()), *attach, "--json", str(folder / "attached.json"), "--"]
    job = [sys.executable, *before, str(JOB), *source, *work]
    if place.broker:
        _warm_up(place.broker, name)
    with (folder / "job.log").open("wb") as said:
        process = subprocess.Popen(job, env=environment, stdout=said, stderr=said, cwd=folder)
        try:
            _await_rows(process, logs, folder / "job.log")
            watched = _Watch(process.pid)
            began_at_s, sent = _feed(place, load, name, options, environment, watched, process)
            _drain(process, load, logs, sent)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                process.kill()
    _await_end(logs)
    [log] = find_logs(logs)
    application = read_application(log)
    said, where = folder / "attached.json", str(logs / log.name)
    return _run_of(application, load, began_at_s, watched, said, where, from_kafka=place.broker is not None)


def _warm_up(broker: str, topic: str) -> None:
    """Make the topic before the job looks for it, with an order in every partition, for a first batch."""
    admin = AdminClient({"bootstrap.servers": broker})
    admin.create_topics([NewTopic(topic, PARTS, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": broker})
    for part in range(PARTS):
        producer.produce(topic, b"order", partition=part)
    producer.flush()


def _await_rows(process: subprocess.Popen[bytes], logs: Path, said: Path) -> None:
    """Wait for a batch with rows in the event log: what starts Python and compiles plans is no part of a run."""
    deadline_s = time.monotonic() + 300
    while time.monotonic() < deadline_s:
        if process.poll() is not None:
            raise RuntimeError(
                f"job: expected it to run, got exit code {process.returncode}: {said.read_text()[-2000:]}"
            )
        if _rows_through(logs):
            return
        time.sleep(0.5)
    raise RuntimeError(f"job: expected a batch within 300 s, got none: {said.read_text()[-2000:]}")


def _rows_through(logs: Path) -> int:
    """Return the rows of all batches of which the event log tells."""
    found = (_ROWS.search(line) for path in logs.iterdir() for line in path.read_bytes().splitlines())
    return sum(int(one[1]) for one in found if one)


def _await_end(logs: Path) -> None:
    """Wait until Spark has closed the log: its virtual machine may outlive the job a little."""
    deadline_s = time.monotonic() + 60
    while any(logs.glob("*.inprogress")) and time.monotonic() < deadline_s:
        time.sleep(0.2)


def _feed(
    place: Place,
    load: Load,
    topic: str,
    options: Sequence[str],
    environment: Mapping[str, str],
    watched: _Watch,
    job: subprocess.Popen[bytes],
) -> tuple[float, float]:
    """Let the input come; return when it began and how many rows came. The job's own source began with its query."""
    if place.broker is None:
        began_at_s = time.time()
        while time.time() < began_at_s + load.seconds and job.poll() is None:
            time.sleep(0.5)
            watched.look()
        return began_at_s, math.inf
    command = [sys.executable, str(JOB), "--feed", "--kafka", place.broker, "--topic", topic, *options]
    feeder = subprocess.Popen(
        [*command, "--seconds", f"{load.seconds:g}"], env=dict(environment), stdout=subprocess.PIPE, text=True
    )
    while feeder.poll() is None and job.poll() is None:
        time.sleep(0.5)
        watched.look()
    said, _ = feeder.communicate()
    if feeder.returncode or job.poll() is not None:
        raise RuntimeError(f"input: expected it to come and the job to run, got {feeder.returncode}, {job.returncode}")
    words = said.split()
    return float(words[-1]), int(words[0]) + PARTS


def _drain(process: subprocess.Popen[bytes], load: Load, logs: Path, sent: float) -> None:
    """Wait until the last rows are through, or for long enough."""
    deadline_s = time.monotonic() + min(30.0, load.seconds / 4)
    while time.monotonic() < deadline_s and process.poll() is None and _rows_through(logs) < sent:
        time.sleep(1.0)


class _Watch:
    """CPU time and memory of the driver's Python process: what is attached is a part of it."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._began_s, self._first = time.monotonic(), self._cpu()
        self.memory_mb, self.cpu_share = 0.0, 0.0

    def _cpu(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def look(self) -> None:
        """Look at it."""
        try:
            self.memory_mb = max(self.memory_mb, self._process.memory_info().rss / 2**20)
            self.cpu_share = (self._cpu() - self._first) / max(1e-9, time.monotonic() - self._began_s)
        except psutil.Error:
            return


def _run_of(
    application: LoggedApplication,
    load: Load,
    began_at_s: float,
    watched: _Watch,
    attached: Path,
    log: str,
    *,
    from_kafka: bool,
) -> Run:
    until_s = began_at_s + load.seconds
    [query] = application.queries
    # The first batches were there before the input; the job's own source, of the shortest run, began with its query.
    curve, latencies, done = load.curve(began_at_s) if from_kafka else arrivals(query), Latencies(), 0.0
    for batch in query.batches:
        if from_kafka and batch.began_at_s < began_at_s:
            continue
        latencies.add(curve, done, done + batch.rows, batch.ended_at_s)
        done += batch.rows
    instants = np.arange(began_at_s, until_s, 1.0)
    there = [application.executors_at(at_s) for at_s in instants.tolist()]
    return Run(
        executor_s=application.executor_s(began_at_s, until_s),
        p50_s=latencies.quantile_s(0.5),
        p95_s=latencies.quantile_s(0.95),
        rows=query.rows,
        turns=turns(there, 1),
        changes=sum(one != other for one, other in pairwise(there)),
        cpu_share=watched.cpu_share,
        memory_mb=watched.memory_mb,
        return_s=_return_seconds(application, attached),
        log=log,
    )


def _return_seconds(application: LoggedApplication, attached: Path) -> float:
    """Return the longest that executors took that were wanted again; NaN where none were."""
    if not attached.exists():
        return math.nan
    decisions = [one for found in json.loads(attached.read_text()) for one in found["decisions"]]
    came_at_s = sorted(executor.came_at_s for executor in application.executors)
    waits = []
    for before, after in pairwise(decisions):
        if after["requested"] > max(before["requested"], application.executors_at(after["at_s"])):
            later = [at_s for at_s in came_at_s if at_s > after["at_s"]]
            waits += [later[0] - after["at_s"]] if later else []
    return max(waits, default=math.nan)


def turns(values: Sequence[float], least: float) -> int:
    """Return how often values turn round, by swings of at least `least`.

    >>> turns([1, 2, 3, 2, 3, 3, 1], 1), turns([1, 2, 3, 2, 3, 3, 1], 2)
    (3, 1)
    """
    found, way, low, high = 0, 0, values[0], values[0]
    for value in values:
        low, high = min(low, value), max(high, value)
        if way <= 0 and value - low >= least:
            found, way, high = found + (way < 0), 1, value
        elif way >= 0 and high - value >= least:
            found, way, low = found + (way > 0), -1, value
    return found


def load_turns(load: Load) -> int:
    """Return how often the load turns round by the work of an executor or more; a run begins with all executors."""
    _, rates = load.rates()
    return max(1, turns([load.peak, *(rates * CORE_S).tolist()], 1.0))
