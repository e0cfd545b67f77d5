"""Running PyFlink jobs beside the benchmarks: in a Python of its own, on a local cluster of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from _streams import scratch
from foretide.kafka.jars import fetch

__all__ = [
    "KAFKA_CONNECTOR",
    "LIVE_JOB",
    "Cluster",
    "WarmJobs",
    "calls",
    "find_python",
    "kafka_arguments",
    "kafka_job",
    "start_cluster",
]

ROOT = Path(__file__).resolve().parents[1]
JOB = ROOT / "benchmarks" / "flink_job.py"
#: Events in a bundle and in an Arrow batch that are tried, of which the fastest is compared: the defaults, and larger.
SWEPT = (("100000", "10000"), ("200000", "50000"), ("400000", "100000"))
#: For latency and gaps instead: small bundles that do not wait.
PROMPT = {
    "python.fn-execution.arrow.batch.size": "1000",
    "python.fn-execution.bundle.size": "1000",
    "python.fn-execution.bundle.time": "20",
}
#: Its connector for Kafka, of the newest Flink that has one.
KAFKA_CONNECTOR = "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2"
LIVE_JOB = ROOT / "benchmarks" / "flink_live_job.py"
MISSING = "PyFlink is not installed; `make flink` installs it into .venv-flink."


def find_python() -> Path | None:
    """Return the Python that has PyFlink: ``FLINK_PYTHON``, or that of ``.venv-flink``; None without one."""
    python = Path(os.environ.get("FLINK_PYTHON", str(ROOT / ".venv-flink" / "bin" / "python")))
    if not python.exists():
        return None
    found = subprocess.run([str(python), "-c", "import pyflink"], capture_output=True)
    return python if found.returncode == 0 else None


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "examples")]),
        # A local job would run all its Python in one process, and its parallel parts would wait for each other.
        "_python_worker_execution_mode": "process",
    }


class WarmJobs:
    """A process that runs a job as often as asked, so that every turn finds its virtual machine warm.

    Python workers are started by every job anew, as PyFlink does; the first quarter of a turn's events does not count.
    """

    def __init__(
        self, python: Path, rows: int, parallelism: int, *, job: Path = JOB, arguments: Sequence[str] = ()
    ) -> None:
        self._rows = rows
        command = [str(python), str(job), *arguments, "--turns", "--rows", str(rows), "--parallelism", str(parallelism)]
        self._log = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            command, env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )

    def rate(self, settings: Mapping[str, str], *, fused: bool = False) -> float:
        """Run a job and return its events per second."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with scratch() as path:
            given = [f"{key}={value}" for key, value in settings.items()]
            self._process.stdin.write(" ".join([str(path), "fused" if fused else "apart", *given]) + "\n")
            self._process.stdin.flush()
            # Flink may print before the answer; the process ends without one if the job fails.
            while (line := self._process.stdout.readline()).strip() != "done":
                if not line:
                    self._log.seek(0)
                    raise RuntimeError(f"PyFlink: expected the job to finish, got\n{self._log.read()[-4000:]}")
            instants, counts = calls(path)
        passed = np.cumsum(counts)
        skip = int(np.searchsorted(passed, 0.25 * passed[-1]))
        return float((passed[-1] - passed[skip]) / (instants[-1] - instants[skip]))

    def tuned(self, *, fused: bool) -> dict[str, str]:
        """Return the settings of the sweep under which the job is fastest."""
        rates = {}
        for bundle, arrow in SWEPT:
            settings = {"python.fn-execution.bundle.size": bundle, "python.fn-execution.arrow.batch.size": arrow}
            rates[bundle, arrow] = (self.rate(settings, fused=fused), settings)
        return max(rates.values(), key=lambda one: one[0])[1]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._log.close()


def kafka_arguments(servers: str, source: str, sink: str, path: Path, interval_ms: int) -> list[str]:
    """Return the arguments of the job from Kafka to Kafka, whose checkpoints are in a folder."""
    [jar] = [jar for jar in fetch([KAFKA_CONNECTOR]) if jar.name.startswith("flink-sql-connector-kafka")]
    given = {"servers": servers, "source": source, "sink": sink, "jar": jar, "checkpoints": path / "checkpoints"}
    return [part for name, value in given.items() for part in (f"--{name}", str(value))] + [
        "--interval-ms",
        str(interval_ms),
    ]


@contextmanager
def kafka_job(python: Path, servers: str, source: str, sink: str, interval_ms: int) -> Iterator[None]:
    """Run the job from Kafka to Kafka within the block, in a process of its own with a virtual machine of its own."""
    with scratch() as path, (path / "log").open("wb") as log:
        command = [str(python), str(LIVE_JOB), *kafka_arguments(servers, source, sink, path, interval_ms)]
        job = subprocess.Popen(command, env=_environment(), stdout=log, stderr=log, start_new_session=True)
        try:
            yield
        except BaseException as error:
            error.add_note((path / "log").read_text(errors="replace")[-3000:])
            raise
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()


def calls(progress: Path) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return when the last UDF was called and with how many rows, over all workers."""
    lines = [line.split() for file in sorted(progress.glob("*.txt")) for line in file.read_text().splitlines()]
    whole = sorted((float(line[0]), int(line[1])) for line in lines if len(line) == 2)
    return np.array([instant for instant, _ in whole]), np.array([rows for _, rows in whole], dtype=np.int64)


class Cluster:
    """A cluster with the adaptive scheduler, and one job on it."""

    def __init__(self, progress: Path, port: int) -> None:
        self.progress, self._url = progress, f"http://localhost:{port}"

    def jobs(self) -> list[dict[str, Any]]:
        """Return the jobs."""
        found: list[dict[str, Any]] = self._ask("/jobs/overview")["jobs"]
        return found

    def wait_until_running(self, timeout_s: float = 90.0) -> None:
        """Return once the job runs; it does not while it starts, or restarts."""
        states: list[str] = []

        def is_running() -> bool:
            states[:] = [job["state"] for job in self.jobs()]
            return "RUNNING" in states

        _wait_until(is_running, timeout_s, lambda: f"a job to run, got {', '.join(states) or 'none'}")

    def rescale(self, parallelism: int) -> float:
        """Ask the scheduler for another parallelism of all operators of the job; return the instant of asking."""
        self.wait_until_running()
        job = next(job["jid"] for job in self.jobs())
        path = f"/jobs/{job}/resource-requirements"
        wanted = {vertex: {"parallelism": {"lowerBound": 1, "upperBound": parallelism}} for vertex in self._ask(path)}
        asked_s = time.time()
        self._ask(path, json.dumps(wanted).encode())
        return asked_s

    def _ask(self, path: str, body: bytes | None = None) -> Any:
        method = "GET" if body is None else "PUT"
        request = urllib.request.Request(self._url + path, body, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"{}")


@contextmanager
def start_cluster(
    python: Path, slots: int, port: int = 8391, *, job: Path = JOB, arguments: Sequence[str] = ()
) -> Iterator[Cluster]:
    """Start a job manager and a task manager on this machine, and a job on them; stop them in the end."""
    home = Path(
        subprocess.run(
            [str(python), "-c", "import os, pyflink; print(os.path.dirname(pyflink.__file__))"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    )
    with scratch() as path:
        conf, progress = path / "conf", path / "progress"
        shutil.copytree(home / "conf", conf)
        progress.mkdir()
        _configure(conf / "config.yaml", slots, port, path)
        environment = {
            **_environment(),
            "FLINK_CONF_DIR": str(conf),
            "FLINK_LOG_DIR": str(path),
            "FLINK_PID_DIR": str(path),
            "FLINK_HOME": str(home),
        }
        # In the foreground and each in a group of its own, so that they and their Python workers can be ended by id.
        parts = [
            subprocess.Popen(
                ["bash", str(home / "bin" / script), "start-foreground"],
                env=environment,
                stdout=(path / f"{script}.out").open("w"),
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            for script in ("jobmanager.sh", "taskmanager.sh")
        ]
        try:
            cluster = Cluster(progress, port)
            _wait_until(
                lambda: cluster._ask("/overview").get("slots-available", 0) >= slots,
                90.0,
                lambda: f"{slots} free slots",
            )
            jar = next((home / "opt").glob("flink-python*.jar"))
            _submit([str(python), str(job), *arguments], environment, port, progress, jar)
            cluster.wait_until_running()
            yield cluster
        finally:
            for part in reversed(parts):
                _end(part)


def _end(part: subprocess.Popen[bytes]) -> None:
    """End a process and those it has started."""
    part.terminate()
    try:
        part.wait(timeout=15)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(part.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    part.wait(timeout=15)


def _configure(file: Path, slots: int, port: int, path: Path) -> None:
    text = file.read_text(encoding="utf-8")
    java = next(line for line in text.splitlines() if "--add-exports" in line).strip().removeprefix("all: ")
    settings = {
        "env.java.opts.all": java,
        "jobmanager.rpc.address": "localhost",
        "jobmanager.bind-host": "localhost",
        "jobmanager.memory.process.size": "1600m",
        "jobmanager.scheduler": "adaptive",
        "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "1 s",
        "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "0 s",
        "taskmanager.bind-host": "localhost",
        "taskmanager.host": "localhost",
        "taskmanager.numberOfTaskSlots": str(slots),
        "taskmanager.memory.process.size": "3g",
        "rest.address": "localhost",
        "rest.port": str(port),
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": f"file://{path}/checkpoints",
    }
    file.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in settings.items()), encoding="utf-8")


def _submit(job: Sequence[str], environment: Mapping[str, str], port: int, progress: Path, jar: Path) -> None:
    settings = {
        "execution.target": "remote",
        "rest.address": "localhost",
        "rest.port": str(port),
        "pipeline.jars": jar.as_uri(),
        **PROMPT,
    }
    command = [*job, "--rows", "0", "--rate", "5000", "--parallelism", "4", "--detached"]
    command += ["--progress", str(progress)]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, timeout=180)
    if done.returncode:
        raise RuntimeError(f"PyFlink: expected the job to be submitted, got\n{done.stderr[-4000:]}")


def _wait_until(condition: Callable[[], bool], timeout_s: float, expected: Callable[[], str]) -> None:
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        try:
            if condition():
                return
        except OSError:
            pass
        time.sleep(0.5)
    raise TimeoutError(f"Flink: within {timeout_s:.0f} s, expected {expected()}")
