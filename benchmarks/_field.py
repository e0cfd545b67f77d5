"""The field: systems that run the Twitter detection from Kafka to Kafka, each in an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

from _connector import OTHER, Connector
from _flink import KAFKA_CONNECTOR
from _harness import ROOT, progress
from foretide.apps.twitter_detection import DETECTORS
from foretide.kafka import KafkaError, fetch

__all__ = ["OURS", "SYSTEMS", "Job", "System", "UnavailableError", "start"]

JOBS = ROOT / "benchmarks" / "field_jobs"
ENVIRONMENTS = ROOT / ".venv-field"


class UnavailableError(RuntimeError):
    """What a system needs cannot be had here: nothing that it could be blamed for."""


@dataclass(frozen=True)
class System:
    """A system of the field.

    Parameters
    ----------
    name : str
        What it is called.
    packages : tuple of str
        What its environment has; none for one that runs in ours.
    command : tuple of str
        How its job is started; ``{python}``, ``{bin}``, ``{workers}``, ``{folder}`` and ``{state}``, the folder from
        which it recovers, stand for what they say.
    rescaled : str
        How it gets another number of workers: "told" while it runs, by "another" process, or by a "restart".
    guarantee : str
        What it promises about events, as it is run here.
    prepared : tuple of str
        What makes its folder ready, once before it is first started.
    connector : str
        Whose connector for Kafka it needs: "spark", "flink", or none.
    """

    name: str
    packages: tuple[str, ...]
    command: tuple[str, ...]
    rescaled: str
    guarantee: str
    prepared: tuple[str, ...] = ()
    connector: str = ""

    def python(self) -> Path:
        """Return its Python, in an environment that is made where it is missing."""
        if not self.packages:
            return Path(sys.executable)
        home = ENVIRONMENTS / self.name.lower().replace(" ", "-")
        done = home / "installed"
        if not done.exists() or done.read_text(encoding="utf-8") != "\n".join(self.packages):
            progress(f"  {self.name}: installing {', '.join(self.packages)}")
            try:
                subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
                subprocess.run([str(home / "bin" / "pip"), "install", "-q", *self.packages], check=True)
            except subprocess.CalledProcessError as error:
                raise UnavailableError(f"{self.name}: expected pip to install {', '.join(self.packages)}") from error
            done.write_text("\n".join(self.packages), encoding="utf-8")
        return home / "bin" / "python"

    def jars(self) -> str:
        """Return the jars that it needs besides."""
        if not self.connector:
            return ""
        try:
            flinks = fetch([KAFKA_CONNECTOR]) if self.connector == "flink" else []
        except KafkaError as error:
            raise UnavailableError(f"{self.name}: {error}") from error
        found = flinks or Connector.found([pyspark.__version__, OTHER]).jars
        if not found:
            raise UnavailableError(f"{self.name}: expected Spark's connector for Kafka, and got none")
        return ",".join(map(str, found))


_OURS = ("{python}", "foretide_job.py", "{folder}", "{workers}")
OURS = (
    System("Foretide", (), (*_OURS, "batches"), "told", "exactly once"),
    System("Foretide live", (), (*_OURS, "live"), "told", "exactly once"),
)
SYSTEMS = (
    *OURS,
    System(
        "plain PySpark",
        (),
        ("{python}", "pyspark_job.py", "{workers}"),
        "restart",
        "at least once",
        connector="spark",
    ),
    System(
        "PyFlink",
        ("apache-flink==2.3.*",),
        ("{python}", "pyflink_job.py", "{workers}"),
        "restart",
        "exactly once",
        connector="flink",
    ),
    System(
        "Bytewax",
        ("bytewax==0.21.1", "confluent-kafka>=2.5,<3"),
        (
            *("{python}", "-m", "bytewax.testing", "bytewax_job:flow", "-p", "{workers}"),
            *("-r", "{state}", "-s", "1", "-b", "0"),
        ),
        "restart",
        "at least once",
        prepared=("{python}", "-m", "bytewax.recovery", "{state}", "2"),
    ),
    System("Quix Streams", ("quixstreams==3.28.1",), ("{python}", "quix_job.py"), "another", "exactly once"),
    System(
        "Pathway",
        ("pathway==0.33.0",),
        ("{bin}/pathway", "spawn", "--processes", "{workers}", "{python}", "pathway_job.py"),
        "restart",
        "at least once",
    ),
)


class Job:
    """A job that runs: its process groups."""

    def __init__(self, system: System, kafka: str, folder: Path, workers: int) -> None:
        self.system, self._folder = system, folder
        self._groups: list[subprocess.Popen[str]] = []
        python, self._state = system.python(), folder / "state"
        self._places = {"python": python, "bin": python.parent, "folder": folder / "run", "state": self._state}
        self._environment = {**os.environ, "FIELD_KAFKA": kafka, "FIELD_STATE": str(self._state)}
        self._environment |= {"FIELD_JARS": system.jars(), "FIELD_KEYWORDS": str(folder / "keywords.json")}
        if system.packages:
            # Processes that a system starts find the operators, and nothing of ours.
            self._environment["PYTHONPATH"] = str(JOBS)
        self._make_folder()
        self._begin(workers)

    def _make_folder(self) -> None:
        """Make its folder anew, so that nothing is left in it from which it could recover."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._state.mkdir(parents=True)
        tables = {detector.column: dict(detector.keywords) for detector, _ in DETECTORS}
        (self._folder / "keywords.json").write_text(json.dumps(tables), encoding="utf-8")
        if self.system.prepared:
            command = [part.format(**self._places) for part in self.system.prepared]
            subprocess.run(command, cwd=JOBS, env=self._environment, check=True, capture_output=True)

    def _begin(self, workers: int) -> None:
        command = [part.format(**self._places, workers=workers) for part in self.system.command]
        # A system that shares partitions among processes gets one for each worker.
        for _ in range(workers if self.system.rescaled == "another" else 1):
            with (self._folder / "job.out").open("a") as printed:
                self._groups.append(
                    subprocess.Popen(
                        command,
                        cwd=JOBS,
                        env=self._environment,
                        stdin=subprocess.PIPE,
                        stdout=printed,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                        text=True,
                    )
                )

    def rescale(self, workers: int) -> None:
        """Give it more workers, in the way that it has for that."""
        if self.system.rescaled == "told":
            told = self._groups[0].stdin
            assert told is not None
            told.write(f"{workers}\n")
            told.flush()
        elif self.system.rescaled == "another":
            self._begin(workers - len(self._groups))
        else:
            self.end()
            self._begin(workers)

    def kill(self) -> None:
        """Kill all of it, as a machine that is lost would."""
        self.end(signal.SIGKILL)

    def restart(self, workers: int) -> None:
        """Start it again after a kill."""
        self._begin(workers)

    def usage(self) -> tuple[float, float]:
        """Return the CPU seconds that it has used, and the memory that it holds, in MB; of all its processes."""
        cpu_s = held = 0.0
        for group in self._groups:
            try:
                parts = [psutil.Process(group.pid), *psutil.Process(group.pid).children(recursive=True)]
            except psutil.Error:
                continue
            for part in parts:
                try:
                    times = part.cpu_times()
                    cpu_s += times.user + times.system
                    # What processes share, such as forked workers, counts once.
                    held += part.memory_full_info().pss
                except psutil.Error:
                    continue
        return cpu_s, held / 2**20

    def check(self) -> None:
        """Raise if a process has ended."""
        if any(group.poll() is not None for group in self._groups):
            text = (self._folder / "job.out").read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"{self.system.name}: expected the job to run, it ended with\n{text[-3000:]}")

    def end(self, by: signal.Signals = signal.SIGTERM) -> None:
        """End all processes."""
        for group in self._groups:
            for one in (by, signal.SIGKILL):
                try:
                    os.killpg(group.pid, one)
                    group.wait(15)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    continue
            if group.stdin is not None:
                group.stdin.close()
            group.wait()
        self._groups.clear()


@contextmanager
def start(system: System, kafka: str, folder: Path, workers: int) -> Iterator[Job]:
    """Run the job of a system in a folder that is made anew; end it."""
    job = Job(system, kafka, folder, workers)
    try:
        yield job
    finally:
        job.end(signal.SIGKILL)
        time.sleep(1.0)
