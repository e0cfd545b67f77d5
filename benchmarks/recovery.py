"""How long until latency is as before, after an executor, a worker or the driver is killed, which starts again at once.

The Twitter detection at an even rate, on a cluster of two executors in processes of their own, all of it in a process
that can be killed; first in batches, then live, to a topic. Each fault comes in a stretch of calm: the p95 of batches
is noted, something is killed, and time runs until three batches in a row have a p95 of at most 1.25 times that. What
waited meanwhile is through by then, since its latency counts too. Batches of a live stage are seconds. With a dead
driver goes Spark's virtual machine; the seconds have its start in them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from _detection import detection
from _harness import Measured, Options, Ratio, kept_rows, parse_options, progress, report
from _streams import constant_trace, open_session, scratch
from foretide.kafka import Broker, Cluster
from foretide.spark import EngineSettings, start
from foretide.topology import Topology

RATE = 1_000
# Batches in a row that must be as before, and how much longer than before that may be.
CALM, LONGER = 3, 1.25
TIMEOUT_S = 180.0
DRIVE, TOPIC = "--drive", "detected"
# What is killed, in batches and live, and the seconds within which all is to be as before.
FAULTS = {
    "executor": ("an executor killed", 10.0),
    "driver": ("the driver killed and started again", 30.0),
    "live executor": ("live, an executor killed", 10.0),
    "live worker": ("live, a worker killed", 10.0),
}


def drive(path: Path, master: str, servers: str) -> None:
    """Run the topology until this process is killed, live where there is a broker, and write down every batch."""
    spark = open_session(master, {"spark.task.maxFailures": "8", "spark.ui.showConsoleProgress": "false"})
    topology = topology_for(path, servers)
    settings = EngineSettings(trigger_s=0.25, kept_batches=10_000, live=bool(servers))
    written = 0
    with start(topology, spark, path / "run", settings) as running:
        if servers:  # as many tasks as there are executors, in a stage that is one chain
            first, *others = (operator.id for operator in topology.operators)
            running.change_replicas({first: 2, **dict.fromkeys(others, 0)})
        with (path / "batches.jsonl").open("a", encoding="utf-8") as file:
            while True:
                running.check()
                batches = running.batches()
                for batch in batches[written:]:
                    if batch.latency.count:
                        row = {"at_s": batch.started_at_s, "p95_s": batch.latency.quantile_s(0.95)}
                        file.write(json.dumps(row) + "\n")
                        file.flush()
                written = len(batches)
                time.sleep(0.05)


def topology_for(path: Path, servers: str) -> Topology:
    """Return the topology; it sends what it found to a topic where there is a broker."""
    sink = {"kind": "kafka", "servers": servers, "topic": TOPIC} if servers else None
    return detection({"trace": str(path / "trace.csv")}, replicas=(1, 4, 1), sink=sink)


class Driven:
    """The process that runs the topology, and what it wrote down."""

    def __init__(self, path: Path, master: str, servers: str = "") -> None:
        self._path, self._arguments = path, [str(path), master, servers]
        self.start()

    def start(self) -> None:
        """Start it; one that ran before goes on where it was."""
        with (self._path / "log").open("ab") as log:
            command = [sys.executable, __file__, DRIVE, *self._arguments]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        """Kill it with its virtual machine, at once."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def kill_executor(self) -> None:
        """Kill an executor; where Spark runs in one process, a Python worker."""
        executors = [process for process in self._below() if "CoarseGrainedExecutorBackend" in _command(process)]
        if executors:
            executors[-1].kill()
        else:
            self.kill_worker()

    def kill_worker(self) -> None:
        """Kill the Python worker that has computed most: others may have nothing to do."""
        daemons = [process for process in self._below() if "-m foretide.spark.pool.daemon" in _command(process)]
        numbers = {process.pid for process in daemons}
        workers = [process for process in daemons if process.ppid() in numbers]
        max(workers, key=lambda process: process.cpu_times().user).kill()

    def _below(self) -> list[psutil.Process]:
        return psutil.Process(self._process.pid).children(recursive=True)

    def since(self, at_s: float) -> list[dict[str, float]]:
        """Return the batches that began after an instant."""
        return [row for row in kept_rows(self._path / "batches.jsonl") if row["at_s"] >= at_s]

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait for something, while the process runs."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while not condition():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                said = (self._path / "log").read_text(errors="replace").splitlines()
                raise TimeoutError("expected batches as before: " + " | ".join(said[-5:]))
            time.sleep(0.05)


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # it has ended
        return ""


def seconds_until_calm(driven: Driven, fault: Callable[[], None], steady_s: float) -> dict[str, float]:
    """Let it be calm for a while, let a fault happen, and return the seconds until all is as before."""
    began_s = time.time()
    driven.wait(lambda: len(driven.since(began_s)) > CALM and time.time() - began_s >= steady_s)
    before_s = median(row["p95_s"] for row in driven.since(began_s))
    killed_s = time.time()
    fault()

    def calm() -> bool:
        last = driven.since(killed_s)[-CALM:]
        return len(last) == CALM and all(row["p95_s"] <= LONGER * before_s for row in last)

    driven.wait(calm)
    return {"seconds": driven.since(killed_s)[-CALM]["at_s"] - killed_s, "p95_before_s": before_s}


def measure(options: Options) -> dict[str, list[dict[str, float]]]:
    """Return what each fault cost, round by round, in a run of batches that goes on and on, and in a live one."""
    with scratch() as path, Broker(path / "broker", port=0) as broker:
        Cluster(broker.servers, "benchmark").ensure_topic(TOPIC, 3)
        return {**_measure(options, path / "batches", ""), **_measure(options, path / "live", broker.servers)}


def _measure(options: Options, path: Path, servers: str) -> dict[str, list[dict[str, float]]]:
    steady_s = options.size(15.0, quick=5.0, smoke=1.0)
    path.mkdir()
    Path(constant_trace(path, options.size(RATE, RATE, 100), 3_600)).rename(path / "trace.csv")
    driven = Driven(path, options.size("local-cluster[2,1,1024]", "local-cluster[2,1,1024]", "local[2]"), servers)

    def restart() -> None:
        driven.kill()
        driven.start()

    faults = {"executor": driven.kill_executor, "driver": restart}
    if servers:
        faults = {"live executor": driven.kill_executor, "live worker": driven.kill_worker}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in faults}
    try:
        driven.wait(lambda: len(driven.since(0.0)) > CALM)
        for number in range(options.repeats):
            for name, fault in faults.items():
                found[name].append(seconds_until_calm(driven, fault, steady_s))
                progress(f"  {number + 1}/{options.repeats}  {name}: {found[name][-1]['seconds']:.1f} s")
    finally:
        driven.kill()
    return found


def main() -> None:
    if DRIVE in sys.argv:
        path, master, servers = sys.argv[-3:]
        drive(Path(path), master, servers)
        return
    options = parse_options(__doc__)
    progress(f"recovery: {', '.join(what for what, _ in FAULTS.values())}")
    found: dict[str, Any] = measure(options)
    lines = [
        Measured(f"back to the latency before: {what}", "seconds", "at most", target, _seconds(found[name]))
        for name, (what, target) in FAULTS.items()
    ]
    intro = f"The Twitter detection at {RATE:,} events/s on two executors of one core each. Seconds, not ratios."
    report("recovery", "Recovery", lines, {"faults": found}, options, intro=intro)


def _seconds(rows: list[dict[str, float]]) -> Ratio:
    return Ratio(tuple(row["seconds"] for row in rows))


if __name__ == "__main__":
    main()
