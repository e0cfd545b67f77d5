"""A PostgreSQL server of the tests' own: made in a temporary directory, gone with the process that started it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from certificates import Certificates

from foretide.kafka.broker import free_port

__all__ = ["PostgresServer", "UnavailableError", "find_programs"]

USER, PASSWORD, DATABASE = "foretide", "tide", "tests"
# Nothing here has to outlive a power cut; a crash of the server it has to.
SETTINGS = ("fsync=off", "full_page_writes=off", "shared_buffers=32MB", "max_connections=40")
SECONDS = 60.0


class UnavailableError(RuntimeError):
    """There is no server to be had here."""


def find_programs() -> Path:
    """Return the directory of initdb and postgres: Debian keeps them off the path."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: path.parts[-3].zfill(4))
    if not places:
        raise UnavailableError("no initdb found; run: sh scripts/ensure_postgres.sh")
    return places[-1].parent


class PostgresServer:
    """A server that listens on a Unix socket, where everyone is trusted, and at an address, with a password.

    Parameters
    ----------
    host : str
        The address; loopback unless it is to be reached from namespaces of the tests.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._host = host
        self._programs = find_programs()
        # Not below pytest's own directory, which no other user may enter, and short: socket paths are.
        self._root = Path(tempfile.mkdtemp(prefix="foretide-pg-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._schemas = count()
        self.port = free_port(host)
        try:
            self._make()
            self.start()
        except BaseException:
            self.close()
            raise

    def url(self, schema: str | None = None) -> str:
        """Return the address by socket."""
        more = f"&schema={schema}" if schema else ""
        return f"postgresql:///{DATABASE}?host={self._root}&port={self.port}&user={USER}{more}"

    def tcp_url(self, password: str = PASSWORD, database: str = DATABASE) -> str:
        """Return the address with a password."""
        return f"postgresql://{USER}:{password}@{self._host}:{self.port}/{database}"

    def make_schema(self) -> str:
        """Make a schema, and return its name."""
        name = self.new_schema()
        self.ask(f"CREATE SCHEMA {name}")
        return name

    def ask(self, sql: str, schema: str = "public") -> list[Any]:
        """Execute a statement, in a schema, and return its rows; of one column, what it holds."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"SET search_path = {schema}".encode())
            found = connection.execute(sql.encode())
            return [row[0] if len(row) == 1 else row for row in found] if found.description else []

    def new_schema(self) -> str:
        """Return the name of a schema that nobody has used yet."""
        return f"s{next(self._schemas)}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = [part for setting in SETTINGS for part in ("-c", setting)]
        command = [str(self._programs / "postgres"), "-D", str(self._root / "data"), "-p", str(self.port), *options]
        with (self._root / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._as_user([*command, "-k", str(self._root), "-h", self._host]),
                cwd=self._root,
                stdout=log,
                stderr=log,
            )
        self._wait()

    def encrypt(self, certificates: Certificates) -> None:
        """Offer TLS from now on."""
        for name, file in (("server.key", certificates.key), ("server.crt", certificates.certificate)):
            place = self._root / "data" / name
            shutil.copy(file, place)
            place.chmod(0o600)
            if os.getuid() == 0:
                shutil.chown(place, "postgres", "postgres")
        with (self._root / "data" / "postgresql.auto.conf").open("a") as settings:
            settings.write("ssl = on\n")
        self.restart()

    def stop(self, how: str = "fast") -> None:
        """Stop the server; "immediate" is a crash."""
        if self._process is not None and self._process.poll() is None:
            self._run("pg_ctl", "stop", "-D", str(self._root / "data"), "-m", how, "-w")
            self._process.wait(SECONDS)

    def restart(self, how: str = "fast") -> None:
        """Stop the server and start it again."""
        self.stop(how)
        self.start()

    @contextmanager
    def down(self, how: str = "fast") -> Iterator[None]:
        """Leave the server stopped for a while."""
        self.stop(how)
        try:
            yield
        finally:
            self.start()

    def close(self) -> None:
        """Stop the server and remove its files."""
        try:
            self.stop("immediate")
        finally:
            if self._process is not None and self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            shutil.rmtree(self._root, ignore_errors=True)

    def _make(self) -> None:
        if os.getuid() == 0:
            shutil.chown(self._root, "postgres", "postgres")
        secret = self._root / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        data, login = str(self._root / "data"), ["-U", USER, f"--pwfile={secret}"]
        auth = ["--auth-local=trust", "--auth-host=scram-sha-256", "--no-sync", "--locale=C.UTF-8", "--encoding=UTF8"]
        self._run("initdb", "-D", data, *login, *auth)
        with (self._root / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet scram-sha-256\n")

    def _wait(self) -> None:
        import psycopg

        deadline_s = time.monotonic() + SECONDS
        where = f"host={self._root} port={self.port} user={USER}"
        while True:
            try:
                with psycopg.connect(f"{where} dbname=postgres", autocommit=True) as connection:
                    if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone():
                        connection.execute(f"CREATE DATABASE {DATABASE}")
                    return
            except psycopg.OperationalError as error:
                ended = self._process is None or self._process.poll() is not None
                if ended or time.monotonic() > deadline_s:
                    said = (self._root / "log").read_text(errors="replace")[-2000:]
                    raise UnavailableError(f"the server does not start: {error}; {said}") from error
                time.sleep(0.05)

    def _run(self, program: str, *arguments: str) -> None:
        command = self._as_user([str(self._programs / program), *arguments])
        done = subprocess.run(command, cwd=self._root, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UnavailableError(f"{program} failed: {done.stderr.strip()[-2000:]}")

    @staticmethod
    def _as_user(command: list[str]) -> list[str]:
        """Return the command as one that root may give too, and whose process does not outlive ours."""
        root = os.getuid() == 0
        user = ["--reuid", "postgres", "--regid", "postgres", "--clear-groups"] if root else []
        return ["setpriv", *user, "--pdeathsig", "INT", *command]
