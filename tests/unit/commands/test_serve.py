from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from postgres_server import PostgresServer
from typer.testing import CliRunner

from foretide.cli import app


def run(*arguments: str, token: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["serve", *arguments], env={"FORETIDE_TOKEN": token or ""})
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--host", "0.0.0.0"), "service.host"),
        (("--token", "short"), "at least 16 plain characters"),
        (("--set", "rate_per_s"), "a name and a value"),
        (("--set", "rates=3"), "service.rates"),
        (("--set", "burst=0"), "service.burst"),
        (("--host", "no.such.host.invalid", "--token", "0123456789abcdef"), "an address of this machine that is free"),
    ],
)
def test_wrong_options_are_explained(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    code, output = run("--store", str(tmp_path / "runs.db"), *arguments)
    assert code == 2 and words in output


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, output = run("--store", str(tmp_path / "runs.db"), "--port", str(taken.getsockname()[1]))
    assert code == 2 and "in use" in output and "--port" in output


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.slow
def test_it_serves_until_it_is_told_to_end(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    store = str(tmp_path / "runs.db")
    if kind == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        store = server.url(server.new_schema())
    start = "from foretide.cli import main; main()"
    command = [sys.executable, "-c", start, "serve", "--store", store, "--port", "0"]
    environment = {**os.environ, "FORETIDE_TOKEN": ""}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        url = process.stderr.readline().split()[1]
        try:
            with urllib.request.urlopen(f"{url}healthz", timeout=30) as answer:
                assert json.load(answer)["status"] == "up"
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
