"""The line between the driver and the tasks of a live stage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from foretide.spark.live.channel import ControlLine, ControlServer


@pytest.fixture
def server() -> Iterator[ControlServer]:
    server = ControlServer("127.0.0.1", "127.0.0.1")
    yield server
    server.close()


def connect(server: ControlServer, task: str, token: str | None = None) -> ControlLine:
    greeting = {"is": "here", "task": task, "seat": 0, "token": server.token if token is None else token}
    return ControlLine.connect(server.address, greeting)


def test_both_sides_hear_each_other_and_the_token_stays_where_it_is(server: ControlServer) -> None:
    line = connect(server, "one")
    assert server.events.get(timeout=10) == ("one", {"is": "here", "task": "one", "seat": 0})
    server.send("one", {"do": "end"})
    assert line.receive() == {"do": "end"}
    assert line.send({"is": "report"})
    assert server.events.get(timeout=10) == ("one", {"is": "report"})
    line.close()


def test_a_task_that_dies_is_known_to_be_gone(server: ControlServer) -> None:
    connect(server, "one").close()
    assert [server.events.get(timeout=10)[1].get("is") for _ in range(2)] == ["here", None]
    server.send("one", {"do": "end"})  # nobody is there: nothing happens


def test_who_does_not_know_the_token_is_refused(server: ControlServer) -> None:
    stranger = connect(server, "stranger", token="guess")
    assert stranger.receive() is None
    stranger.close()
    friend = connect(server, "friend")
    assert server.events.get(timeout=10)[0] == "friend"
    friend.close()


def test_a_task_hears_that_its_driver_is_gone(server: ControlServer) -> None:
    line = connect(server, "one")
    server.events.get(timeout=10)
    server.close()
    assert list(line.messages()) == []
    line.close()
