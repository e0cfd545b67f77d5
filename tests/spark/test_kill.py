"""Nothing is lost and nothing comes twice, whatever is killed: the driver, an executor, single Python workers."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import psycopg
import pyarrow.parquet as pq
import pytest
from postgres_server import PostgresServer

from foretide.traces import Replay, load_trace, payload
from foretide.transport import ArrowLog

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = Path(__file__).parent / "programs" / "kill_driver.py"
BATCH_ROWS = 250
# `make soak` runs these tests at full length.
KILLS = 10 if os.environ.get("FORETIDE_SOAK") else 3
SECONDS = 180.0

Row = tuple[int, int, str, int]
Write = Callable[..., str]


class Driver:
    """The driver program in a process of its own, to be started, killed and started again."""

    def __init__(self, root: Path, trace: str, master: str, server: str) -> None:
        self.root, self.starts = root, 0
        self._settings = {
            "root": str(root),
            "trace": trace,
            "master": master,
            "server": server,
            "batch_rows": BATCH_ROWS,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._known: dict[int, psutil.Process] = {}

    def start(self, die_after: str | None = None) -> None:
        for name in ("working", "done"):
            (self.root / name).unlink(missing_ok=True)
        self.starts += 1
        given = self.root / "settings.json"
        given.write_text(json.dumps({**self._settings, "seed": self.starts, "die_after": die_after}))
        with (self.root / f"driver-{self.starts}.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(PROGRAM), str(given)], stdout=log, stderr=log, start_new_session=True
            )

    def wait_for(self, name: str, seconds: float = SECONDS) -> None:
        """Wait until the program has written a file; it must not end otherwise."""
        deadline_s = time.monotonic() + seconds
        while not (self.root / name).exists():
            self.children()
            assert self._process is not None
            ended = self._process.poll()
            assert ended is None or (self.root / name).exists(), self._log()
            assert time.monotonic() < deadline_s, self._log()
            time.sleep(0.05)

    def wait_for_death(self) -> None:
        """Wait until the program has killed itself."""
        assert self._process is not None
        deadline_s = time.monotonic() + SECONDS
        while self._process.poll() is None:
            self.children()
            assert time.monotonic() < deadline_s, self._log()
            time.sleep(0.05)
        assert self._process.returncode == -signal.SIGKILL, self._log()

    def children(self, *words: str) -> list[psutil.Process]:
        """Return its processes, those with all of `words` in their command line."""
        found = []
        assert self._process is not None
        try:
            children = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.Error:
            return []
        for child in children:
            self._known[child.pid] = child
            if all(any(word in part for part in words_of(child)) for word in words):
                found.append(child)
        return found

    def kill(self) -> None:
        """Kill driver and JVM at once, as a machine does that loses power; others find out by themselves."""
        assert self._process is not None
        self.children()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End all that is left."""
        if self._process is not None:
            self.children()
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        for child in self._known.values():
            try:
                child.kill()
            except psutil.Error:
                pass

    def _log(self) -> str:
        return (self.root / f"driver-{self.starts}.log").read_text(errors="replace")[-4000:]


@pytest.fixture
def server(postgres: PostgresServer) -> str:
    """Return the address of a schema that the driver may fill."""
    schema = postgres.new_schema()
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return postgres.url(schema)


@pytest.fixture
def make_driver(tmp_path: Path, server: str) -> Iterator[Callable[[str, str], Driver]]:
    drivers: list[Driver] = []

    def make(trace: str, master: str) -> Driver:
        drivers.append(Driver(tmp_path, trace, master, server))
        return drivers[-1]

    yield make
    for driver in drivers:
        driver.close()


def expected_rows(trace: str) -> list[Row]:
    """Return what the program computes, by a batch computation."""
    replay = Replay(load_trace(trace), payload("words"), seed=0)
    return sorted(
        (row["id"], place, word.upper(), len(word))
        for batch in replay.events(0, replay.total_events, 0)
        for row in batch.to_pylist()
        if row["id"] % 97 != 5
        for place, word in enumerate(row["text"].split())
    )


def check_sinks(root: Path, trace: str, server: str) -> None:
    expected = expected_rows(trace)
    plain, _, schema = server.partition("&schema=")
    with psycopg.connect(plain) as connection:
        assert_same(connection.execute(f"SELECT id, place, word, letters FROM {schema}.words").fetchall(), expected)
    with closing(sqlite3.connect(root / "out.db")) as database:
        found: list[Row] = database.execute("SELECT id, place, word, letters FROM words").fetchall()
    assert_same(found, expected)
    table = pq.read_table(root / "files", columns=["id", "place", "word", "letters"])
    assert_same(list(zip(*(column.to_pylist() for column in table.columns), strict=True)), expected)
    log = ArrowLog(root / "run" / "dead-letters")
    pieces = log.segments(0, log.end_offset())
    letters = [row for piece in pieces for part in log.read(piece) for row in part.to_pylist()]
    total = Replay(load_trace(trace), payload("words"), seed=0).total_events
    assert sorted(json.loads(row["event"])["id"] for row in letters) == list(range(5, total, 97))


def assert_same(found: list[Row], expected: list[Row]) -> None:
    """Compare as multisets, and say how many rows are lost or come twice rather than list them all."""
    missing, extra = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    assert (missing.total(), extra.total()) == (0, 0), f"lost {list(missing)[:3]} ..., too many {list(extra)[:3]} ..."


def uncommitted(root: Path, stage: str) -> set[int]:
    """Return the batches of a stage that Spark has planned and does not know to be done."""
    checkpoint = root / "run" / "stages" / stage / "checkpoint"
    planned, done = (
        {int(path.name) for path in (checkpoint / name).glob("[0-9]*") if path.name.isdecimal()}
        for name in ("offsets", "commits")
    )
    return {batch for batch in planned if batch > max(done, default=-1)}


def test_a_driver_that_is_killed_again_and_again_loses_nothing_and_repeats_nothing(
    make_driver: Callable[[str, str], Driver], write_trace: Write, tmp_path: Path, server: str
) -> None:
    numbers = random.Random(20)
    trace = write_trace(*[1000.0] * (KILLS + 1))
    driver = make_driver(trace, "local[2]")
    for kill in range(KILLS):
        moment = ("after shout", "any time", "after in", "at the start")[kill % 4]
        if moment.startswith("after"):
            stage = moment.removeprefix("after ")
            driver.start(die_after=stage)
            driver.wait_for_death()
            assert uncommitted(tmp_path, stage)
            continue
        driver.start()
        if moment == "any time":
            driver.wait_for("working")
        time.sleep(numbers.uniform(0.0, 3.0 if moment == "any time" else 9.0))
        driver.kill()
    driver.start()
    driver.wait_for("done")
    check_sinks(tmp_path, trace, server)


def candidates_for(victim: str, driver: Driver) -> list[psutil.Process]:
    """Return the processes of a kind, waiting for one: right after a kill, its successor is still to come.

    There are none when all input is through.
    """
    deadline_s = time.monotonic() + SECONDS
    while time.monotonic() < deadline_s:
        if (driver.root / "done").exists():
            return []
        found = driver.children(
            "CoarseGrainedExecutorBackend" if victim == "executor" else "foretide.spark.pool.daemon"
        )
        if victim == "worker":
            # Forks of the daemon are the workers; the daemon itself is their parent.
            daemons = {process.pid for process in found}
            found = [process for process in found if parent_of(process) in daemons]
        if found:
            return sorted(found, key=lambda process: process.pid)
        time.sleep(0.1)
    raise AssertionError(f"no {victim} to kill within {SECONDS} s")


def words_of(process: psutil.Process) -> list[str]:
    """Return the words of a command line, none when the process has ended; it may still be listed as a zombie."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def parent_of(process: psutil.Process) -> int | None:
    """Return the parent's number, or None when the process is gone."""
    try:
        return process.ppid()
    except psutil.NoSuchProcess:
        return None


def test_executors_and_workers_that_are_killed_cost_no_row(
    make_driver: Callable[[str, str], Driver], write_trace: Write, tmp_path: Path, server: str
) -> None:
    numbers = random.Random(21)
    trace = write_trace(*[1000.0] * 8)
    driver = make_driver(trace, "local-cluster[2,1,1024]")
    driver.start()
    driver.wait_for("working")
    victims = ["worker", "executor", "worker"] * (2 if KILLS > 3 else 1)
    killed = set()
    for victim in victims:
        time.sleep(numbers.uniform(0.2, 1.0))
        if found := candidates_for(victim, driver):
            numbers.choice(found).kill()
            killed.add(victim)
    driver.wait_for("done")
    assert killed == {"worker", "executor"}
    check_sinks(tmp_path, trace, server)
