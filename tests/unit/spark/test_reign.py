"""One driver of a run at a time: the one that starts last."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from waiting import wait_for

from foretide.depot import open_depot
from foretide.errors import ConfigError
from foretide.spark.driver import reign
from foretide.spark.driver.reign import Reign


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reign, "_LOOK_S", 0.0)


def note(path: Path, name: str, **driver: object) -> None:
    told = {"host": socket.gethostname(), "pid": 1, "since": "then", **driver}
    open_depot(path / "drivers").put(name, json.dumps(told).encode())


def names(path: Path) -> list[str]:
    return open_depot(path / "drivers").names()


def test_a_driver_that_another_has_taken_over_from_ends_and_says_from_whom(tmp_path: Path) -> None:
    first = Reign(open_depot(tmp_path))
    first.check()
    second = Reign(open_depot(tmp_path))
    with pytest.raises(ConfigError, match=r"run in .*: expected to be its only driver, got another .*: process \d+ on"):
        first.check()
    second.check()


def test_a_driver_that_was_stopped_leaves_nothing(tmp_path: Path) -> None:
    Reign(open_depot(tmp_path)).release()
    assert not names(tmp_path)


def test_one_that_died_on_this_machine_is_not_waited_for(tmp_path: Path) -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    note(tmp_path, "000000004", pid=done.pid)
    Reign(open_depot(tmp_path)).check()
    assert names(tmp_path) == ["000000005"]


def test_one_that_may_live_is_given_time_to_see_that_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    note(tmp_path, "000000004", host="elsewhere")
    seen: list[list[str]] = []

    def ends() -> None:
        wait_for(lambda: "process 1 on elsewhere" in caplog.text, 30)
        seen.append(names(tmp_path))
        open_depot(tmp_path / "drivers").delete(["000000004"])

    other = threading.Thread(target=ends)
    other.start()
    Reign(open_depot(tmp_path)).check()
    other.join()
    assert seen == [["000000004", "000000005"]]


def test_one_that_does_not_answer_is_taken_over_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reign, "_YIELD_S", 0.1)
    note(tmp_path, "000000004", host="elsewhere")
    Reign(open_depot(tmp_path)).check()
    assert names(tmp_path) == ["000000005"]


def test_looks_are_rare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reign, "_LOOK_S", 3_600.0)
    first = Reign(open_depot(tmp_path))
    Reign(open_depot(tmp_path))
    first.check()
