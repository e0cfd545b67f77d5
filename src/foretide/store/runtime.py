"""The run-time configuration of a topology (SPEC I2): replaced atomically, watched by readers in other processes."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from foretide.errors import ConfigError

__all__ = ["RuntimeConfig", "RuntimeStore"]


@dataclass(frozen=True)
class RuntimeConfig:
    """All that may change while a topology runs.

    Parameters
    ----------
    version : int
        Counts the replacements.
    replicas : mapping of str to int
        Active replicas by operator; one that is missing has its initial number.
    groupings : mapping of str to mapping
        What to change about the grouping of an edge (by its name): options such as ``weights``.
    paused : bool
        Whether sources are to admit nothing new.
    """

    version: int = 0
    replicas: Mapping[str, int] = field(default_factory=dict)
    groupings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    paused: bool = False


class RuntimeStore:
    """A run-time configuration in one file of a file system that all its readers share.

    A reader sees the old configuration or the new one, never a mixture; a file that did not change is not read
    again. One process writes.

    Examples
    --------
    >>> import tempfile
    >>> store = RuntimeStore(Path(tempfile.mkdtemp()) / "runtime.json")
    >>> store.change(replicas={"split": 2}).version
    1
    >>> RuntimeStore(store.path).read().replicas["split"]
    2
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._seen: tuple[int, int, int] | None = None
        self._config = RuntimeConfig()

    def read(self) -> RuntimeConfig:
        """Return the configuration in force; the empty one while none was written.

        Raises
        ------
        ConfigError
            When the file is there but does not hold a configuration.
        """
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return self._config
        signature = (found.st_mtime_ns, found.st_size, found.st_ino)
        if signature != self._seen:
            self._config = self._load()
            self._seen = signature
        return self._config

    def replace(self, config: RuntimeConfig) -> RuntimeConfig:
        """Put `config` in force, with the next version number, and return it."""
        config = replace(config, version=self.read().version + 1)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(asdict(config), file)
            os.replace(temporary, self.path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        return self.read()

    def change(self, **changes: Any) -> RuntimeConfig:
        """Put the present configuration in force with some fields changed; mappings are merged key by key."""
        config = self.read()
        merged: dict[str, Any] = {
            name: {**getattr(config, name), **value} if isinstance(value, Mapping) else value
            for name, value in changes.items()
        }
        return self.replace(replace(config, **merged))

    def _load(self) -> RuntimeConfig:
        try:
            return RuntimeConfig(**json.loads(self.path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise ConfigError(
                str(self.path),
                expected="a run-time configuration in JSON",
                got=str(error),
                remedy="remove the file to start from the topology's own settings",
            ) from error
