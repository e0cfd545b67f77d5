"""One driver at a time: whoever starts a run takes it over from the one before, if that still goes on.

Each driver of a run takes the next number, by a file that only one can write. One that finds a later number ends. What
it has written by then is exact, since logs and sinks recognise a batch that comes twice; but Spark's checkpoint and
what a driver remembers are for one alone.

One who changes what runs have left, while nobody runs, takes a number too; but he takes over from nobody, nor anybody
from him.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from foretide.depot import Depot
from foretide.errors import ConfigError

__all__ = ["Reign"]

_LOG = logging.getLogger(__name__)
_FOLDER = "drivers"
# Seconds between two looks at whether another has taken over, and that the one before gets to see that it has ended.
_LOOK_S, _YIELD_S = 1.0, 10.0
_POLL_S = 0.1


@dataclass(frozen=True)
class _Driver:
    """Who has a number, and whether alone."""

    host: str
    pid: int
    since: str
    alone: bool = False

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"

    @property
    def is_this(self) -> bool:
        return (self.host, self.pid) == (socket.gethostname(), os.getpid())

    @property
    def is_gone(self) -> bool:
        """Whether it certainly has ended; of another machine nobody knows."""
        if self.host != socket.gethostname():
            return False
        try:
            with suppress(PermissionError):
                os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        return False


class Reign:
    """A driver's claim on a run; taking it waits a little for the driver before to see that it is over.

    Parameters
    ----------
    depot : Depot
        The place of the run.
    alone : bool
        Whether it is for one who changes what runs have left, and nobody may run meanwhile.

    Raises
    ------
    ConfigError
        When one who changes it is there, or whoever else where it is to be `alone`.
    """

    def __init__(self, depot: Depot, *, alone: bool = False) -> None:
        self._depot, self._alone = depot.inside(_FOLDER), alone
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        me = _Driver(socket.gethostname(), os.getpid(), since, alone)
        while True:
            before = self._depot.names()
            # Those who are there need not notice one who may not come.
            self._refuse(before)
            self._name = f"{int(before[-1]) + 1 if before else 1:09d}"
            if self._depot.put_if_absent(self._name, json.dumps(vars(me)).encode()):
                break
        try:
            # Numbers begin anew where nobody is left, so another may have come with a lower one.
            self._refuse([name for name in self._depot.names() if name != self._name])
        except ConfigError:
            self.release()
            raise
        self._looked_s = time.monotonic()
        for name in before:
            self._await_end(name)
        self._depot.delete(before)

    def check(self) -> None:
        """Raise a ConfigError where another driver has taken over; looks once a second at most."""
        if time.monotonic() - self._looked_s < _LOOK_S:
            return
        self._looked_s = time.monotonic()
        later = [self._read(name) for name in self._depot.names(after=self._name)]
        # One who wants to be alone sees this one, and goes.
        if drivers := [driver for driver in later if driver is not None and not driver.alone]:
            raise ConfigError(
                self._run,
                expected="to be its only driver",
                got=f"another that has taken over: {drivers[-1]}",
                remedy="nothing is lost, it goes on with what this one did not end; start a run in one place only",
            )

    def release(self) -> None:
        """Give it up; where that cannot be told, whoever comes next waits a little for nobody."""
        with suppress(OSError):
            self._depot.delete([self._name])

    @property
    def _run(self) -> str:
        return f"run in {self._depot.uri.rpartition('/')[0]}"

    def _refuse(self, before: Sequence[str]) -> None:
        """Refuse to come where somebody is whom nobody takes over from."""
        for name in before:
            driver = self._read(name)
            if driver is None or driver.is_gone or not (self._alone or driver.alone):
                continue
            what = "one whose state `foretide repartition` rewrites" if driver.alone else "one that is under way"
            file = f"{self._depot.uri}/{name}"
            raise ConfigError(
                self._run,
                expected="a run that has ended" if self._alone else "one that nobody is changing",
                got=f"{what}: {driver}",
                remedy=f"{'wait until that has ended' if driver.alone else 'stop it first'}; if that process is no "
                f"longer there, remove {file}",
            )

    def _await_end(self, name: str) -> None:
        driver = self._read(name)
        if driver is None or driver.is_this or driver.is_gone:
            return
        _LOG.warning("taking over from another driver of this run: %s", driver)
        deadline_s = time.monotonic() + _YIELD_S
        while name in self._depot.names() and not driver.is_gone and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)

    def _read(self, name: str) -> _Driver | None:
        try:
            found: dict[str, Any] = json.loads(self._depot.read(name))
        except FileNotFoundError:
            return None
        return _Driver(**found)
