"""A server that speaks S3's language on this machine, for development and tests: S3Proxy, from Maven Central."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from foretide.errors import ForetideError
from foretide.kafka.broker import free_port
from foretide.kafka.jars import fetch, find_program

__all__ = ["S3PROXY", "S3Server"]

# Its own build takes these annotations too; among all that it needs, Maven would find older ones first.
S3PROXY = ("org.gaul:s3proxy:4.1.0", "com.fasterxml.jackson.core:jackson-annotations:2.21")
_START_S = 60.0
_FLAGS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class S3Server:
    """S3Proxy in a process of its own; as a context, it is stopped in the end.

    Parameters
    ----------
    folder : path
        Where objects are kept, one folder for each bucket.
    buckets : sequence of str
        Buckets to make.
    host : str
        The address at which it listens.
    port : int
        The port; 0 takes a free one.
    key, secret : str
        The credentials that it takes.
    cache : path, optional
        Where its packages are kept, see `foretide.kafka.jars`.
    """

    def __init__(
        self,
        folder: Path,
        buckets: Sequence[str] = (),
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        key: str = "foretide",
        secret: str = "foretide-secret",
        cache: Path | None = None,
    ) -> None:
        self._folder, self._buckets, self._host, self._port = folder, tuple(buckets), host, port
        self._key, self._secret, self._cache = key, secret, cache
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """Where clients connect."""
        return f"http://{self._host}:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """What clients need in their environment."""
        return {
            "AWS_ACCESS_KEY_ID": self._key,
            "AWS_SECRET_ACCESS_KEY": self._secret,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
        }

    def start(self) -> None:
        """Start it, and return once it answers.

        Raises
        ------
        ConfigError
            When Java or Maven is missing.
        ForetideError
            When it does not come up.
        """
        java, jars = find_program("java", "an S3 server"), fetch(S3PROXY, self._cache)
        for bucket in self._buckets:
            (self._folder / bucket).mkdir(parents=True, exist_ok=True)
        self._port = self._port or free_port(self._host)
        with tempfile.NamedTemporaryFile("w", suffix=".properties", delete=False) as file:
            file.write(self._properties())
        log = tempfile.TemporaryFile()
        command = [java, *_FLAGS, "-cp", os.pathsep.join(map(str, jars)), "org.gaul.s3proxy.Main"]
        self._process = subprocess.Popen([*command, "--properties", file.name], stdout=log, stderr=log)
        try:
            self._await(log.fileno())
        finally:
            Path(file.name).unlink()
            log.close()

    def stop(self) -> None:
        """Stop it; objects stay."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def wait(self) -> None:
        """Return when it ends."""
        if self._process is not None:
            self._process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _properties(self) -> str:
        lines = {
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": self._key,
            "s3proxy.credential": self._secret,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(self._folder.absolute()),
            "jclouds.identity": "local",
            "jclouds.credential": "local",
        }
        return "".join(f"{name}={value}\n" for name, value in lines.items())

    def _await(self, log: int) -> None:
        assert self._process is not None
        deadline_s = time.monotonic() + _START_S
        while time.monotonic() < deadline_s and self._process.poll() is None:
            try:
                with socket.create_connection((self._host, self._port), timeout=1.0):
                    return
            except OSError:
                time.sleep(0.05)
        self.stop()
        said = os.pread(log, 4000, 0).decode(errors="replace").strip().splitlines()
        raise ForetideError(
            f"S3 server at {self.endpoint}: expected it to listen, got {' | '.join(said[-3:]) or 'nothing'}; "
            "see that the port is free"
        )
