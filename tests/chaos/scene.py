"""What faults happen to: servers, a driver that is started again when it was killed, events, and their results."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import psutil
from confluent_kafka import Producer
from controller import SteeringProcess
from faulty_proxy import FaultyProxy
from postgres_server import PostgresServer
from run_processes import command_of, python_workers
from topics import Topics

from foretide.commands.machine.s3_server import S3Server
from foretide.kafka import Broker
from foretide.kafka.broker import find_broker

__all__ = ["BrokenError", "Scene"]

JOB = Path(__file__).with_name("chaos_job.py")
# What makes the clocks of Python processes jump.
CLOCK = Path(__file__).with_name("clock")
WORDS = ("tide", "ebb", "flood", "surge", "lull", "wave", "spring", "neap")
PARTITIONS = 3
#: Events sent in a second.
RATE = 120
_THROUGH_S = 240.0
Row: TypeAlias = tuple[Any, ...]
# The run's files are on a disk of their own, which can be filled.
_DISK = "192m"
_FULL = ("No space left on device", "the disk is full")


class BrokenError(AssertionError):
    """A run did not survive: rows are lost or come twice, or it ended by itself."""


class Scene:
    """One run, and all that it needs.

    Parameters
    ----------
    root : Path
        An empty directory.
    seed : int
        Of what the run and its input do by chance.
    kind : {"disk", "s3", "live", "live-postgres"}
        Where queued edges and states are; or that the run is live, to Kafka or to PostgreSQL.
    """

    def __init__(self, root: Path, seed: int, kind: str) -> None:
        self.root, self._in_s3, self._live = root, kind == "s3", kind.startswith("live")
        self._sinks = {"live": ("topic",), "live-postgres": ("table",)}.get(kind, ("topic", "table"))
        self._seed, self._numbers = seed, random.Random(seed)
        self._closing, self._stopped = ExitStack(), threading.Event()
        self._driver: subprocess.Popen[bytes] | None = None
        self._known: dict[int, psutil.Process] = {}
        self._sent: list[tuple[int, str]] = []
        self._failed: list[str] = []
        self._was_full = False
        self.starts = 0

    def __enter__(self) -> Self:
        stack = self._closing
        self.disk.mkdir()
        mounted = os.geteuid() == 0 and self._mount()
        if mounted:
            stack.callback(lambda: subprocess.run(["umount", "-l", str(self.disk)], check=False))
        self.has_own_disk = mounted
        self.broker = Broker(self.root / "kafka", port=0)
        stack.callback(lambda: self.broker.stop(kill=True))
        self.broker.start()
        self.database = PostgresServer()
        stack.callback(self.database.close)
        self.s3: S3Server | None = None
        self.proxy: FaultyProxy | None = None
        if self._in_s3:
            self.s3 = S3Server(self.root / "objects", ["runs"])
            stack.callback(lambda: self.s3.stop())
            self.s3.start()
            self.proxy = FaultyProxy(int(self.s3.endpoint.rpartition(":")[2]))
            stack.callback(self.proxy.close)
        for topic in ("events", "results"):
            Topics(self.broker).cluster.ensure_topic(topic, PARTITIONS)
        self.database.ask("CREATE SCHEMA chaos")
        self.controller = SteeringProcess(self.root, self._path, self._environment())
        self.start_driver()
        stack.callback(self._end_driver)
        stack.callback(self.controller.end)
        self._feeding = threading.Thread(target=self._feed, daemon=True)
        self._feeding.start()
        stack.callback(self._stopped.set)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    def start_driver(self) -> None:
        """Start the driver program, which goes on where the last one was."""
        self.starts += 1
        given = self.root / "settings.json"
        settings = {
            "root": str(self.root),
            "path": self._path,
            "store": str(self.controller.store),
            "name": self._run,
            "checkpoint": str(self.disk / "checkpoints"),
            "master": "local-cluster[2,1,1024]",
            "seed": self._seed + self.starts,
            "servers": self.broker.servers,
            "source": "events",
            "sink": "results",
            "sinks": self._sinks,
            "live": self._live,
            "database": self.database.url("chaos"),
            "ended": str(self._ended),
        }
        given.write_text(json.dumps(settings))
        with self.log.open("wb") as log:
            self._driver = subprocess.Popen(
                [sys.executable, str(JOB), str(given)],
                stdout=log,
                stderr=log,
                env=self._environment(),
                start_new_session=True,
            )

    @property
    def _path(self) -> str:
        return "s3://runs/chaos" if self._in_s3 else str(self.disk / "run")

    @property
    def _run(self) -> str:
        """What the present driver's run is called where it is recorded."""
        return f"chaos-{self.starts}"

    @property
    def disk(self) -> Path:
        """Where the run's files are."""
        return self.root / "disk"

    def fill_disk(self) -> None:
        """Leave no room on the run's disk."""
        self._was_full = True
        found = os.statvfs(self.disk)
        with (self.disk / "filled").open("wb") as file, suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, found.f_bavail * found.f_frsize)

    def free_disk(self) -> None:
        """Make room on the run's disk again."""
        (self.disk / "filled").unlink()

    def set_clock(self, seconds: float) -> None:
        """Let the clocks of the run's Python processes be off."""
        written = self.root / "clock.new"
        written.write_text(str(seconds))
        written.replace(self.root / "clock")

    @property
    def log(self) -> Path:
        """What the driver says."""
        return self.root / f"driver-{self.starts}.log"

    @property
    def _ended(self) -> Path:
        """What an error that ends the driver is written to."""
        return self.root / f"driver-{self.starts}.ended.log"

    def last_words(self) -> str:
        """Return the error that ended the driver, or else what it said last, without Java's stack traces."""
        found, lines = (self._ended, 0) if self._ended.exists() else (self.log, 40)
        said = found.read_text(errors="replace").splitlines()
        return "\n".join([line for line in said if not line.startswith(("\tat ", "WARNING:"))][-lines:])

    @property
    def driver(self) -> psutil.Process:
        """The driver's process."""
        assert self._driver is not None
        return psutil.Process(self._driver.pid)

    @property
    def broker_process(self) -> psutil.Process:
        """The broker's process."""
        known = find_broker(self.broker.directory)
        assert known is not None
        return psutil.Process(known.pid)

    def await_results(self) -> None:
        """Wait until the first results are there, and a controller has changed something."""
        self._wait(self._has_results, "the first results")
        self._wait(lambda: self.controller.plans() > 0, "the first plan")

    def check(self) -> None:
        """Raise where the driver or its controller has ended by itself; one that was killed is followed by another."""
        assert self._driver is not None
        self.processes()
        code = self._driver.poll()
        if (
            code is not None
            and not self.is_done
            and self._was_full
            and any(text in self.last_words() for text in _FULL)
        ):
            # It may end over a full disk if it says so, and goes on when it is started again.
            self.start_driver()
        elif code is not None and not self.is_done:
            raise BrokenError(f"the driver ended with {code}: {self.last_words()}")
        if not self.is_done and (said := self.controller.tend(self._run)):
            raise BrokenError(said)
        if self._failed:
            raise BrokenError(f"an event could not be sent: {self._failed[0]}")

    @property
    def is_done(self) -> bool:
        """Whether all is through."""
        return (self.root / "done").exists()

    def kill_driver(self) -> None:
        """Kill driver and virtual machine at once, as a loss of power does; others find out by themselves."""
        assert self._driver is not None
        self.processes()
        with suppress(ProcessLookupError):
            os.killpg(self._driver.pid, signal.SIGKILL)
        self._driver.wait()

    def start_second_driver(self) -> None:
        """Start another driver while one is at work, and wait until the first has seen that it is over."""
        first = self._driver
        assert first is not None
        self.processes()
        self.start_driver()
        self._wait(lambda: first.poll() is not None, "a driver that another has taken over from to end")

    def processes(self, word: str = "") -> list[psutil.Process]:
        """Return the processes of the run whose command has a word."""
        try:
            found = self.driver.children(recursive=True)
        except psutil.Error:
            return []
        self._known |= {process.pid: process for process in found}
        return [process for process in found if word in command_of(process)]

    def workers(self) -> list[psutil.Process]:
        """Return the Python workers."""
        return python_workers(self.processes())

    def finish(self) -> dict[str, Any]:
        """Let all events through, compare what came out with what went in, and return what there was of it.

        Raises
        ------
        BrokenError
            When rows are lost or come twice.
        """
        self._stopped.set()
        self._feeding.join()
        self.check()
        written = self.root / "total.new"
        written.write_text(str(len(self._sent)))
        written.replace(self.root / "total")
        self._wait(lambda: self.is_done, "the rest to get through")
        expected = Counter((id, word, 2 * id) for id, word in self._sent)
        found_in = {sink: self._in_topic() if sink == "topic" else self._in_table() for sink in self._sinks}
        for place, rows in found_in.items():
            found = Counter(row[:3] for row in rows)
            lost, twice = expected - found, found - expected
            if lost or twice:
                raise BrokenError(
                    f"{place}: {lost.total()} lost {list(lost)[:3]}, {twice.total()} extra {list(twice)[:3]}"
                )
            self._check_states(place, rows)
        if len({frozenset(Counter(rows).items()) for rows in found_in.values()}) > 1:
            raise BrokenError("topic and table have other rows")
        steered = {"controllers": self.controller.starts, "plans": self.controller.plans()}
        return {"events": len(self._sent), "starts": self.starts, **steered}

    def _check_states(self, place: str, rows: list[Row]) -> None:
        """Raise unless the events of each word are numbered without a gap or a repetition; live, none is."""
        numbers: dict[str, list[int]] = defaultdict(list)
        for _, word, _, *nth in rows:
            numbers[word] += nth
        for word, seen in numbers.items():
            if sorted(seen) != list(range(1, len(seen) + 1)):
                raise BrokenError(f"{place}: the state of {word!r} was lost or used twice")

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + _THROUGH_S
        while not condition():
            self.check()
            if time.monotonic() > deadline_s:
                raise BrokenError(f"waited {_THROUGH_S:g} s for {what}: {self.last_words()}")
            time.sleep(0.1)

    def _environment(self) -> dict[str, str]:
        more = dict(self.s3.environment) if self.s3 is not None else {}
        if self.proxy is not None:
            more["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{self.proxy.port}"
        more |= {"XDG_CACHE_HOME": str(self.disk / "cache"), "CHAOS_CLOCK": str(self.root / "clock")}
        paths = [str(CLOCK), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {**os.environ, **more, "PYTHONPATH": os.pathsep.join(paths)}

    def _mount(self) -> bool:
        """Give the run's files a disk of their own; return whether this machine lets us."""
        command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", str(self.disk)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _feed(self) -> None:
        """Send events, each once, whatever becomes of the broker."""
        producer = Producer({"bootstrap.servers": self.broker.servers, "enable.idempotence": True, "log_level": 0})

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                self._failed.append(str(error))

        while not self._stopped.wait(0.1):
            for _ in range(RATE // 10):
                event = len(self._sent), self._numbers.choice(WORDS)
                self._sent.append(event)
                value = json.dumps({"id": event[0], "word": event[1]})
                producer.produce("events", value, partition=event[0] % PARTITIONS, on_delivery=delivered)
            producer.poll(0)
        if left := producer.flush(_THROUGH_S):
            self._failed.append(f"{left} were not taken")

    @property
    def _columns(self) -> tuple[str, ...]:
        return ("id", "word", "twice") if self._live else ("id", "word", "twice", "nth")

    def _has_results(self) -> bool:
        if "topic" in self._sinks:
            return any(part.end for part in Topics(self.broker).cluster.offsets("results").values())
        return self.database.ask("SELECT to_regclass('results') IS NOT NULL", "chaos") == [True]

    def _in_topic(self) -> list[Row]:
        return [tuple(row[name] for name in self._columns) for row in Topics(self.broker).read("results")]

    def _in_table(self) -> list[Row]:
        return self.database.ask(f"SELECT {', '.join(self._columns)} FROM results", "chaos")

    def _end_driver(self) -> None:
        self.kill_driver()
        for process in self._known.values():
            with suppress(psutil.Error):
                process.kill()
