"""The broker's launcher, as far as no broker is needed."""

from __future__ import annotations

import json
import os
import pickle
import socket
import uuid
from pathlib import Path

import psutil
import pytest

from foretide.errors import ConfigError, error_as_data, error_from_data
from foretide.kafka import Broker, BrokerError, DataLossError, KafkaError, TopicError, cache_directory, fetch
from foretide.kafka.broker import find_broker
from foretide.kafka.jars import find_program, pom


def test_the_cache_can_be_moved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("FORETIDE_CACHE", raising=False)
    assert cache_directory() == tmp_path / "xdg" / "foretide"
    monkeypatch.setenv("FORETIDE_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path


@pytest.mark.parametrize(("program", "remedy"), [("java", "openjdk-17"), ("mvn", "install -y maven")])
def test_a_missing_program_is_named_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, remedy: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ConfigError, match=f"expected the program {program}, got none on the PATH.*{remedy}"):
        find_program(program, "the Kafka broker")


def fake_program(folder: Path, name: str, script: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def test_packages_are_fetched_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = 'for word; do case $word in -DoutputDirectory=*) d=${word#*=};; esac; done; mkdir -p "$d"; : > "$d/a.jar"'
    fake_program(tmp_path, "mvn", f'{script}; echo x >> "{tmp_path}/calls"')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for _ in range(2):
        jars = fetch(["org.x:y:1.0"], tmp_path / "cache")
        assert [jar.name for jar in jars] == ["a.jar"]
    assert (tmp_path / "calls").read_text() == "x\n"


def test_what_maven_says_is_in_the_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_program(tmp_path, "mvn", "echo '[ERROR] Could not find artifact org.x:y'; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(KafkaError, match=r"org\.x:y:1\.0.*got Could not find artifact org\.x:y"):
        fetch(["org.x:y:1.0"], tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.jar"))


def test_a_project_names_each_package() -> None:
    assert pom(["a:b:1", "c:d:2"]).count("<dependency>") == 2


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(KafkaError, match=f"port {port}: expected it to be free"):
            Broker(tmp_path, port).start()


@pytest.mark.parametrize("reason", [KeyboardInterrupt(), BrokerError("x", "localhost:1", 2.0, "no answer")])
def test_a_broker_that_is_given_up_while_it_starts_is_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reason: BaseException
) -> None:
    fake_program(tmp_path, "java", 'case "$*" in *StorageTool*) exit 0;; esac; while :; do sleep 0.1; done')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("foretide.kafka.broker.fetch", lambda packages: [])
    broker, processes = Broker(tmp_path / "broker", port=0), list[int]()

    def give_up() -> None:
        assert broker._process is not None
        processes.append(broker._process.pid)
        raise reason

    monkeypatch.setattr(broker, "_await_answer", give_up)
    with pytest.raises(type(reason)):
        broker.start()
    [process] = processes
    assert not psutil.pid_exists(process)
    assert not (broker.directory / "broker.json").exists()


def test_a_cluster_whose_name_begins_with_a_dash_is_formatted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_program(tmp_path, "java", f'printf "%s\\n" "$@" > "{tmp_path}/words"')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("foretide.kafka.broker.uuid.uuid4", lambda: uuid.UUID(int=0xF8 << 120))
    Broker(tmp_path / "broker", port=0)._prepare("jars")
    assert "--cluster-id=-AAAAAAAAAAAAAAAAAAAAA" in (tmp_path / "words").read_text().splitlines()


def test_storage_that_cannot_be_formatted_is_tried_twice_and_named_by_its_cause(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = r'printf "Exception in thread main\\n\\tat a.b\\nCaused by: disk full\\n\\t... 8 more\\n" >&2'
    fake_program(tmp_path, "java", f'echo x >> "{tmp_path}/calls"; {said}; exit 1')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(KafkaError, match=r"expected its storage to be formatted, got \['Caused by: disk full'\]"):
        Broker(tmp_path / "broker", port=0)._prepare("jars")
    assert (tmp_path / "calls").read_text() == "x\nx\n" and "formatted once more, after" in caplog.text


def test_clients_elsewhere_reach_a_broker_at_the_address_it_was_given(tmp_path: Path) -> None:
    broker = Broker(tmp_path, 19092, host="127.0.0.9")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").touch()
    broker._prepare("")
    told = (tmp_path / "server.properties").read_text().splitlines()
    assert broker.servers == "127.0.0.9:19092"
    assert "advertised.listeners=PLAINTEXT://127.0.0.9:19092" in told
    assert any(line.startswith("listeners=PLAINTEXT://127.0.0.9:19092,CONTROLLER://127.0.0.1:") for line in told)
    assert Broker(tmp_path, 0)._controller == broker._controller


@pytest.mark.parametrize(
    "text",
    ["", "{", json.dumps({"pid": os.getpid(), "servers": "x", "directory": "y"})],
    ids=["empty", "torn", "another process"],
)
def test_a_process_that_is_no_broker_is_not_taken_for_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "broker.json").write_text(text)
    assert find_broker(tmp_path) is None
    Broker(tmp_path, 0).stop()


@pytest.mark.parametrize(
    "error",
    [
        BrokerError("source 'a'", "localhost:1", 2.0, "refused"),
        TopicError("sink 'b'", "orders", "localhost:1"),
        DataLossError("source 'a'", "orders", 3, "events", "none"),
    ],
)
def test_errors_survive_pickling_and_the_way_to_another_process_as_data(error: KafkaError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), error_from_data(json.loads(json.dumps(error_as_data(error))))):
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
