"""The run-time configuration of a topology (SPEC I2): replaced atomically, watched by readers in other processes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from foretide.depot import Depot
from foretide.errors import ConfigError
from foretide.files import replace_file
from foretide.records import Hiring

try:
    import fcntl
except ImportError:  # not on this platform: a single process writes
    fcntl = None  # type: ignore[assignment]

__all__ = ["Override", "RuntimeConfig", "RuntimeStore"]


@dataclass(frozen=True)
class Override:
    """A number of replicas that someone set by hand, whatever plans say, until an instant.

    Parameters
    ----------
    replicas : int
        How many.
    until_s : float
        When it ends, in seconds since the Unix epoch.
    reason : str
        Why, for readers of the decisions.
    """

    replicas: int
    until_s: float
    reason: str = ""


@dataclass(frozen=True)
class RuntimeConfig:
    """Everything that may change while a topology runs.

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
    overrides : mapping of str to Override
        Replicas set by hand, by operator; those that have ended may be among them.
    hiring : mapping of str to Hiring
        How stages hire slots for each batch, by stage; one that is missing has the replicas of its operators.

    Examples
    --------
    >>> config = RuntimeConfig(replicas={"split": 2, "count": 1}, overrides={"split": Override(5, until_s=60.0)})
    >>> config.active(59.0), config.active(60.0)
    ({'split': 5, 'count': 1}, {'split': 2, 'count': 1})
    """

    version: int = 0
    replicas: Mapping[str, int] = field(default_factory=dict)
    groupings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    paused: bool = False
    overrides: Mapping[str, Override] = field(default_factory=dict)
    hiring: Mapping[str, Hiring] = field(default_factory=dict)

    def __post_init__(self) -> None:
        read = {name: Override(**one) if isinstance(one, Mapping) else one for name, one in self.overrides.items()}
        object.__setattr__(self, "overrides", read)
        rules = {name: Hiring(**one) if isinstance(one, Mapping) else one for name, one in self.hiring.items()}
        object.__setattr__(self, "hiring", rules)

    def overridden(self, now_s: float) -> dict[str, int]:
        """Return the replicas that are set by hand at an instant, by operator."""
        return {name: override.replicas for name, override in self.overrides.items() if override.until_s > now_s}

    def active(self, now_s: float) -> dict[str, int]:
        """Return the replicas at an instant: those last requested, except where set by hand."""
        return {**self.replicas, **self.overridden(now_s)}


_KEPT = "runtime.json"


class RuntimeStore:
    """A run-time configuration in one file of a file system that all its readers share.

    A reader sees the old configuration or the new one, never a mixture; a file that did not change is not read
    again. Several processes may write, a controller and a service for instance: each change is made to what is in
    force at that moment, one after another.

    Parameters
    ----------
    path : path
        The file.
    keep : Depot, optional
        Where each change made here is kept as well, so that a driver on another machine can go on with it.

    Examples
    --------
    >>> import tempfile
    >>> store = RuntimeStore(Path(tempfile.mkdtemp()) / "runtime.json")
    >>> store.change(replicas={"split": 2}).version
    1
    >>> RuntimeStore(store.path).read().replicas["split"]
    2
    """

    def __init__(self, path: str | Path, keep: Depot | None = None) -> None:
        self.path, self._keep = Path(path), keep
        self._seen: tuple[int, int, int] | None = None
        self._config = RuntimeConfig()

    def restore(self) -> None:
        """Take over what is kept elsewhere, where nothing is here or an earlier version.

        Where nothing is kept there, what is here is of another run, which was in the same place.
        """
        if self._keep is None:
            return
        try:
            kept = self._keep.read(_KEPT)
        except FileNotFoundError:
            self.path.unlink(missing_ok=True)
            return
        with self._alone():
            if not self.path.exists() or json.loads(kept)["version"] > self.read().version:
                replace_file(self.path, kept)

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

    def overridden(self, now_s: float) -> dict[str, int]:
        """Return the replicas that are set by hand at an instant, by operator."""
        return self.read().overridden(now_s)

    def override(self, operator: str, override: Override | None, now_s: float) -> RuntimeConfig:
        """Set the replicas of an operator by hand, or with None end that; others that have ended are dropped."""
        with self._alone():
            config = self.read()
            kept = {name: one for name, one in config.overrides.items() if name != operator and one.until_s > now_s}
            return self._put(replace(config, overrides=kept if override is None else {**kept, operator: override}))

    def _put(self, config: RuntimeConfig) -> RuntimeConfig:
        config = replace(config, version=self.read().version + 1)
        body = json.dumps(asdict(config))
        replace_file(self.path, body)
        if self._keep is not None:
            self._keep.put(_KEPT, body.encode())
        return self.read()

    def change(self, **changes: Any) -> RuntimeConfig:
        """Put the present configuration in force with some fields changed.

        Mappings are merged key by key; only `hiring` is replaced, since a stage may stop to hire.
        """
        with self._alone():
            config = self.read()
            merged: dict[str, Any] = {
                name: {**getattr(config, name), **value} if isinstance(value, Mapping) and name != "hiring" else value
                for name, value in changes.items()
            }
            return self._put(replace(config, **merged))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep others from writing meanwhile, as far as the file system supports locks on a folder."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if fcntl is None:
            yield
            return
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            with suppress(OSError):
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

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
