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

import kill_driver
import psutil
import psycopg
import pyarrow.parquet as pq
import pytest
from postgres_server import PostgresServer
from pyspark.sql import SparkSession
from run_processes import command_of, python_workers
from waiting import wait_for

from foretide.spark import start
from foretide.traces import Replay, load_trace, payload
from foretide.transport import ArrowLog

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = Path(kill_driver.__file__)
BATCH_ROWS = 250
# `make soak` runs these tests at full length; what is killed at any time, `test_chaos` has in store too.
SOAK = bool(os.environ.get("FORETIDE_SOAK"))
KILLS = 10 if SOAK else 2
MOMENTS = ("after shout", "any time", "after in", "at the start") if SOAK else ("after shout", "after in")
SECONDS = 180.0
# Enough that tasks which were lost have been run again.
BATCHES_AFTER_KILLS = 4

Row = tuple[int, int, str, int]


class Driver:
    """The driver program in a process of its own, to be started, killed and started again."""

    def __init__(self, root: Path, trace: str, server: str) -> None:
        self.root, self.starts = root, 0
        self._settings = {"root": str(root), "trace": trace, "server": server, "batch_rows": BATCH_ROWS}
        self._process: subprocess.Popen[bytes] | None = None
        self._known: dict[int, psutil.Process] = {}

    def start(self, master: str, die_after: str | None = None) -> None:
        for name in ("batches", "done"):
            (self.root / name).unlink(missing_ok=True)
        self.starts += 1
        given = self.root / "settings.json"
        given.write_text(json.dumps({**self._settings, "master": master, "seed": self.starts, "die_after": die_after}))
        with (self.root / f"driver-{self.starts}.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(PROGRAM), str(given)], stdout=log, stderr=log, start_new_session=True
            )

    @property
    def done(self) -> bool:
        """Whether all input is through."""
        return (self.root / "done").exists()

    def batches(self) -> int:
        """Return how many batches are through since the last start."""
        written = self.root / "batches"
        return int(written.read_text()) if written.exists() else 0

    def wait_for_batches(self, count: int) -> None:
        """Wait until so many batches are through, or all input is; the program must not end otherwise."""
        wait_for(lambda: self.batches() >= count or self.done, SECONDS, check=self._check)

    def wait_for_death(self) -> None:
        """Wait until the program has killed itself."""
        assert self._process is not None
        wait_for(lambda: self._process.poll() is not None, SECONDS, check=self.children)
        assert self._process.returncode == -signal.SIGKILL, self._log()

    def _check(self) -> None:
        self.children()
        assert self._process is not None
        assert self._process.poll() is None or self.done, self._log()

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
            if all(word in command_of(child) for word in words):
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
def trace(write_trace: Callable[..., str]) -> str:
    return write_trace(*[1000.0] * (2 * KILLS + 2))


@pytest.fixture
def driver(tmp_path: Path, trace: str, server: str) -> Iterator[Driver]:
    driver = Driver(tmp_path, trace, server)
    yield driver
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
        counts = database.execute(
            "SELECT word, count(*), count(DISTINCT nth), max(nth) FROM words GROUP BY word"
        ).fetchall()
    assert_same(found, expected)
    # Every word was counted from 1 on, without a gap: no state was lost, and none used twice.
    assert all(number == different == most for _, number, different, most in counts)
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


def candidates_for(victim: str, driver: Driver) -> list[psutil.Process]:
    """Return the processes of a kind, waiting for one: right after a kill, its successor is still to come.

    There are none when all input is through.
    """

    def found() -> list[psutil.Process]:
        if victim == "executor":
            return driver.children("CoarseGrainedExecutorBackend")
        return python_workers(driver.children())

    wait_for(lambda: driver.done or found(), SECONDS)
    return sorted(found(), key=lambda process: process.pid)


def kill_around(driver: Driver, numbers: random.Random) -> set[str]:
    """Kill Python workers and an executor of a driver that lives on, and see it go on; return what was killed."""
    killed = set()
    for victim in ("worker", "executor", "worker"):
        time.sleep(numbers.uniform(0.2, 1.0))
        if found := candidates_for(victim, driver):
            numbers.choice(found).kill()
            killed.add(victim)
    driver.wait_for_batches(driver.batches() + BATCHES_AFTER_KILLS)
    return killed


def test_whatever_is_killed_nothing_is_lost_and_nothing_comes_twice(
    driver: Driver, spark: SparkSession, trace: str, tmp_path: Path, server: str
) -> None:
    numbers, killed = random.Random(20), set[str]()
    for kill in range(KILLS):
        moment = MOMENTS[kill % len(MOMENTS)]
        if moment.startswith("after"):
            stage = moment.removeprefix("after ")
            driver.start("local[2]", die_after=stage)
            driver.wait_for_death()
            assert uncommitted(tmp_path, stage)
            continue
        driver.start("local-cluster[2,1,1024]" if moment == "any time" else "local[2]")
        if moment == "any time":
            driver.wait_for_batches(1)
            killed |= kill_around(driver, numbers)
        time.sleep(numbers.uniform(0.0, 3.0 if moment == "any time" else 9.0))
        driver.kill()
    assert killed == ({"worker", "executor"} if SOAK else set())
    with start(kill_driver.topology(trace, tmp_path, server), spark, tmp_path / "run") as running:
        running.wait()
    check_sinks(tmp_path, trace, server)
