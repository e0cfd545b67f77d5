"""Reaching PostgreSQL: addresses without their secrets, the driver when it is needed, faults in plain words.

Used by the store of runs and by the sink. The driver, psycopg, comes with the extra ``postgres`` (ADR 0014).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from foretide.errors import ConfigError
from foretide.extras import needs_extra

if TYPE_CHECKING:
    from psycopg import Connection, Error

__all__ = ["PostgresAddress", "connect", "is_postgres", "is_transient", "reason", "remedy", "without_password"]

_SCHEMES = ("postgresql://", "postgres://")
_PASSWORD = re.compile(r"(://[^:/?#\s]*):[^\s]*@")
# Seconds: a connection that is silent is asked after so many whether it lives, and given up after so many more.
_ALIVE = {"keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3", "tcp_user_timeout": "30000"}
_CONNECT_S = 10
# What passes by itself: connection lost, resources short, someone else in the way, server going down or coming up.
_TRANSIENT_CLASSES = ("08", "40", "53", "57", "58")
_TRANSIENT = ("55P03", "25006")
# The protocol gives no code for a connection that the server refuses.
_REFUSALS = {
    "password authentication failed": "give the right password: in $PGPASSWORD, in ~/.pgpass, or in the address",
    "no password supplied": "give a password: in $PGPASSWORD, in ~/.pgpass, or in the address",
    "no pg_hba.conf entry": "let the server admit this user from here: pg_hba.conf",
    r'role ".*" does not exist': "check the user in the address, or make it with: createuser",
    r'database ".*" does not exist': "make the database with: createdb, or check its name in the address",
}
_STARTING = ("starting up", "shutting down", "recovery mode", "not yet accepting")


def is_postgres(text: object) -> bool:
    """Return whether a text is the address of a PostgreSQL database.

    >>> is_postgres("postgresql://localhost/runs"), is_postgres("runs.db")
    (True, False)
    """
    return isinstance(text, str) and text.startswith(_SCHEMES)


def without_password(text: str) -> str:
    """Return an address without its password; any other text as it is.

    >>> without_password("postgresql://ann:secret@db.example.org/runs")
    'postgresql://ann@db.example.org/runs'
    >>> without_password("postgresql:///runs?password=secret&port=5433")
    'postgresql:///runs?port=5433'
    """
    if "://" not in text:
        return text
    head, mark, query = _PASSWORD.sub(r"\1@", text).partition("?")
    kept = [part for part in query.split("&") if not part.lower().startswith(("password=", "sslpassword="))]
    return head + (mark + "&".join(kept) if kept != [""] and kept else "")


@dataclass(frozen=True)
class PostgresAddress:
    """Where a database is: ``postgresql://user@host:port/database``, with libpq's parameters after ``?``.

    What is left out comes from libpq's environment variables (``PGHOST``, ``PGPASSWORD`` and so on) and ``~/.pgpass``.
    One parameter is our own: ``schema`` names the schema to work in.

    Examples
    --------
    >>> address = PostgresAddress.of("postgresql://ann:secret@db.example.org/runs?schema=team")
    >>> print(address, address.schema)
    postgresql://ann@db.example.org/runs team
    """

    name: str
    conninfo: str = field(repr=False)
    schema: str | None = None
    password_env: str | None = None

    @classmethod
    def of(cls, url: str, password_env: str | None = None) -> PostgresAddress:
        """Read an address; `password_env` names the environment variable that holds the password.

        Raises
        ------
        ConfigError
            When it is not one.
        """
        expected = "an address such as postgresql://user@host:5432/database"
        if not is_postgres(url):
            raise ConfigError("address of PostgreSQL", expected=expected, got=repr(without_password(url)))
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise ConfigError("address of PostgreSQL", expected=expected, got=str(error)) from error
        if "@" in parts.path:
            encoded = "write '/' in a user or password as %2F"
            raise ConfigError(
                "address of PostgreSQL", expected=expected, got="'@' behind the first '/'", remedy=encoded
            )
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        rest = urlencode([pair for pair in pairs if pair[0] != "schema"])
        conninfo = f"postgresql://{parts.netloc}{parts.path}" + (f"?{rest}" if rest else "")
        given = dict(pairs)
        return cls(_name(parts.netloc, parts.path, given), conninfo, given.get("schema"), password_env)

    def __str__(self) -> str:
        return self.name

    def parameters(self) -> dict[str, Any]:
        """Return the options that the driver gets besides the address."""
        if self.password_env is None:
            return {}
        password = os.environ.get(self.password_env)
        if password is None:
            raise ConfigError(
                "password_env",
                expected=f"the password for {self.name} in the environment variable {self.password_env}",
                got="no such variable",
                remedy=f"set {self.password_env} before the start",
            )
        return {"password": password}


def _name(netloc: str, path: str, given: Mapping[str, str]) -> str:
    """Return an address to show: user, host and database, and no more."""
    login, _, host = netloc.rpartition("@")
    user = unquote(login.partition(":")[0]) or given.get("user", "")
    host = unquote(host) or given.get("host") or os.environ.get("PGHOST", "")
    database = unquote(path.lstrip("/")) or given.get("dbname") or os.environ.get("PGDATABASE", "")
    if host.startswith("/") or not host:
        return f"postgresql:///{database}" + (f"?host={host}" if host else "")
    return f"postgresql://{user}{'@' if user else ''}{host}/{database}"


def driver() -> Any:
    """Return psycopg.

    Raises
    ------
    ConfigError
        When it is not installed.
    """
    with needs_extra("postgres", "PostgreSQL"):
        import psycopg
    return psycopg


def connect(address: PostgresAddress, connect_s: float = _CONNECT_S) -> Connection:
    """Open a connection on which every statement is a transaction of its own, unless one is begun.

    Raises
    ------
    ConfigError
        When the driver is not installed, or the address cannot be read.
    psycopg.Error
        When the server refuses, or is not there.
    """
    psycopg = driver()
    asked = {"connect_timeout": max(2, round(connect_s)), "application_name": "foretide", "client_encoding": "UTF8"}
    try:
        named = psycopg.conninfo.conninfo_to_dict(address.conninfo)
    except psycopg.ProgrammingError as error:
        remedy_ = "see libpq's connection parameters; schema is the only one of our own"
        raise ConfigError(
            str(address), expected="parameters that libpq knows", got=str(error), remedy=remedy_
        ) from error
    opened: Connection = psycopg.connect(**{**_ALIVE, **asked, **named, **address.parameters()}, autocommit=True)
    return opened


def is_transient(error: Error) -> bool:
    """Return whether waiting may cure a fault: a server that restarts, a lock, a deadlock, a disk without room."""
    code = error.sqlstate
    if code is not None:
        return code.startswith(_TRANSIENT_CLASSES) or code in _TRANSIENT
    if not isinstance(error, driver().OperationalError):
        return False
    text = str(error)
    return any(word in text for word in _STARTING) or not any(re.search(pattern, text) for pattern in _REFUSALS)


def reason(error: Error) -> str:
    """Return what the server or the driver said, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("LINE ")]
    return " ".join(lines[:3]) or type(error).__name__


def remedy(error: Error, otherwise: str = "start the server, or check host and port in the address") -> str:
    """Return what to do about a fault."""
    if error.sqlstate == "42501":
        return "grant the user the right to make and write tables in this schema"
    if error.sqlstate == "53100":
        return "free disk space on the server"
    if "resolve host" in str(error):
        return "check the host in the address"
    return next((text for pattern, text in _REFUSALS.items() if re.search(pattern, str(error))), otherwise)
