"""The controller beside a run: `foretide steer` in a process of its own, started again when it is gone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from foretide.errors import ForetideError
from foretide.store import RunStore

__all__ = ["SteeringProcess"]

_COMMAND = "from foretide.cli import main; main()"


class SteeringProcess:
    """A controller of whichever driver is at work.

    Parameters
    ----------
    root : Path
        Where its logs go, and where runs are recorded.
    path : str
        The run's directory, or its URI.
    environment : mapping of str to str
        What it finds set.
    """

    def __init__(self, root: Path, path: str, environment: Mapping[str, str]) -> None:
        self._root, self._path, self._environment = root, path, environment
        self._process: subprocess.Popen[bytes] | None = None
        self._run = ""
        self.starts = 0

    @property
    def store(self) -> Path:
        """Where runs are recorded."""
        return self._root / "runs.db"

    @property
    def process(self) -> psutil.Process | None:
        """Its process; None while there is none."""
        if self._process is None or self._process.poll() is not None:
            return None
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self._process.pid)
        return None

    def tend(self, run: str) -> str:
        """See to it that a run is steered, once it is recorded; return what a controller said that failed, or nothing.

        One that was killed, or whose run has ended, is followed by another.
        """
        failed = ""
        if self._process is not None and (code := self._process.poll()) is not None:
            # A negative code is the signal by which it was killed.
            failed = f"the controller ended with {code}: {self._last_words()}" if code > 0 else ""
            self._process = None
        if run != self._run:
            self.end()
        if self._process is None and not failed and self._is_recorded(run):
            self._start(run)
        return failed

    def end(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def plans(self) -> int:
        """Return how often replicas were changed by it and those before it."""
        logs = self._root.glob("controller-*.log")
        return sum(log.read_text(errors="replace").count("plan.applied: ") for log in logs)

    def _start(self, run: str) -> None:
        self._run, self.starts = run, self.starts + 1
        command = [sys.executable, "-c", _COMMAND, "steer", run, "--path", self._path, "--store", str(self.store)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--td", "1"], stdout=log, stderr=log, env=self._environment, start_new_session=True
            )

    def _is_recorded(self, run: str) -> bool:
        try:
            with RunStore(self.store, threaded=False) as store:
                return any(info.name == run for info in store.runs())
        except ForetideError:  # it is being made
            return False

    @property
    def _log(self) -> Path:
        """What the present one says."""
        return self._root / f"controller-{self.starts}.log"

    def _last_words(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])
