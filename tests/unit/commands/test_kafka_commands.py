"""``foretide kafka``: with a broker of paper, and once with a real one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from foretide.cli import app
from foretide.kafka import Broker, BrokerInfo, KafkaError, find_broker


def test_status_and_down_say_that_no_broker_runs(tmp_path: Path) -> None:
    runner = CliRunner()
    said = runner.invoke(app, ["kafka", "status", "--dir", str(tmp_path)])
    assert said.exit_code == 0 and "foretide kafka up" in said.output
    body = json.loads(runner.invoke(app, ["kafka", "status", "--dir", str(tmp_path), "--json"]).stdout)
    assert body == {"running": False, "servers": None, "process": None, "data": None, "log": None, "topics": {}}
    assert runner.invoke(app, ["kafka", "down", "--dir", str(tmp_path)]).exit_code == 0


def test_up_names_the_program_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("FORETIDE_CACHE", str(tmp_path / "cache"))
    said = CliRunner().invoke(app, ["kafka", "up", "--port", "0", "--dir", str(tmp_path / "broker")])
    assert said.exit_code == 2
    assert "expected the program mvn, got none on the PATH" in said.output


class PaperBroker:
    """A broker that only takes note of what is asked of it."""

    asked: list[str]

    def __init__(self, directory: Path, port: int, *, heap_mb: int) -> None:
        self.info = BrokerInfo(4711, f"127.0.0.1:{port}", str(directory))

    def start(self) -> BrokerInfo:
        self.asked.append("start")
        return self.info

    def wait(self) -> int:
        self.asked.append("wait")
        os.kill(os.getpid(), signal.SIGTERM)  # as `kill` from another terminal does
        return 0

    def stop(self) -> None:
        self.asked.append("stop")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return what is asked of the broker that ``up`` starts."""
    before, found = signal.getsignal(signal.SIGTERM), list[str]()
    monkeypatch.setattr("foretide.kafka.Broker", PaperBroker)
    monkeypatch.setattr(PaperBroker, "asked", found, raising=False)
    yield found
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("options", [[], ["--detach"], ["-d"]])
def test_up_leaves_the_broker_in_the_background(asked: list[str], tmp_path: Path, options: list[str]) -> None:
    said = CliRunner().invoke(app, ["kafka", "up", "--dir", str(tmp_path), *options])
    assert (said.exit_code, asked) == (0, ["start"])
    assert f"process  4711\ndata     {tmp_path}\nlog      {tmp_path}/broker.log\n" in said.stdout
    assert "foretide kafka down" in said.stderr


def test_in_the_foreground_the_broker_ends_with_the_command(asked: list[str], tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["kafka", "up", "--dir", str(tmp_path), "--foreground"])
    assert (said.exit_code, asked) == (0, ["start", "wait", "stop"])


def test_a_topic_that_cannot_be_made_leaves_no_broker(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise KafkaError("no room")

    monkeypatch.setattr("foretide.kafka.Cluster.ensure_topic", refuse)
    said = CliRunner().invoke(app, ["kafka", "up", "--dir", str(tmp_path), "--topic", "orders"])
    assert (said.exit_code, asked) == (2, ["start", "stop"])


def test_a_wrong_topic_is_refused_before_a_broker_starts(asked: list[str], tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["kafka", "up", "--dir", str(tmp_path), "--topic", "orders:none"])
    assert (said.exit_code, asked) == (2, [])
    assert "a number of partitions, such as orders:4" in said.output


@pytest.mark.kafka
def test_a_broker_outlives_the_command_that_started_it(kafka: Broker, tmp_path: Path) -> None:
    """The fixture is only there to skip the test where no broker can be started."""

    def foretide(command: str, *options: str) -> Any:
        code = "from foretide.cli import main; main()"
        words = [sys.executable, "-c", code, "kafka", command, "--dir", str(tmp_path), "--json", *options]
        return json.loads(subprocess.run(words, capture_output=True, check=True, timeout=120).stdout)

    started = foretide("up", "--port", "0", "--topic", "orders:3")
    try:
        running = find_broker(tmp_path)
        assert running is not None and (running.pid, running.servers) == (started["process"], started["servers"])
        shown = foretide("status")
        assert shown == {"running": True, **started, "topics": {"orders": {"partitions": 3, "events": 0}}}
        assert Path(shown["log"]).exists()
    finally:
        assert foretide("down") == {"stopped": started["servers"]}
    assert find_broker(tmp_path) is None and not foretide("status")["running"]
