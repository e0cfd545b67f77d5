"""The settings of the store of runs."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field, model_validator

from foretide.config import Settings
from foretide.postgres import is_postgres

__all__ = ["STORE_VARIABLE", "StoreSettings", "default_store", "default_store_path"]

#: The environment variable that names the store.
STORE_VARIABLE = "FORETIDE_STORE"


class StoreSettings(Settings):
    """How the store of runs writes, how long it keeps what, and how large it may grow."""

    flush_s: float = Field(default=0.5, gt=0, le=60, description="Seconds between two writes of what has accumulated.")
    queue: int = Field(
        default=20_000, ge=1, description="Records that may wait to be written; beyond that, the oldest are dropped."
    )
    queue_mb: float = Field(default=64.0, gt=0, description="Megabytes that waiting records may take, likewise.")
    lock_wait_s: float = Field(
        default=1.0, ge=0, le=60, description="Seconds that the writer waits for another process before it tries later."
    )
    retry_s: float = Field(
        default=30.0, gt=0, description="The most seconds between two attempts while the store cannot be written."
    )
    finish_s: float = Field(default=5.0, ge=0, description="The most seconds that the end of a run waits for the disk.")
    raw_hours: float = Field(
        default=24.0, ge=0, description="Hours for which every measurement is kept; after that, one for each minute."
    )
    keep_days: float = Field(default=30.0, gt=0, description="Days after which the records of a run are dropped.")
    keep_runs_days: float = Field(
        default=365.0, gt=0, description="Days after which a run itself, with its outcome, is dropped."
    )
    max_mb: float = Field(
        default=1024.0, ge=1, description="Megabytes that the store may take; beyond that, the oldest runs are dropped."
    )
    tidy_every_s: float = Field(default=600.0, gt=0, description="Seconds between two checks for expired records.")

    @model_validator(mode="after")
    def _ages_fit(self) -> StoreSettings:
        if not self.raw_hours / 24 <= self.keep_days <= self.keep_runs_days:
            raise ValueError("raw_hours of at most keep_days, and those of at most keep_runs_days")
        return self

    @property
    def max_bytes(self) -> int:
        """The most bytes that the store may take."""
        return int(self.max_mb * 2**20)


def default_store() -> str | Path:
    """Return where runs are stored by default: a file, or the address of a PostgreSQL database.

    ``FORETIDE_STORE`` names it. Without it, it is `default_store_path`.
    """
    named = os.environ.get(STORE_VARIABLE, "")
    return named if is_postgres(named) else default_store_path()


def default_store_path() -> Path:
    """Return the file that runs are stored in by default; other files are kept next to it.

    ``FORETIDE_STORE`` names the file. Without it, or if it names a server, it is in the user's folder for data
    (``XDG_DATA_HOME``, else ``~/.local/share``).

    >>> default_store_path().suffix
    '.db'
    """
    named = os.environ.get(STORE_VARIABLE)
    if named and not is_postgres(named):
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "foretide" / "runs.db"
